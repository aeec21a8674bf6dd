package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/private"
)

// secrets numbers the values that are not shown, so that a changed value is visible and equal values are equal. A
// number is used because the hash of a short value could be found by trying all values.
type secrets map[string]int

// conceal replaces values that are encrypted, and values whose name, or the name of a value around them, looks secret.
func (s secrets) conceal(name string, v Value) Value {
	hide := private.LooksSecret(name)
	return Value{Before: s.value(name, v.Before, hide), After: s.value(name, v.After, hide)}
}

func (s secrets) value(name string, v any, hide bool) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out[name] = s.value(name, v[name], hide || private.LooksSecret(name))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = s.value(name, inner, hide)
		}
		return out
	case string:
		hide = hide || strings.HasPrefix(v, "ENC[")
	default: // a number
		hide = hide && !private.IsCount(name)
	}
	if !hide {
		return v
	}
	key := text(v)
	if s[key] == 0 {
		s[key] = len(s) + 1
	}
	return fmt.Sprintf("(secret %d)", s[key])
}
