package movein

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/private"
)

// minSecret is the length of the shortest value that is looked for in texts, in bytes. Shorter ones are in many texts
// by chance.
const minSecret = 6

// secrets are the values that the files of the repo must not have, the longest first: one may be a part of another.
type secrets []string

// secretsOf returns the values of the pillars of all hosts whose names or shapes say that they are secret. A value that
// is secret on one host is secret on all.
func pillarSecrets(hosts []Minion) secrets {
	found := map[string]bool{}
	var walk func(name string, v any, below bool)
	walk = func(name string, v any, below bool) {
		below = below || private.LooksSecret(name)
		switch v := v.(type) {
		case string:
			text := strings.TrimSpace(v) // a block of YAML ends with a newline, which templates often remove
			if len(text) >= minSecret && (below || private.Shape(text) != "") {
				found[text] = true
			}
		case json.Number:
			if len(v) >= minSecret && below && !private.IsCount(name) {
				found[v.String()] = true
			}
		case []any:
			for _, element := range v {
				walk(name, element, below)
			}
		case map[string]any:
			for key, value := range v {
				walk(key, value, below)
			}
		}
	}
	for _, h := range hosts {
		walk("", h.Pillar, false)
	}

	var all secrets
	for text := range found {
		all = append(all, text)
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return all
}

// in reports whether a value, or a key or an element of it, contains a secret.
func (s secrets) in(v any) bool {
	switch v := v.(type) {
	case string:
		return private.Shape(v) != "" || slices.ContainsFunc(s, func(secret string) bool {
			return strings.Contains(v, secret)
		})
	case []string:
		return slices.ContainsFunc(v, func(text string) bool { return s.in(text) })
	case []any:
		return slices.ContainsFunc(v, s.in)
	case map[string]string:
		for key, text := range v {
			if s.in(key) || s.in(text) {
				return true
			}
		}
		return false
	case map[string]any:
		for key, value := range v {
			if s.in(key) || s.in(value) {
				return true
			}
		}
		return false
	}
	return s.in(fmt.Sprint(v)) // a number or a boolean
}

// cover returns a text with private.Hidden in place of the secrets, as they are or as an error message quotes them.
func (s secrets) cover(text string) string {
	for _, secret := range s {
		quoted := strconv.Quote(secret)
		text = strings.ReplaceAll(text, secret, private.Hidden)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], private.Hidden)
	}
	if private.Shape(text) != "" {
		return private.Hide(text)
	}
	return text
}

// switches are values that are no secret: a switch, and the pattern that matches anything.
const switches = `(?:yes|no|true|false|on|off|\.\*)`

var isSwitch = regexp.MustCompile(`(?i)^` + switches + `$`)

// switched matches an option that is on or off, such as PasswordAuthentication: no, and NOPASSWD of sudo.
var switched = regexp.MustCompile(`(?i)[\w.-]*(?:passw|secret|token|auth|pass|cred)[\w.-]*["']?\s*[=:]\s*` +
	`(?:"` + switches + `"|'` + switches + `'|` + switches + `)(?:[,;}\n]|\s*$)|\bNOPASSWD:\s*[^\s,;"']+`)

// mask is like cover, and hides what looks like a secret in the text of a declaration.
func (s secrets) mask(text string) string {
	text = s.cover(text)
	var shown strings.Builder
	at := 0
	for _, m := range switched.FindAllStringIndex(text, -1) {
		shown.WriteString(private.Hide(text[at:m[0]]) + text[m[0]:m[1]])
		at = m[1]
	}
	return shown.String() + private.Hide(text[at:])
}

// isShown reports whether a value is no secret although its name looks like one: a switch, or a pattern of file names.
func isShown(name string, value any) bool {
	_, isBool := value.(bool)
	text, _ := value.(string)
	return isBool || name == "exclude_pat" || name == "include_pat" || isSwitch.MatchString(text)
}

// masked returns a value of a declaration with its keys and texts masked.
func (s secrets) masked(v any) any {
	switch v := v.(type) {
	case string:
		return s.mask(v)
	case json.Number:
		if s.in(v.String()) {
			return private.Hidden
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.masked(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			shown := s.mask(name)
			if out[shown] = s.masked(value); private.LooksSecret(name) && !isShown(name, value) {
				out[shown] = private.Hidden
			}
		}
		return out
	}
	return v
}
