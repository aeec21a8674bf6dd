// Package mask replaces secrets in the results of functions by their placeholders. [Of] and [OfArgs] make a [Mask] from
// settings and from the arguments of a call; [Mask.Result] applies it.
//
// A secret of 3 bytes or more is found as it is, without the space around it, and in the forms that programs often give
// it: within a JSON text, within single or double quotes of a shell, and in base64, also as a part of a longer text and
// in lines of 76 characters. A secret of 3 to 5 bytes that is a common word, such as "true" or "root", is not replaced:
// it would be found in too many texts.
//
// Known gap: a secret is not found in another encoding or in pieces, such as its lines with a prefix.
package mask

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	minSecret = 3 // bytes of a secret that is masked
	noWord    = 6 // bytes of a secret that is masked even if it is a common word
)

// A Mask replaces secrets by their placeholders. The nil mask changes nothing.
type Mask struct {
	// with their forms, longest first: of two that begin at the same byte the replacer takes the first
	secrets  []module.Secret
	replacer *strings.Replacer
}

// New returns the mask of secrets, nil if there are none that it would replace.
func New(secrets []module.Secret) *Mask {
	m := &Mask{}
	seen := map[string]bool{}
	add := func(s module.Secret) {
		if len(s.Plain) >= minSecret && !seen[s.Plain] {
			seen[s.Plain] = true
			m.secrets = append(m.secrets, s)
		}
	}
	for _, s := range secrets {
		if s.IsForm {
			continue
		}
		written := s.Plain
		s.Plain = strings.TrimSpace(written)
		if len(s.Plain) < minSecret || len(s.Plain) < noWord && isCommon(s.Plain) {
			continue
		}
		add(s)
		for _, form := range forms(s.Plain, written) {
			add(module.Secret{Plain: form, Shown: s.Shown, IsForm: true})
		}
	}
	if len(m.secrets) == 0 {
		return nil
	}
	sorting.Stable(m.secrets, func(a, b module.Secret) int { return cmp.Compare(len(b.Plain), len(a.Plain)) })
	var pairs []string
	for _, s := range m.secrets {
		pairs = append(pairs, s.Plain, s.Shown)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// of returns the secrets of a value: a number with a fraction or an exponent may be printed with or without the
// exponent.
func of(plain, shown any) []module.Secret {
	all := []module.Secret{{Plain: fmt.Sprint(plain), Shown: fmt.Sprint(shown)}}
	if number, ok := plain.(float64); ok {
		for _, verb := range []byte("fe") {
			all = append(all, module.Secret{Plain: strconv.FormatFloat(number, verb, -1, 64), Shown: fmt.Sprint(shown)})
		}
	}
	return all
}

// Of returns the mask of the secrets in settings.
func Of(settings *strictyaml.Node) *Mask {
	var secrets []module.Secret
	var collect func(*strictyaml.Node)
	collect = func(n *strictyaml.Node) {
		if n.Secret != nil {
			secrets = append(secrets, of(n.Secret, n.Value)...)
		}
		for _, e := range n.List {
			collect(e)
		}
		for _, p := range n.Map {
			collect(p.Value)
		}
	}
	collect(settings)
	return New(secrets)
}

// OfArgs returns the mask of the secrets in a call's arguments; shown are the same arguments with placeholders for the
// secrets.
func OfArgs(shown, args any) *Mask {
	var secrets []module.Secret
	var collect func(shown, arg any)
	collect = func(shown, arg any) {
		switch arg := arg.(type) {
		case map[string]any:
			shown, _ := shown.(map[string]any)
			for k, v := range arg {
				collect(shown[k], v)
			}
		case []any:
			shown, _ := shown.([]any)
			for i, v := range arg[:min(len(arg), len(shown))] {
				collect(shown[i], v)
			}
		default:
			if shown != arg {
				secrets = append(secrets, of(arg, shown)...)
			}
		}
	}
	collect(shown, args)
	return New(secrets)
}

// With returns the mask of the secrets of both. Applying one mask after the other is not enough: a secret of one may be
// part of a secret of the other.
func (m *Mask) With(other *Mask) *Mask {
	if m == nil || other == nil || m == other {
		return cmp.Or(m, other)
	}
	added := slices.DeleteFunc(slices.Clone(other.secrets), func(s module.Secret) bool {
		return slices.Contains(m.secrets, s)
	})
	if len(added) == 0 {
		return m
	}
	return New(slices.Concat(m.secrets, added))
}

// Secrets returns the secrets and their forms, longest first. The caller must not change them.
func (m *Mask) Secrets() []module.Secret {
	if m == nil {
		return nil
	}
	return m.secrets
}

// Has reports whether a text contains a secret.
func (m *Mask) Has(text []byte) bool {
	return m != nil && slices.ContainsFunc(m.secrets, func(s module.Secret) bool {
		return bytes.Contains(text, []byte(s.Plain))
	})
}

// Text returns a text with the secrets replaced.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// Result returns r with the secrets in its data and error replaced. The data of r does not change.
func (m *Mask) Result(r wire.Result) wire.Result {
	if m == nil {
		return r
	}
	r.Error = m.replacer.Replace(r.Error)
	r.Data = m.value(r.Data)
	return r
}

// value returns v, which has the types that package canon decodes, with the secrets replaced.
func (m *Mask) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.replacer.Replace(v)
	case []byte:
		return []byte(m.replacer.Replace(string(v)))
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.value(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[m.replacer.Replace(k)] = m.value(e)
		}
		return out
	}
	return v
}
