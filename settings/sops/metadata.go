package sops

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	maxRecipients = 100
	maxStanza     = 16 << 10 // bytes of the data key encrypted to one recipient
	maxPattern    = 1 << 10  // bytes of a regular expression
)

// metadata is the part of the key `sops` that is needed to decrypt the file. Other keys are ignored.
type metadata struct {
	recipients       []recipient
	rule             rule
	macOnlyEncrypted bool
	mac              string
	lastModified     string
}

// recipient is the data key, encrypted to one age recipient.
type recipient struct {
	name string
	enc  string
}

// A rule says which values are encrypted.
type rule struct {
	// matches reports whether a key above a value matches the rule. It is nil if the rule depends on comments; then a
	// value is encrypted if it looks encrypted.
	matches func(key string) bool
	inverse bool // a value is encrypted if no key above it matches
}

func (r rule) encrypted(path []string, value any) bool {
	if r.matches == nil {
		text, _ := value.(string)
		return envelope.MatchString(text)
	}
	return slices.ContainsFunc(path, r.matches) != r.inverse
}

func readMetadata(n *strictyaml.Node) (*metadata, error) {
	if n.Kind != strictyaml.Map {
		return nil, fmt.Errorf("%s; the key belongs to sops", n.Mismatch("the metadata of sops"))
	}
	if g := n.Get("key_groups"); g != nil && len(g.List) > 0 {
		return nil, errors.New("its data key is split between key groups; encrypt it to age recipients without groups")
	}
	m := &metadata{}
	var err error
	if m.mac = text(n, "mac"); m.mac == "" {
		return nil, errNoMAC
	}
	changed, err := time.Parse(time.RFC3339, text(n, "lastmodified"))
	if err != nil {
		return nil, fmt.Errorf("cannot parse the time lastmodified %.40q", text(n, "lastmodified"))
	}
	m.lastModified = changed.Format(time.RFC3339)
	if only := n.Get("mac_only_encrypted"); only != nil {
		m.macOnlyEncrypted, _ = only.Value.(bool)
	}
	if m.recipients, err = readRecipients(n.Get("age")); err != nil {
		return nil, err
	}
	m.rule, err = readRule(n)
	return m, err
}

func readRecipients(n *strictyaml.Node) ([]recipient, error) {
	if n == nil || len(n.List) == 0 {
		return nil, errors.New("it has no age recipient; add one with sops")
	}
	if len(n.List) > maxRecipients {
		return nil, fmt.Errorf("it has %d age recipients; the most are %d", len(n.List), maxRecipients)
	}
	var out []recipient
	for _, r := range n.List {
		enc := text(r, "enc")
		if len(enc) > maxStanza {
			return nil, fmt.Errorf("the data key for %.80q takes %d bytes; the most are %d", text(r, "recipient"),
				len(enc), maxStanza)
		}
		out = append(out, recipient{text(r, "recipient"), enc})
	}
	return out, nil
}

// readRule reads the rule of a file. The default rule is unencrypted_suffix: _unencrypted.
func readRule(n *strictyaml.Node) (r rule, err error) {
	names := []string{
		"unencrypted_suffix", "encrypted_suffix", "unencrypted_regex", "encrypted_regex", "unencrypted_comment_regex",
		"encrypted_comment_regex",
	}
	names = slices.DeleteFunc(names, func(name string) bool { return text(n, name) == "" })
	name, value := "unencrypted_suffix", "_unencrypted"
	switch len(names) {
	case 0:
	case 1:
		name, value = names[0], text(n, names[0])
	default:
		return r, fmt.Errorf("it has more than one rule: %s", strings.Join(names, ", "))
	}
	r.inverse = strings.HasPrefix(name, "un")
	switch {
	case strings.HasSuffix(name, "_suffix"):
		r.matches = func(key string) bool { return strings.HasSuffix(key, value) }
	case !strings.HasSuffix(name, "_comment_regex"):
		if len(value) > maxPattern {
			return r, fmt.Errorf("%s takes %d bytes; the most are %d", name, len(value), maxPattern)
		}
		re, err := regexp.Compile(value)
		if err != nil {
			return r, fmt.Errorf("cannot use %s: %w", name, err)
		}
		r.matches = re.MatchString
	}
	return r, nil
}

// text returns the string under a key, empty if there is none.
func text(n *strictyaml.Node, key string) string {
	if v := n.Get(key); v != nil {
		s, _ := v.Value.(string)
		return s
	}
	return ""
}
