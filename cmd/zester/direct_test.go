package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestDirectRequestsWorkWithoutAMaster(t *testing.T) {
	t.Parallel()
	bus := natstest.Listen(t)
	f := &fleet{dir: t.TempDir(), url: bus.URL(), ca: bus.CA(), keys: bus.Keys}
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	for _, id := range []target.PeelID{"web-01", "web-02", "db-01"} {
		if _, err := f.startPeel(ctx, g, id); err != nil {
			t.Fatal(err)
		}
	}
	creds, err := bus.Keys.Creds(grants.RoleDirect, "dan", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(f.dir, "dan.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := api.Connect(api.ClientOptions{URL: f.url, Creds: creds, CA: f.ca})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for known := 0; known < 3; {
		all, err := client.ResolveAlone(t.Context(), "*")
		if err != nil {
			t.Fatal(err)
		}
		known = len(all.Peels)
	}
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"--url", f.url, "--creds", file, "--ca", f.ca, "web-* and G@kernel:linux", "test.echo", "hello", "--direct", "--group"}, &out, &errOut)
	if code != exitOK || out.String() != "2 peels: web-01, web-02\n    hello\n" || !strings.HasPrefix(errOut.String(), "no master replies: ") {
		t.Errorf("%d, %q, %q", code, &out, &errOut)
	}
}
