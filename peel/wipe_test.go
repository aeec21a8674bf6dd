package peel_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// files returns the names in the data directory of the peel.
func (b *bench) files() (names []string) {
	b.t.Helper()
	all, err := os.ReadDir(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func TestAPeelThatIsWipedRunsNothingAgain(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 10s, return_job: true}\n")
		o := peel.Options{ID: id, DataDir: b.dir, URL: b.bus.URL(), Connect: b.bus.Options("peel", id.Wire()), Facts: target.Facts{"role": "web"}}
		p, err := peel.New(o)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		b.reported()
		b.ask(wire.Request{Function: "test.sleep", ID: "1h", Epoch: 1})

		b.ask(wire.Request{Function: "peel.wipe", Args: map[string]any{"peel": string(id)}, User: "ada", Epoch: 1})
		slept, wiped := b.returned(), b.returned()
		if slept.JID == wiped.JID || slept.Success == wiped.Success {
			t.Errorf("%+v and %+v", slept.Result, wiped.Result)
		}
		removal := &peel.RemovedError{}
		if err := <-done; !errors.As(err, &removal) || removal.By != "ada" || removal.Peel != id {
			t.Fatalf("the peel ended with %v", err)
		}

		// The process dies before it has deleted its data; the next one deletes them, and runs nothing.
		if all := b.files(); len(all) < 3 {
			t.Errorf("the data directory has %v", all)
		}
		b.drain()
		for range 2 {
			if _, err := peel.New(o); !errors.As(err, &removal) || !strings.Contains(err.Error(), "was removed from the fleet by ada at ") {
				t.Fatalf("it starts again: %v", err)
			}
			if all := b.files(); len(all) != 1 || all[0] != "removed" {
				t.Errorf("the data directory has %v", all)
			}
		}

		// Without the record the host can join again.
		if err := os.Remove(filepath.Join(b.dir, "removed")); err != nil {
			t.Fatal(err)
		}
		b.start()
	})
}

// The peel is stopped, or makes room for another program, when the removal is recorded and its result is not yet stored.
func TestAPeelThatStopsAfterTheRecordOfItsRemovalIsRemoved(t *testing.T) {
	for what, stop := range map[string]func(cancel func(), replace chan<- string){
		"stopped":  func(cancel func(), _ chan<- string) { cancel() },
		"replaced": func(_ func(), replace chan<- string) { replace <- "" },
	} {
		run(t, func(b *bench) {
			t := b.t
			replace := make(chan string)
			o := peel.Options{
				ID: id, DataDir: b.dir, URL: b.bus.URL(), Connect: b.bus.Options("peel", id.Wire()), Facts: target.Facts{"role": "web"},
				Replace: replace,
			}
			p, err := peel.New(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			synctest.Wait()
			_, err = peel.Wipe(p, ctx, module.Call{
				Args: map[string]any{"peel": string(id)}, User: "ada", JID: wire.NewJID(), AfterStored: func(func()) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			stop(cancel, replace)
			removal := &peel.RemovedError{}
			if err := <-done; !errors.As(err, &removal) || removal.By != "ada" {
				t.Errorf("%s: the peel ended with %v", what, err)
			}
		})
	}
}

func TestAWipeNamesItsPeelAndItsUser(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  wipe: {module: peel.wipe, args: {peel: "+string(id)+"}, interval: 50m, return_job: true}\n  beat: {module: test.ping, interval: 24h}\n")
		b.start()
		for peel, want := range map[string]string{"web.02": "nothing is deleted", "*": "nothing is deleted"} {
			b.ask(wire.Request{Function: "peel.wipe", Args: map[string]any{"peel": peel}, User: "ada", Epoch: 1})
			if r := b.returned(); r.Success || !strings.Contains(r.Error, want) {
				t.Errorf("for %s: %+v", peel, r.Result)
			}
		}
		if r := b.reported(); r.Success || !strings.Contains(r.Error, "a schedule cannot remove its host") {
			t.Errorf("scheduled: %+v", r)
		}
		dan := b.bus.Conn(b.t, "direct", "dan")
		if a := b.direct(dan, wire.DirectRequest{Function: "peel.wipe", Args: map[string]any{"peel": string(id)}})(); a.Success || !strings.Contains(a.Error, "no master would record it") {
			t.Errorf("directly: %+v", a)
		}
		if e := b.entry("beat"); e["state"] != "active" {
			t.Errorf("the entry is %v", e)
		}
	})
}
