package private

import (
	"regexp"
	"strings"
	"sync"
)

// Hidden stands in a text for what looks like a secret.
const Hidden = "(hidden)"

// patterns are compiled when the first text is searched, because a peel at rest searches none.
type patterns struct {
	camel    *regexp.Regexp // the place between two words of camel case
	word     *regexp.Regexp // a word that names a secret, in a name of words separated by "_"
	about    *regexp.Regexp // the end of a name whose value is about a secret, but none
	assigned *regexp.Regexp // --NAME, NAME= or NAME: before a value; also Authorization: Bearer
	value    *regexp.Regexp // a value, up to its end
	inURL    *regexp.Regexp // the user and the password of a URL
	sealed   *regexp.Regexp // a value that sops encrypted
	shapes   []shape
}

// A shape is a pattern of secrets that are found whatever their name is.
type shape struct {
	name    string
	text    *regexp.Regexp
	isFleet bool // masters, peels and people of a fleet have such a secret to act in it
}

var compiled = sync.OnceValue(func() *patterns {
	re := regexp.MustCompile

	return &patterns{
		camel: re(`([a-z0-9])([A-Z])`),
		word: re(`passw|passphrase|secret|token|credential|authorization|(^|_)(pass|pw|pwd|pat|psk)s?(_|$)` +
			`|(access|api|auth|encryption|master|preshared|private|signing)_?key`),
		about: re(`_(ttl|timeout|lifetime|age|days|hours|minutes|seconds|expiry|expires|interval` +
			`|count|size|length|limit|bits|file|path|dir|url|uri|endpoint|name|type|policy|enabled|required)s?$`),
		assigned: re(`(?i)(?:^|\s)--?([a-z][\w-]*)[ \t]+|([\w.-]+)["']?\s*[=:]\s*(?:bearer |basic )?`),
		value:    re(`^(?:"[^"]*"|'[^']*'|[^\s"',;&]+)`),
		inURL:    re(`(://)[^\s/@]+@`),
		sealed:   re(`ENC\[[^\]]*\]`),
		shapes: []shape{
			{privateKey, re(`(?s)-----BEGIN [A-Z0-9 ]*` +
				`(?:PRIVATE KEY|SEED|CREDENTIALS|NATS USER JWT)[A-Z0-9 ]*-----.*?` +
				`(?:-----+END [A-Z0-9 ]*-----+|$)`), false},
			{"an identity of age", re(`\bAGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]+`), true},
			{"a seed of NATS", re(`\bS[AUNOCX][A-Z2-7]{56}\b`), true},
			{"a token of zester", re(`\bzester\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}\b`), true},
			{"an access key of AWS", re(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), false},
			{"a token of GitHub", re(`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,})`), false},
			{"a token of GitLab", re(`\bgl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{16,}`), false},
			{"a token of Slack", re(`\bxox[abeoprs]-[\w-]{10,}`), false},
			{"a key of Stripe", re(`\b[rs]k_live_[0-9A-Za-z]{16,}`), false},
			{"a key of Google", re(`\bAIza[\w-]{35}`), false},
			{"a token of Vault", re(`\bhv[sbr]\.[\w-]{24,}`), false},
			{"a token of npm", re(`\bnpm_[A-Za-z0-9]{36}\b`), false},
			{"a key of an API", re(`\bsk-[\w-]{16,}`), false},
			{"a signed token (JWT)", re(`\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*`), false},
		},
	}
})

const privateKey = "a private key" // name of a shape

// LooksSecret reports whether the name of a value, an argument or a variable says that the value is a secret:
// password, db.passwd, apiKey, AUTH-TOKEN, tokens. The name of a value about a secret does not say so: token_ttl,
// password_file.
func LooksSecret(name string) bool {
	p := compiled()
	name = p.camel.ReplaceAllString(name, "${1}_$2")
	name = strings.ToLower(separators.Replace(name))

	return p.word.MatchString(name) && !p.about.MatchString(name)
}

var separators = strings.NewReplacer("-", "_", ".", "_", " ", "_")

// IsCount reports whether a number whose name looks secret is a count: max_tokens.
func IsCount(name string) bool { return strings.HasSuffix(strings.ToLower(name), "tokens") }

// Shape returns what kind of secret a text contains, whatever its name is: "a private key". Empty means that it has
// the shape of none that is known.
func Shape(text string) string {
	for _, s := range compiled().shapes {
		if s.text.MatchString(text) {
			return s.name
		}
	}
	return ""
}

// Credential returns what kind of secret a text contains with which masters, peels and people act in a fleet: "a seed
// of NATS". Empty means that it has the shape of none.
func Credential(text string) string {
	for _, s := range compiled().shapes {
		if s.isFleet && s.text.MatchString(text) {
			return s.name
		}
	}
	return ""
}

// Hide returns a text with [Hidden] in place of what looks like a secret: a text with a known [Shape], the user and
// password of a URL, what sops encrypted, and the value of NAME=VALUE, NAME: VALUE or --NAME VALUE if [LooksSecret] of
// the name. token:NAME is not hidden, because it is the user of a program.
func Hide(text string) string {
	p := compiled()
	for _, s := range p.shapes {
		text = s.text.ReplaceAllString(text, Hidden)
	}
	text = p.inURL.ReplaceAllString(text, "${1}"+Hidden+"@")
	text = p.sealed.ReplaceAllString(text, Hidden)

	var shown strings.Builder
	for {
		m := p.assigned.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		shown.WriteString(text[:m[1]])
		name, assigned := text[max(m[2], m[4]):max(m[3], m[5])], text[m[0]:m[1]]
		text = text[m[1]:]

		if value := p.value.FindString(text); value != "" && LooksSecret(name) && assigned != "token:" {
			shown.WriteString(Hidden)
			text = text[len(value):]
		}
	}
	shown.WriteString(text)
	return shown.String()
}

// KeyIn returns what kind of private key or credential of a fleet a text has, and where it begins. A credential of a
// fleet comes before a key. Empty means that it has none.
func KeyIn(text string) (kind string, at int) {
	for _, s := range compiled().shapes {
		if !s.isFleet && s.name != privateKey {
			continue
		}
		if found := s.text.FindStringIndex(text); found != nil && (kind == "" || kind == privateKey) {
			kind, at = s.name, found[0]
		}
	}
	return kind, at
}

// NamesSecret reports whether a word of a text looks like the name of a secret. The value may be anywhere in the
// text.
func NamesSecret(text string) bool {
	between := func(r rune) bool { return strings.ContainsRune(" \t=:,;&?/\"'()[]{}<>", r) }
	for word := range strings.FieldsFuncSeq(text, between) {
		if LooksSecret(word) {
			return true
		}
	}
	return false
}
