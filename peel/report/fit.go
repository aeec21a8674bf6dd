// File fit.go encodes results so that a message of the bus can carry them: [FitReturn], [FitScheduled] and [FitAnswer]
// for a new result, [FitStored] for one that was encoded for a bus with larger messages. If a result is too large, its
// arguments, data or error are cut to their first bytes and marked with their full size and digest.

package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Sizes in bytes.
const (
	maxHead  = 64 << 10 // kept of the first part that is cut
	minHead  = 256
	markSize = 256 // of the mark of a part that was cut, at most
)

// A part of a message can be cut to its first bytes. It is then marked, with its full size and digest.
type part struct {
	size int // bytes
	cut  func(keep int)
}

// FitReturn encodes a return for a bus whose messages have at most maxPayload bytes.
func FitReturn(r *wire.Return, maxPayload int64) ([]byte, error) {
	return encode(r, maxPayload, func() ([]part, error) { return partsOf(&r.Result) })
}

// FitAnswer encodes the answer to a direct request for a bus whose messages have at most maxPayload bytes.
func FitAnswer(a *wire.DirectAnswer, maxPayload int64) ([]byte, error) {
	return encode(a, maxPayload, func() ([]part, error) { return partsOf(&a.Result) })
}

// FitScheduled encodes the report of a scheduled run for a bus whose messages have at most maxPayload bytes.
func FitScheduled(r *wire.ScheduledResult, maxPayload int64) ([]byte, error) {
	return encode(r, maxPayload, func() ([]part, error) {
		parts, err := partsOf(&r.Result)
		args, bad := partOf(r.Args, "args_truncated", func(short map[string]any) { r.Args = short })
		return append(parts, args), errors.Join(err, bad)
	})
}

// FitStored encodes again the return or report in an encoded message, for a bus whose messages have at most maxPayload
// bytes. It takes out the receipt, which is about the result before it was cut.
func FitStored(msg *nats.Msg, maxPayload int64) ([]byte, error) {
	if wire.IsScheduled(msg.Subject) {
		r, err := wire.DecodeScheduled(msg)
		if err != nil {
			return nil, err
		}
		r.Receipt = nil
		return FitScheduled(&r, maxPayload)
	}
	r, err := wire.DecodeReturn(msg)
	if err != nil {
		return nil, err
	}
	r.Receipt = nil
	return FitReturn(&r, maxPayload)
}

// encode encodes a message, which uses all but a sixteenth of the payload: that is for headers, and for what masters
// put around the message. If it is larger, its parts are cut one after the other: to [maxHead], and while the message
// is still too large to half of that, down to [minHead].
func encode(message any, maxPayload int64, parts func() ([]part, error)) ([]byte, error) {
	limit := int(maxPayload - maxPayload/16)
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

// partsOf returns the data and the error of a result as parts.
func partsOf(r *wire.Result) ([]part, error) {
	data, err := partOf(r.Data, "output_truncated", func(short map[string]any) { r.Data = short })
	text := r.Error
	return []part{data, {size: len(text), cut: func(keep int) {
		r.Error = fmt.Sprintf("%s… [cut, %d bytes, sha256 %x]", strings.ToValidUTF8(text[:keep], "\ufffd"), len(text),
			sha256.Sum256([]byte(text)))
	}}}, err
}

// partOf returns the part whose cut replaces v, by calling set, with a map of v's first bytes, size and digest under
// the mark. If v is such a map already, cut shortens its first bytes.
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
		set(map[string]any{
			mark:     true,
			"bytes":  int64(len(whole)),
			"sha256": hex.EncodeToString(sum[:]),
			"head":   whole[:keep],
		})
	}}, nil
}

// ErrorText returns the first [wire.MaxErrorText] bytes of a text.
func ErrorText(text string) string {
	if len(text) <= wire.MaxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:wire.MaxErrorText-len("…")], "") + "…"
}
