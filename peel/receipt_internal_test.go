package peel

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// next is the number of a run that begins and ends.
func (r *receipts) next() uint64 {
	jid := wire.NewJID()
	r.begin(jid)
	return r.end(jid)
}

func TestNoNumberIsGivenTwice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "receipts")
	open := func() *receipts {
		t.Helper()
		r, err := openReceipts(file, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	for want := uint64(1); want <= 200; want++ {
		if n := r.next(); n != want {
			t.Fatalf("the run %d has the number %d", want, n)
		}
	}
	r.close()
	if r = open(); r.next() != 201 {
		t.Error("a number is left out after a peel that ended well")
	}

	// A peel that died: whatever it has numbered, the next number neither comes again nor follows the last.
	for range 200 {
		last := r.next()
		if r = open(); r.next() < last+2 {
			t.Fatalf("after a crash with the last number %d there is no gap", last)
		}
	}

	// A full disk: runs whose number is not on the disk have no receipt, and leave a gap, also if the peel dies.
	last := r.next()
	whole := r.file
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	r.file = full
	for range 3 * reserve {
		if n := r.next(); n != 0 {
			last = n
		}
	}
	if n := r.next(); n != 0 {
		t.Errorf("a number that is not on the disk is signed: %d", n)
	}
	r.file = whole
	if n := r.next(); n < last+2 {
		t.Errorf("with room again the number is %d, the last one was %d", n, last)
	}
	r.file = full
	for range 2 * reserve {
		if n := r.next(); n != 0 {
			last = n
		}
	}
	r.close()
	if r = open(); r.next() < last+2 {
		t.Error("after a death with a full disk there is no gap")
	}
	if _, err := openReceipts("/dev/full", nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a peel begins that cannot number its runs")
	}
}
