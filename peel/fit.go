package peel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	keptHead  = 64 << 10 // bytes that are kept of a part that was too large
	leastHead = 256
	markSize  = 256 // at most, of what says that a part was cut
)

// room is how much of a payload a message may take: the rest is for headers, and for what masters put around it.
func room(maxPayload int64) int { return int(maxPayload - maxPayload/16) }

// A part of a message can be cut to its first bytes; it then says so, with its full size and digest.
type part struct {
	size int
	cut  func(keep int)
}

func fitReturn(r *wire.Return, limit int) ([]byte, error) {
	return fit(r, limit, func() ([]part, error) { return partsOf(&r.Result) })
}

func fitAnswer(a *wire.DirectAnswer, limit int) ([]byte, error) {
	return fit(a, limit, func() ([]part, error) { return partsOf(&a.Result) })
}

func fitRun(r *wire.ScheduledResult, limit int) ([]byte, error) {
	return fit(r, limit, func() ([]part, error) {
		parts, err := partsOf(&r.Result)
		args, bad := argsOf(r)
		return append(parts, args), errors.Join(err, bad)
	})
}

// fit encodes a message in at most limit bytes. Its parts, which are asked for where it does not fit as it is, are cut in
// their order, as many as is needed: to [keptHead], and where that is not enough, to less and less.
func fit(message any, limit int, parts func() ([]part, error)) ([]byte, error) {
	data, err := canon.Marshal(message)
	if err != nil || len(data) <= limit {
		return data, err
	}
	all, err := parts()
	if err != nil {
		return nil, err
	}
	for keep := keptHead; keep >= leastHead; keep /= 2 {
		for _, p := range all {
			if p.size <= keep+markSize {
				continue
			}
			p.cut(keep)
			if data, err = canon.Marshal(message); err != nil || len(data) <= limit {
				return data, err
			}
		}
	}
	return nil, fmt.Errorf("cannot make a message of %d bytes fit into %d", len(data), limit)
}

func partsOf(r *wire.Result) ([]part, error) {
	data, err := dataOf(r)
	return []part{data, errorOf(r)}, err
}

func dataOf(r *wire.Result) (part, error) {
	return excerptOf(r.Data, "output_truncated", func(short map[string]any) { r.Data = short })
}

func argsOf(r *wire.ScheduledResult) (part, error) {
	return excerptOf(r.Args, "args_truncated", func(short map[string]any) { r.Args = short })
}

// excerptOf is of a value in whose place put sets what tells about it. A value that was cut before is cut further.
func excerptOf(v any, mark string, put func(map[string]any)) (part, error) {
	if m, ok := v.(map[string]any); ok && m[mark] == true {
		head, _ := m["head"].([]byte)
		return part{size: len(head), cut: func(keep int) {
			short := maps.Clone(m)
			short["head"] = head[:keep]
			put(short)
		}}, nil
	}
	whole, err := canon.Marshal(v)
	if err != nil {
		return part{}, err
	}
	return part{size: len(whole), cut: func(keep int) {
		sum := sha256.Sum256(whole)
		put(map[string]any{mark: true, "bytes": int64(len(whole)), "sha256": hex.EncodeToString(sum[:]), "head": whole[:keep]})
	}}, nil
}

func errorOf(r *wire.Result) part {
	whole := r.Error
	return part{size: len(whole), cut: func(keep int) {
		r.Error = fmt.Sprintf("%s… [cut, %d bytes, sha256 %x]", strings.ToValidUTF8(whole[:keep], "\ufffd"), len(whole), sha256.Sum256([]byte(whole)))
	}}
}

// refit cuts the message of an item for a bus that carries less than the one for which it was stored.
func refit(item outbox.Item, limit int) ([]byte, error) {
	msg := &nats.Msg{Subject: item.Subject, Data: item.Payload}
	if isReport(item.Subject) {
		r, err := wire.DecodeScheduled(msg)
		if err != nil {
			return nil, err
		}
		return fitRun(&r, limit)
	}
	r, err := wire.DecodeReturn(msg)
	if err != nil {
		return nil, err
	}
	return fitReturn(&r, limit)
}

// isReport tells the subject of a scheduled run from that of a return.
func isReport(subject string) bool {
	jid, peel, err := wire.JobSubject(subject)
	return err == nil && subject == wire.ScheduledOf(jid, peel)
}
