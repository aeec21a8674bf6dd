package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel"
)

func TestARemovedPeelIsCutOffAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zester := func(want int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := run(t.Context(), append([]string{"--data-dir", f.dir}, args...), &out, &errOut); code != want {
			t.Fatalf("zester %v ended with %d, want %d: %s%s", args, code, want, &out, &errOut)
		}
		return out.String() + errOut.String()
	}
	creds := filepath.Join(t.TempDir(), "app-01.creds")
	zester(exitOK, "auth", "issue", "peel", "app-01", "--out", creds)
	p, err := peel.New(peel.Options{ID: "app-01", DataDir: t.TempDir(), URL: f.url, CA: f.ca, Connect: []nats.Option{nats.UserCredentials(creds)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	defer func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	if err := f.until(ctx, `(?m)^app-01 +applied`, "sync", "peels"); err != nil {
		t.Fatal(err)
	}
	zester(exitOK, "auth", "join-token", "create", "--name", "image", "--peel", "app-*")
	zester(exitOK, "auth", "join-token", "create", "--name", "elsewhere", "--peel", "web-*")

	said := zester(exitOK, "peel", "remove", "app-01")
	for _, want := range []string{
		"app-01 is revoked: its key is never accepted again\n", "its facts, its settings and its last report are removed\n",
		"remains: the join token image admits a host of this ID", "remains: the data directory of zester-peel on the host",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, without %q", said, want)
		}
	}
	if strings.Contains(said, "elsewhere") {
		t.Errorf("a token for other hosts is said to remain: %q", said)
	}
	for _, args := range [][]string{{"peel", "list", "-o", "name"}, {"sync", "peels", "-o", "name"}} {
		if list := zester(exitOK, args...); strings.Contains(list, "app-01") {
			t.Errorf("%v: %s", args, list)
		}
	}
	zester(exitNoTarget, "app-01", "test.ping")
	if list := zester(exitOK, "auth", "peel", "list", "app-01"); !strings.HasPrefix(list, "app-01 is revoked") {
		t.Error(list)
	}

	// Again, and of no peel.
	if said := zester(exitOK, "peel", "remove", "app-01", "-o", "json"); !strings.Contains(said, `"revoked": true`) || !strings.Contains(said, `"removed": false`) {
		t.Errorf("the second time it says %s", said)
	}
	if said := zester(exitFailed, "peel", "remove", "nobody"); !strings.Contains(said, "no such peel is known") {
		t.Errorf("of nobody it says %s", said)
	}
}
