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
	c.Args, c.Clock = nil, c.Clock.plain()
	b := e.Clock.appendCron(appendJSON(nil, c))
	if len(e.Args) > 0 {
		b = appendValue(b, e.Args)
	}
	return b
}

// TimingEqual tells whether both entries always fire at the same times; splay and windows are no part of
// it.
func (e *Entry) TimingEqual(o *Entry) bool {
	return bytes.Equal(e.Clock.canonical(), o.Clock.canonical())
}

// canonical leaves out what makes no difference to the kind of timing.
func (c Clock) canonical() []byte {
	plain := c.plain()
	if len(c.Cron) == 0 {
		plain.Changes = cron.Changes{}
	}
	if len(c.Cron) == 0 && c.Interval.Months == 0 {
		plain.Zone = ""
	}
	return c.appendCron(appendJSON(nil, plain))
}

// plain is the clock without expressions and without the phrase that they may come from.
func (c Clock) plain() Clock {
	c.Cron, c.When = nil, ""
	return c
}

func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("schedule: %T: %v", v, err)) // no field of the structs can fail
	}
	return append(b, text...)
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
