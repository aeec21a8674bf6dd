package review

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// secretive matches names of values that are not shown; counting matches the exceptions, which are numbers such as max_tokens.
var (
	secretive = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|api_?key|private_?key|_pat$|^pw$`)
	counting  = regexp.MustCompile(`(?i)[a-z]_tokens$`)
)

// secrets numbers the values that are not shown, so that a changed value is visible and equal values are equal. A number is
// used because the hash of a short value could be found by trying all values.
type secrets map[string]int

// conceal replaces values that are encrypted, and values whose name, or the name of a value around them, is secretive.
func (s secrets) conceal(name string, v Value) Value {
	hide := secretive.MatchString(name)
	return Value{Before: s.value(name, v.Before, hide), After: s.value(name, v.After, hide)}
}

func (s secrets) value(name string, v any, hide bool) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out[name] = s.value(name, v[name], hide || secretive.MatchString(name))
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
		hide = hide && !counting.MatchString(name)
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
