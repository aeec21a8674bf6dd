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

// Sizes in bytes.
const (
	maxHead  = 64 << 10 // kept of the first part that is cut
	minHead  = 256
	markSize = 256 // of the mark of a part that was cut, at most
)

// usable returns how many bytes of a payload a message may take: the rest is for headers, and for what masters put around it.
func usable(maxPayload int64) int { return int(maxPayload - maxPayload/16) }

// A part of a message can be cut to its first bytes. It is then marked, with its full size and digest.
type part struct {
	size int // bytes
	cut  func(keep int)
}

// fit encodes a message in at most limit bytes. If it is larger, its parts are cut one after the other: to [maxHead], and while
// the message is still too large to half of that, down to [minHead].
func fit(message any, limit int, parts func() ([]part, error)) ([]byte, error) {
	data, err := canon.Marshal(message)
	if err != nil || len(data) <= limit {
		return data, err
	}
	all, err := parts()
	if err != nil {
		return nil, err
	}
	for keep := maxHead; keep >= minHead; keep /= 2 {
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

// fitReturn encodes a return in at most limit bytes.
func fitReturn(r *wire.Return, limit int) ([]byte, error) {
	return fit(r, limit, func() ([]part, error) { return partsOf(&r.Result) })
}

// fitScheduled encodes the report of a scheduled run in at most limit bytes.
func fitScheduled(r *wire.ScheduledResult, limit int) ([]byte, error) {
	return fit(r, limit, func() ([]part, error) {
		parts, err := partsOf(&r.Result)
		args, bad := partOf(r.Args, "args_truncated", func(short map[string]any) { r.Args = short })
		return append(parts, args), errors.Join(err, bad)
	})
}

// partsOf returns the data and the error of a result as parts.
func partsOf(r *wire.Result) ([]part, error) {
	data, err := partOf(r.Data, "output_truncated", func(short map[string]any) { r.Data = short })
	text := r.Error
	return []part{data, {size: len(text), cut: func(keep int) {
		r.Error = fmt.Sprintf("%s… [cut, %d bytes, sha256 %x]", strings.ToValidUTF8(text[:keep], "\ufffd"), len(text), sha256.Sum256([]byte(text)))
	}}}, err
}

// partOf returns the part whose cut replaces v, by calling set, with a map of v's first bytes, size and digest under the mark. If
// v is such a map already, cut shortens its first bytes.
func partOf(v any, mark string, set func(map[string]any)) (part, error) {
	if m, ok := v.(map[string]any); ok && m[mark] == true {
		head, _ := m["head"].([]byte)
		return part{size: len(head), cut: func(keep int) {
			short := maps.Clone(m)
			short["head"] = head[:keep]
			set(short)
		}}, nil
	}
	whole, err := canon.Marshal(v)
	if err != nil {
		return part{}, err
	}
	return part{size: len(whole), cut: func(keep int) {
		sum := sha256.Sum256(whole)
		set(map[string]any{mark: true, "bytes": int64(len(whole)), "sha256": hex.EncodeToString(sum[:]), "head": whole[:keep]})
	}}, nil
}

// refit cuts the message of an item for a bus that carries less than the one for which it was stored.
func refit(item outbox.Item, limit int) ([]byte, error) {
	msg := &nats.Msg{Subject: item.Subject, Data: item.Payload}
	if isScheduled(item.Subject) {
		r, err := wire.DecodeScheduled(msg)
		if err != nil {
			return nil, err
		}
		return fitScheduled(&r, limit)
	}
	r, err := wire.DecodeReturn(msg)
	if err != nil {
		return nil, err
	}
	return fitReturn(&r, limit)
}

// isScheduled reports whether a subject of a job is that of a scheduled run's report, and not of a return.
func isScheduled(subject string) bool {
	jid, peel, err := wire.JobSubject(subject)
	return err == nil && subject == wire.ScheduledOf(jid, peel)
}
