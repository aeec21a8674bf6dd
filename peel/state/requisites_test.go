//go:build linux

package state

import (
	"strings"
	"testing"
)

func TestOnChangesFromTheOtherSide(t *testing.T) {
	h := newHost(t)
	const both = `
conf: {file.managed: {path: DIR/conf, content: one}, onchanges_in: [log]}
log: {cmd.run: {command: "echo reload >> DIR/log"}}`

	h.wants(h.run(both, true), "conf: would_change intended", "log: would_change intended")
	h.wants(h.run(both, false), "conf: changed intended", "log: changed intended")
	h.wants(h.run(both, false), "conf: unchanged", "log: skipped onchanges_unmet")
	h.wants(h.run(strings.Replace(both, "one", "two", 1), false), "conf: changed intended", "log: changed intended")
	if got := h.read("log"); got != "reload\nreload\n" {
		t.Errorf("the command ran: %q", got)
	}
	if _, err := h.parse("a: {cmd.run: {command: x}, onchanges_in: [b]}"); err == nil || !strings.Contains(err.Error(), `there is no state "b"`) {
		t.Errorf("a name that no state has: %v", err)
	}
}
