package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestARemovedPeelIsCutOffAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zester := f.zester(t)
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

// A host that says it was wiped may go on. Its credential is revoked all the same, so the fleet has no more of it.
func TestAPeelThatOnlyPretendsToDeleteItsDataIsCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zester := f.zester(t)
	nc := f.pretends(t, "liar-01", wire.Result{Error: "not today"}, wire.Result{Success: true})
	closed := nc.StatusChanged(nats.CLOSED)

	// What the host refuses, and what it cannot be asked, changes nothing.
	if said := zester(exitFailed, "peel", "remove", "liar-01", "--wipe"); !strings.Contains(said, "liar-01 does not delete its data: not today; its credential is as it was") {
		t.Errorf("it says %q", said)
	}
	if said := zester(exitFailed, "peel", "remove", "away-01", "--wipe"); !strings.Contains(said, "away-01 is offline: it cannot delete its data, and nothing was done") {
		t.Errorf("it says %q", said)
	}
	if said := zester(exitUsage, "peel", "remove", "liar-01", "--wipe", "--keep-credential"); !strings.Contains(said, "--wipe is for a host that leaves for good: leave out --keep-credential") {
		t.Errorf("it says %q", said)
	}
	for _, id := range []string{"liar-01", "away-01"} {
		if list := zester(exitOK, "peel", "list", "-o", "name"); !strings.Contains(list, id) {
			t.Errorf("%s is gone: %s", id, list)
		}
	}

	if said := zester(exitOK, "peel", "remove", "liar-01", "--wipe"); !strings.Contains(said, "liar-01 answers that it ends its schedule") || !strings.Contains(said, "liar-01 is revoked") {
		t.Errorf("it says %q", said)
	}
	<-closed
	if list := zester(exitOK, "peel", "list", "-o", "name"); strings.Contains(list, "liar-01") {
		t.Errorf("it is still in the fleet: %s", list)
	}
}

// A host whose answer is not known may have deleted its data. One that has answered and is gone is removed by another
// --wipe.
func TestAWipeWithoutAnAnswerIsNoRefusal(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zester := f.zester(t)
	nc := f.pretends(t, "mute-01", wire.Result{Outcome: wire.Interrupted, Error: "the peel was stopped"}, wire.Result{Success: true})
	if said := zester(exitFailed, "peel", "remove", "mute-01", "--wipe"); !strings.Contains(said, "mute-01 may have deleted its data: the peel was stopped; its credential is as it was") {
		t.Errorf("it says %q", said)
	}
	zester(exitOK, "mute-01", "peel.wipe", "peel=mute-01") // as if the revocation had failed
	nc.Close()
	if err := f.until(t.Context(), `(?m)^mute-01 +no`, "peel", "list"); err != nil {
		t.Fatal(err)
	}
	if said := zester(exitOK, "peel", "remove", "mute-01", "--wipe"); !strings.Contains(said, "mute-01 is revoked") {
		t.Errorf("it says %q", said)
	}
}

// zester returns what runs a command and returns what it prints.
func (f *fleet) zester(t *testing.T) func(want int, args ...string) string {
	return func(want int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := run(t.Context(), append([]string{"--data-dir", f.dir}, args...), &out, &errOut); code != want {
			t.Fatalf("zester %v ended with %d, want %d: %s%s", args, code, want, &out, &errOut)
		}
		return out.String() + errOut.String()
	}
}

// pretends connects a peel that gives these answers to peel.wipe and does nothing.
func (f *fleet) pretends(t *testing.T, id target.PeelID, results ...wire.Result) *nats.Conn {
	t.Helper()
	creds := filepath.Join(t.TempDir(), "peel.creds")
	f.zester(t)(exitOK, "auth", "issue", "peel", string(id), "--out", creds)
	nc, err := nats.Connect(f.url, nats.UserCredentials(creds), nats.RootCAs(f.ca), nats.MaxReconnects(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	answers := make(chan wire.Result, len(results))
	for _, r := range results {
		answers <- r
	}
	_, err = nc.Subscribe(wire.Cmd(id.Wire()), func(msg *nats.Msg) {
		q, err := wire.DecodeRequest(msg)
		if err != nil || q.Function != catalogue.Wipe || q.Args["peel"] != string(id) {
			t.Errorf("%v: %+v", err, q)
		}
		r := wire.Return{JID: q.JID, Peel: id, Result: <-answers, Epoch: q.Epoch, Finished: time.Now(), V: wire.Version}
		if data, err := canon.Marshal(r); err != nil || nc.Publish(wire.ReturnOf(q.JID, id.Wire()), data) != nil {
			t.Error(err)
		}
	})
	facts, e := wire.Facts{Peel: id, Facts: target.Facts{"rack": "r7"}, V: wire.Version}.Encode()
	beat := wire.Beat{Instance: wire.NewInstance(), Every: wire.MinHeartbeat}.Encode()
	err = errors.Join(err, e, nc.Publish(wire.Fact(id.Wire()), facts), nc.Publish(wire.Heartbeat(id.Wire()), beat))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.until(t.Context(), `(?m)^`+string(id)+` +yes`, "peel", "list"); err != nil {
		t.Fatal(err)
	}
	return nc
}
