package review

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Names of what nobody should read in a comment, and those among them that count something.
var (
	secretive = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|api_?key|private_?key|_pat$|^pw$`)
	counting  = regexp.MustCompile(`(?i)[a-z]_tokens$`)
)

// secrets numbers the values that are not shown, so that one that changes differs from what it was, and equal ones are
// equal. A hash of a short one could be found by trying all of them.
type secrets map[string]int

// conceal replaces what the name of a value, or of one above it, says to be secret, and what is encrypted.
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
