package peel_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Another package is installed while the upgrade waits.
func TestTheUpgradeThatWaitsIsTheLastOneThatWasInstalled(t *testing.T) {
	run(t, func(b *bench) {
		replace := make(chan string)
		b.options = func(o *peel.Options) { o.Replace = replace }
		b.start()
		b.ask(wire.Request{Function: "test.sleep", ID: "1h", Epoch: 1})
		time.Sleep(time.Second) // it runs
		program := filepath.Join(t.TempDir(), "zester-peel")
		install := func(version string) {
			if err := os.WriteFile(program, []byte("#!/bin/sh\necho "+version+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		want := func(text string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			if got := b.storedFacts()["zester_upgrade"]; got != text {
				t.Errorf("masters know %v, want %s", got, text)
			}
		}
		install("0.2.0")
		replace <- program
		want("0.2.0 waits for 1 command")
		install("0.3.0")
		want("0.3.0 waits for 1 command")
	})
}
