package peel

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// BenchmarkReceipt is what a receipt adds to a return: beside it is the encoding without one.
func BenchmarkReceipt(b *testing.B) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		b.Fatal(err)
	}
	r, err := openReceipts(filepath.Join(b.TempDir(), "receipts"), []nats.Option{nats.Nkey("", pair.Sign)}, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.sign = pair.Sign
	p := &Peel{receipts: r}
	p.current.Store(&inForce{})
	req := &wire.Request{Function: "test.echo", Args: map[string]any{"text": "all is well"}}
	ret := func() *wire.Return {
		return &wire.Return{JID: "x", Peel: "web-01", Result: wire.Result{Success: true, Data: "all is well"}, Finished: time.Now()}
	}
	b.Run("with", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.encodeReturn(ret(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("without", func(b *testing.B) {
		for b.Loop() {
			if _, err := report.FitReturn(ret(), wire.MaxMessage); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestAReceiptTakesAtMost200Bytes(t *testing.T) {
	r := &wire.Return{JID: wire.NewJID(), Peel: "web-01"}
	without, err := report.FitReturn(r, wire.MaxMessage)
	if err != nil {
		t.Fatal(err)
	}
	r.Receipt = &wire.Receipt{Number: 1 << 63, Document: string(make([]byte, 64)), Signature: make([]byte, wire.SignatureSize)}
	with, err := report.FitReturn(r, wire.MaxMessage)
	if err != nil || len(with)-len(without) > 200 {
		t.Errorf("%d bytes, %v", len(with)-len(without), err)
	}
}
