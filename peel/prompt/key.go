package prompt

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// hiddenPart is the length of the parts of a key that are hidden, in bytes.
const hiddenPart = 8

// hiddenMark is shown in the place of a key or a part of it.
const hiddenMark = "•••"

// A secretKey is the key of an API, with its parts. The zero value is no key.
type secretKey struct {
	text  string
	parts map[uint64]bool // all parts of hiddenPart bytes
}

func newSecretKey(text string) secretKey {
	k := secretKey{text: text, parts: map[uint64]bool{}}
	for i := 0; i+hiddenPart <= len(text); i++ {
		k.parts[binary.LittleEndian.Uint64([]byte(text[i:i+hiddenPart]))] = true
	}
	return k
}

// hide returns a text in which each part of the key of 8 bytes or more is replaced, also where its characters are
// escaped as in JSON, in JSON within JSON, or as in a URL. It looks for plain parts first: behind a % or \u they could
// be read as escaped.
func (k secretKey) hide(s string) string {
	if len(k.parts) == 0 || len(s) < hiddenPart {
		return s
	}
	s = k.hideFrom(s, []byte(s), func(i int) int { return i })
	plain, at := unescape(s)
	return k.hideFrom(s, plain, func(i int) int { return at[i] })
}

// hideFrom replaces the parts of the key in plain, whose bytes begin in s where at says.
func (k secretKey) hideFrom(s string, plain []byte, at func(int) int) string {
	var out strings.Builder
	done := 0 // bytes of s
	for i := 0; i+hiddenPart <= len(plain); i++ {
		if !k.parts[binary.LittleEndian.Uint64(plain[i:])] {
			continue
		}
		end := i + hiddenPart
		for end < len(plain) && k.parts[binary.LittleEndian.Uint64(plain[end-hiddenPart+1:])] {
			end++
		}
		out.WriteString(s[done:at(i)] + hiddenMark)
		done, i = at(end), end-1
	}
	if done == 0 {
		return s
	}
	return out.String() + s[done:]
}

// unescape returns the bytes that a text means, and for each byte, and for the end, where it begins in s.
func unescape(s string) (plain []byte, at []int) {
	plain, at = make([]byte, 0, len(s)), make([]int, 0, len(s)+1)
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && s[i] == '\\' {
			i++
		}
		c := byte(0) // a character that is in no key
		switch {
		case i == len(s):
		case i > start && s[i] == 'u' && i+5 <= len(s):
			if code, err := hex.DecodeString(s[i+1 : i+5]); err == nil {
				if code[0] == 0 {
					c = code[1]
				}
				i += 5
				break
			}
			c, i = s[i], i+1
		case s[i] == '%' && i+3 <= len(s):
			if code, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				c, i = code[0], i+3
				break
			}
			i++
		default:
			c, i = s[i], i+1
		}
		plain, at = append(plain, c), append(at, start)
	}
	return plain, append(at, len(s))
}

// hideIn returns a value, which has the types that package canon decodes, in whose texts the key is hidden.
func (k secretKey) hideIn(v any) any {
	switch v := v.(type) {
	case string:
		return k.hide(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = k.hideIn(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[k.hide(name)] = k.hideIn(e)
		}
		return out
	}
	return v
}
