package schedule

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
)

// Canonical returns bytes that are equal exactly where two entries are: same name, same function with
// arguments of the same values and types, same times, same options. They are for comparing and hashing
// within one version of the program, not for reading back.
func (e *Entry) Canonical() []byte {
	c := *e
	c.Args, c.Clock.Cron = nil, nil
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("schedule: entry %s: %v", e.Name, err)) // no field of the struct can fail
	}
	b = e.Clock.appendCron(b)
	if len(e.Args) > 0 {
		b = appendValue(b, e.Args)
	}
	return b
}

// TimingEqual tells whether both entries always fire at the same times; splay is no part of it.
func (e *Entry) TimingEqual(o *Entry) bool {
	return bytes.Equal(e.Clock.canonical(), o.Clock.canonical())
}

func (c Clock) canonical() []byte {
	if c.Interval.Duration > 0 {
		c.Zone = ""
	}
	plain := c
	plain.Cron = nil
	b, err := json.Marshal(plain)
	if err != nil {
		panic(fmt.Sprintf("schedule: clock: %v", err)) // no field of the struct can fail
	}
	return c.appendCron(b)
}

// appendCron writes what the expressions match, in a fixed order and once each.
func (c Clock) appendCron(b []byte) []byte {
	exprs := slices.SortedFunc(slices.Values(c.Cron), cron.Expr.Compare)
	for i, x := range exprs {
		if i == 0 || x.Compare(exprs[i-1]) != 0 {
			b = x.Append(b)
		}
	}
	return b
}

// appendValue writes a plain value so that no two values have the same bytes: a letter for the type and
// the length of all that varies.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		return strconv.AppendBool(append(b, 'b'), v)
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(v))
	case string:
		return append(binary.AppendUvarint(append(b, 's'), uint64(len(v))), v...)
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(appendValue(b, k), v[k])
		}
		return b
	default:
		panic(fmt.Sprintf("schedule: argument of type %T", v)) // Node.Any gives no other type
	}
}
