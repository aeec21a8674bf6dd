package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestALargeAckIsRefusedUnread has a peel that sends masters more to decode than an acknowledgement says.
func TestALargeAckIsRefusedUnread(t *testing.T) {
	id := target.PeelID(strings.Repeat("x", target.MaxIDLength))
	jid := wire.NewJID()
	ack := wire.Ack{JID: jid, Peel: id, Epoch: 1<<64 - 1, Time: time.Now(), V: wire.Version}
	if a, err := wire.DecodeAck(message(t, wire.AckOf(jid, id.Wire()), ack)); err != nil || a.Peel != id {
		t.Errorf("an acknowledgement with the longest ID is %+v, %v", a, err)
	}
	for name, more := range map[string]any{"text": strings.Repeat("x", 4<<10), "list": make([]any, 500_000)} {
		large := map[string]any{"jid": jid, "peel_id": id, "epoch": 1, "timestamp": time.Now(), "v": wire.Version, "more": more}
		_, err := wire.DecodeAck(message(t, wire.AckOf(jid, id.Wire()), large))
		if err == nil || !strings.Contains(err.Error(), "bytes, the limit is 2048") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
