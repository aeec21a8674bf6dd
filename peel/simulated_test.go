package peel_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestASimulatedPeelDoesNotUseItsHost(t *testing.T) {
	run(t, func(b *bench) {
		b.options = func(o *peel.Options) { o.Simulated = true }
		b.start()
		if r := b.call("cmd.run", map[string]any{"command": "true"}); r.Success {
			t.Error("it ran a command")
		}
		b.ask(wire.Request{Function: "facts.items"})
		if r := b.returned(); len(r.Data.(map[string]any)) != 1 {
			t.Errorf("its facts are %v", r.Data)
		}
	})
}
