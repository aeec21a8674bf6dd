package lint

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/private"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	// minNamed is the least length, in characters, of a secret that is found by its name.
	minNamed = 6
	// minShaped is the least length, in bytes, of a text with one of the shapes.
	minShaped = 15
)

var (
	inURL = regexp.MustCompile(`://[^/\s:@]*:([^/\s@]+)@`)
	// elsewhere matches a reference to a secret, an encrypted text, or a word that is no secret.
	elsewhere = regexp.MustCompile(`(?s)\$\{|\$\(|\{\{|^\$[A-Za-z_]\w*$|^<.*>$|^(/|\./|\.\./|~/)[\w./@-]*$` +
		`|^[a-z][a-z0-9+.-]*:/|^(arn|cmd|env|file|keyring|op|ref|secret|vault):` +
		`|^ENC\[|^\$ANSIBLE_VAULT|^-----BEGIN (AGE ENCRYPTED FILE|PGP MESSAGE)|^[*xX•.]+$` +
		`|^(disabled|enabled|optional|required)$`)
)

// naming says whether the name of a value names a secret.
type naming int

const (
	plain     naming = iota
	inherited        // the value is in a list or map with a plural name
	secret
	secrets
)

// namingOf leaves out credentials, which have a user and an address beside what is secret, and that has its own name.
func namingOf(key string) naming {
	switch {
	case !private.LooksSecret(key), strings.HasSuffix(strings.ToLower(key), "credentials"):
		return plain
	case strings.HasSuffix(key, "s") && !strings.HasSuffix(key, "ss"):
		return secrets
	}
	return secret
}

// Secrets returns the warnings about values that look like secrets in plain text, in the order of files. A warning
// shows no value, and no key that is a secret.
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
	s.found = append(s.found, strictyaml.Error{
		Pos:  at,
		Path: path,
		Msg:  "it looks like " + what + " in plain text; encrypt it with sops",
	})
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

// looksLike returns the kind of secret that a text seems to be, empty for none: it has one of the shapes, or its name
// names a secret and it is no reference.
func looksLike(text string, named bool) string {
	text = strings.TrimSpace(text)
	if len(text) >= minShaped {
		if shape := private.Shape(text); shape != "" {
			return shape
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
