package peel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// receipts numbers and signs what the peel runs. A receipt has a signature of its own: one for a batch of returns would
// save 50 µs of a core for each run, and have each return wait for the others and carry the hashes of a path among
// them.
//
// No number is given to two runs. The file has a number up to which runs may have been numbered, and has it on the disk
// before they are. After an end without [receipts.close], such as a crash of the host, at least one number is left out,
// so that readers see a gap even if the last runs could not be numbered.
type receipts struct {
	log  *slog.Logger
	sign func([]byte) ([]byte, error) // nil: the credential has no key

	mu     sync.Mutex
	file   *os.File
	last   uint64              // number that was given
	stored uint64              // numbers up to here may be given
	number map[wire.JID]uint64 // of runs that have begun and are not reported
}

// reserve is how many numbers are stored at once.
const reserve = 64

// sizeOfNumber is of the file, in bytes: a number, whether the peel ended well, and a checksum.
const sizeOfNumber = 8 + 1 + 4

// openReceipts reads the last number from a file. If the file is damaged the numbers begin again, which readers of
// receipts see. connect has the credential.
func openReceipts(file string, connect []nats.Option, log *slog.Logger) (r *receipts, err error) {
	r = &receipts{log: log, number: map[wire.JID]uint64{}}
	o := nats.GetDefaultOptions()
	o.ReconnectBufSize = -1 // as of the connection
	for _, set := range connect {
		if set != nil {
			_ = set(&o) // the connection fails with the same error
		}
	}
	r.sign = o.SignatureCB
	if r.file, err = os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("cannot number runs: %w", err)
	}
	var data [sizeOfNumber]byte
	_, err = r.file.ReadAt(data[:], 0)
	if err == nil && crc32.ChecksumIEEE(data[:9]) == binary.BigEndian.Uint32(data[9:]) {
		r.last = binary.BigEndian.Uint64(data[:])
		if data[8] == 0 {
			r.last++ // the gap
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = r.store(r.last+reserve, false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot number runs: %w", err), r.file.Close())
	}
	return r, nil
}

// store has numbers be given up to one.
func (r *receipts) store(upTo uint64, ended bool) error {
	data := append(binary.BigEndian.AppendUint64(nil, upTo), 0)
	if ended {
		data[8] = 1
	}
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	_, err := r.file.WriteAt(data, 0)
	if err == nil {
		err = r.file.Sync()
	}
	if err == nil {
		r.stored = upTo
	}
	return err
}

// close notes that all runs have ended.
func (r *receipts) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store(r.last, true); err != nil {
		r.log.Warn("number of the last run not stored: some numbers will be left out", "err", err)
	}
	_ = r.file.Close() // all is on the disk
}

// begin numbers a run that begins; its further attempts keep the number.
func (r *receipts) begin(jid wire.JID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, begun := r.number[jid]; !begun {
		r.number[jid] = r.nextLocked()
	}
}

func (r *receipts) nextLocked() uint64 {
	r.last++
	if r.last > r.stored {
		if err := r.store(r.last+reserve, false); err != nil {
			r.log.Warn("number of a run not stored: it has no receipt", "err", err)
		}
	}
	return r.last
}

// end returns the number of a run, and forgets it. Work that did not begin in this process gets the next number. It is
// 0 if the number could not be stored.
func (r *receipts) end(jid wire.JID) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, begun := r.number[jid]
	if !begun {
		n = r.nextLocked()
	}
	delete(r.number, jid)
	if n > r.stored {
		return 0
	}
	return n
}

// receipt returns a receipt with room for its signature, nil if the peel cannot sign.
func (p *Peel) receipt(jid wire.JID) *wire.Receipt {
	n := p.receipts.end(jid)
	if p.receipts.sign == nil || n == 0 {
		return nil
	}
	r := &wire.Receipt{Number: n, Signature: make([]byte, wire.SignatureSize)}
	if doc := p.current.Load().doc; doc != nil {
		r.Document = string(doc.Digest)
	}
	return r
}

// signed signs the statement of a receipt. Without a signature the receipt goes.
func (p *Peel) signed(s wire.Statement, err error, r **wire.Receipt) {
	if *r == nil {
		return
	}
	var text, signature []byte
	if err == nil {
		text, err = s.Text()
	}
	if err == nil {
		signature, err = p.receipts.sign(text)
	}
	if err != nil {
		p.log.Info("result has no receipt: it could not be signed", "jid", s.JID, "err", err)
		*r = nil
		return
	}
	(*r).Signature = signature
}

// encodeReturn numbers, cuts, signs and encodes a return.
func (p *Peel) encodeReturn(ret *wire.Return, req *wire.Request) ([]byte, error) {
	ret.Receipt = p.receipt(ret.JID)
	data, err := report.FitReturn(ret, wire.MaxMessage)
	if err != nil || ret.Receipt == nil {
		return data, err
	}
	call := ""
	if req.Function != "" {
		call = settings.Ran(strings.TrimSpace(req.Function+" "+req.ID), req.Args)
	}
	s, err := ret.Statement(call)
	p.signed(s, err, &ret.Receipt)
	return canon.Marshal(ret)
}

// encodeReport is encodeReturn for the report of a scheduled run.
func (p *Peel) encodeReport(r *wire.ScheduledResult) ([]byte, error) {
	r.Receipt = p.receipt(r.JID)
	data, err := report.FitScheduled(r, wire.MaxMessage)
	if err != nil || r.Receipt == nil {
		return data, err
	}
	s, err := r.Statement(settings.Ran(r.Function, r.Args))
	p.signed(s, err, &r.Receipt)
	return canon.Marshal(r)
}
