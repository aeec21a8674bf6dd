package lint

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	// minNamed is the least length, in characters, of a secret that is found by its name.
	minNamed = 6
	// minShaped is the least length, in bytes, of a text with one of the shapes.
	minShaped = 15
)

// shapes are patterns of secrets that are found in any value.
var shapes = []struct {
	name string
	text *regexp.Regexp
}{
	{"a private key", regexp.MustCompile(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)},
	{"an identity of age", regexp.MustCompile(`\bAGE-SECRET-KEY-(PQ-)?1[0-9A-Z]{40,}`)},
	{"a seed of NATS", regexp.MustCompile(`\bS[AUNOCX][A-Z2-7]{56}\b`)},
	{"a token of zester", regexp.MustCompile(`\bzester\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}\b`)},
	{"an access key of AWS", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a token of GitHub", regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})`)},
	{"a token of GitLab", regexp.MustCompile(`\bgl(pat|ptt|dt|rt|cbt|soat)-[\w-]{20,}`)},
	{"a token of Slack", regexp.MustCompile(`\bxox[abeoprs]-[\w-]{10,}`)},
	{"a key of Stripe", regexp.MustCompile(`\b[rs]k_live_[0-9A-Za-z]{16,}`)},
	{"a key of Google", regexp.MustCompile(`\bAIza[\w-]{35}`)},
	{"a token of Vault", regexp.MustCompile(`\bhv[sbr]\.[\w-]{24,}`)},
	{"a token of npm", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{"a signed token (JWT)", regexp.MustCompile(`\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}`)},
}

var (
	// secretive matches the end of a name, with words separated by "_"; its last group is "s" for a plural.
	secretive = regexp.MustCompile(`(passw(or)?d|(^|_)(passphrase|pass|secret|psk|token|auth_?token|(access|api|auth|encryption|master|preshared|private|secret|signing)_?key))(s?)$`)
	camel     = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	separator = strings.NewReplacer("-", "_", ".", "_", " ", "_")

	inURL = regexp.MustCompile(`://[^/\s:@]*:([^/\s@]+)@`)
	// elsewhere matches a reference to a secret, an encrypted text, or a word that is no secret.
	elsewhere = regexp.MustCompile(`(?s)\$\{|\$\(|\{\{|^\$[A-Za-z_]\w*$|^<.*>$|^(/|\./|\.\./|~/)[\w./@-]*$|^[a-z][a-z0-9+.-]*:/|^(arn|cmd|env|file|keyring|op|ref|secret|vault):` +
		`|^ENC\[|^\$ANSIBLE_VAULT|^-----BEGIN (AGE ENCRYPTED FILE|PGP MESSAGE)|^[*xX•.]+$|^(disabled|enabled|optional|required)$`)
)

// naming says whether the name of a value names a secret.
type naming int

const (
	plain     naming = iota
	inherited        // the value is in a list or map with a plural name
	secret
	secrets
)

func namingOf(key string) naming {
	m := secretive.FindStringSubmatch(strings.ToLower(separator.Replace(camel.ReplaceAllString(key, "${1}_$2"))))
	switch {
	case m == nil:
		return plain
	case m[len(m)-1] == "":
		return secret
	}
	return secrets
}

// Secrets returns the warnings about values that look like secrets in plain text, in the order of files. A warning shows no
// value, and no key that is a secret.
func (l *Linter) Secrets(files []*strictyaml.Node) strictyaml.Errors {
	var found strictyaml.Errors
	for _, f := range files {
		if _, seen := l.files[f]; !seen {
			s := search{keys: l.keys}
			s.node(f, "", plain)
			l.files[f] = s.found
		}
		found = append(found, l.files[f]...)
	}
	return found
}

// A search collects the warnings about a document.
type search struct {
	found strictyaml.Errors
	keys  map[string]key // cache for all documents
}

// A key is the result of checking the key of a map.
type key struct {
	looks string // result of looksLike
	as    naming
}

func (s *search) key(text string) key {
	k, met := s.keys[text]
	if !met {
		k = key{looksLike(text, false), namingOf(text)}
		s.keys[text] = k
	}
	return k
}

func (s *search) warn(at strictyaml.Pos, path, what string) {
	s.found = append(s.found, strictyaml.Error{Pos: at, Path: path, Msg: "it looks like " + what + " in plain text; encrypt it with sops"})
}

func (s *search) node(n *strictyaml.Node, path string, as naming) {
	switch n.Kind {
	case strictyaml.Map:
		for _, p := range n.Map {
			s.pair(p, path, as)
		}
	case strictyaml.List:
		for i, e := range n.List {
			s.node(e, fmt.Sprintf("%s[%d]", path, i), min(as, inherited))
		}
	case strictyaml.String:
		if what := looksLike(n.Value.(string), as != plain); what != "" {
			s.warn(n.Pos, path, what)
		}
	case strictyaml.Int:
		if as == secret && len(fmt.Sprint(n.Value)) >= minNamed {
			s.warn(n.Pos, path, "a secret")
		}
	}
}

func (s *search) pair(p strictyaml.Pair, path string, in naming) {
	k, name := s.key(p.Key), p.Key
	if k.looks != "" {
		name = sops.Shown
	}
	if path != "" {
		name = path + "." + name
	}
	if k.looks != "" {
		s.warn(p.KeyPos, name, k.looks)
	}
	if k.as == plain && in == secrets {
		k.as = inherited
	}
	s.node(p.Value, name, k.as)
}

// looksLike returns the kind of secret that a text seems to be, empty for none: it has one of the shapes, or its name names a
// secret and it is no reference.
func looksLike(text string, named bool) string {
	text = strings.TrimSpace(text)
	for _, s := range shapes {
		if len(text) >= minShaped && s.text.MatchString(text) {
			return s.name
		}
	}
	for _, m := range inURL.FindAllStringSubmatch(text, -1) {
		if hides(m[1]) {
			return "a password in a URL"
		}
	}
	if named && hides(text) {
		return "a secret"
	}
	return ""
}

func hides(text string) bool {
	return utf8.RuneCountInString(text) >= minNamed && !elsewhere.MatchString(text)
}
