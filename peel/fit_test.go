package peel_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// long is a text that no bus carries in one message.
var long = strings.Repeat("zester", 5<<20/6)

// excerpt checks that v stands for the whole of a value, and returns the bytes of it that are there.
func (b *bench) excerpt(v any, mark string, whole any) []byte {
	b.t.Helper()
	data, err := canon.Marshal(whole)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	m, _ := v.(map[string]any)
	head, _ := m["head"].([]byte)
	if m[mark] != true || m["bytes"] != int64(len(data)) || m["sha256"] != hex.EncodeToString(sum[:]) || !strings.HasPrefix(string(data), string(head)) {
		b.t.Errorf("%.300v", v)
	}
	return head
}

// grown gives the peel an entry with arguments that no request could bring.
func (b *bench) grown(function string, args map[string]any) {
	b.t.Helper()
	set, err := schedule.ParseSet(strictyaml.FromValue("peel.yaml", map[string]any{
		"big": map[string]any{"module": function, "args": args, "interval": "1h", "run_on_start": true, "return_job": true},
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.static = set
}

func TestAReturnOfFiveMegabytesIsCutAndMarked(t *testing.T) {
	run(t, func(b *bench) {
		b.grown("test.echo", map[string]any{"text": long})
		b.start()
		r := b.reported()
		if head := b.excerpt(r.Data, "output_truncated", long); len(head) != 64<<10 || !r.Success {
			t.Errorf("%d bytes are left, %v", len(head), r.Success)
		}
		b.excerpt(r.Args, "args_truncated", map[string]any{"text": long})
	})
}

func TestAnErrorOfFiveMegabytesIsCutAndMarked(t *testing.T) {
	run(t, func(b *bench) {
		b.grown("test.fail", map[string]any{"message": long})
		b.start()
		r := b.reported()
		if r.Success || !strings.HasPrefix(r.Error, long[:64<<10]+"… [cut, 5242878 bytes, sha256 ") {
			t.Errorf("%d bytes of error", len(r.Error))
		}
	})
}

func TestAReturnFitsABusThatCarriesLess(t *testing.T) {
	run(t, func(b *bench) {
		b.bus.Stop(t)
		b.bus.SetMaxPayload(32 << 10)
		b.bus.Start(t)
		b.start()
		text := strings.Repeat("x", 30<<10)
		if r := b.call("test.echo", map[string]any{"text": text}); r.Data != text {
			t.Errorf("what fits was changed: %.100v", r.Data)
		}
		command := map[string]any{"command": "head -c 100000 /dev/zero | tr '\\0' y; exit 3"}
		r := b.call("cmd.run", command)
		if m, _ := r.Data.(map[string]any); m["output_truncated"] != true || len(m["head"].([]byte)) != 16<<10 || r.Error != "exit status 3" {
			t.Errorf("%.300v", r)
		}
		if !strings.Contains(b.log.String(), "message cut, the bus carries less") {
			t.Error("nothing is in the log")
		}
	})
}

func TestAStoredReturnIsSentOverABusThatCarriesLess(t *testing.T) {
	run(t, func(b *bench) {
		b.grown("test.fail", map[string]any{"message": long})
		b.start()
		first := b.reported()
		b.bus.Stop(t)
		time.Sleep(90 * time.Minute)
		b.bus.SetMaxPayload(16 << 10)
		b.bus.Start(t)
		time.Sleep(time.Minute)
		r := b.reported()
		if r.JID == first.JID || r.Success || !strings.HasPrefix(r.Error, long[:4<<10]+"… [cut, ") {
			t.Errorf("%s: %d bytes of error", r.JID, len(r.Error))
		}
	})
}

func TestAReturnOfAMegabyteIsCutForTheBusAsItIs(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		text := long[:1_000_000]
		r := b.call("test.echo", map[string]any{"text": text})
		b.excerpt(r.Data, "output_truncated", text)
		if r := b.call("test.fail", map[string]any{"message": text}); !strings.HasPrefix(r.Error, text[:64<<10]+"… [cut, 1000000 bytes, sha256 ") {
			t.Errorf("%d bytes of error", len(r.Error))
		}
	})
}
