package peel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// key is the pair that opens what is sealed to this peel.
type key struct {
	pair   nkeys.KeyPair
	public string
}

// openKey reads the peel's key, and makes it where there is none.
func openKey(file string) (*key, error) {
	seed, err := readKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = makeKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the key in %s: %w", file, err)
	}
	pair, err := nkeys.FromCurveSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key in %s: %w; remove it and start again: the peel makes another, to which its secrets are sealed anew", file, err)
	}
	public, err := pair.PublicKey()
	return &key{pair, public}, err
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %v: it is a secret and must be a file of mode 0600; if others may have read it, remove it and start again", mode)
	}
	return os.ReadFile(file)
}

func makeKey(file string) ([]byte, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return seed, renameio.WriteFile(file, seed, 0o600)
}

// open returns the settings of a document as nodes, whose values show what stands for secrets.
func (k *key) open(doc *settings.Document) (*strictyaml.Node, error) {
	shown, err := doc.Values()
	if err != nil || doc.Sealed == nil {
		return strictyaml.FromValue("settings", shown), err
	}
	raw, err := doc.Open(k.pair)
	if err != nil {
		return nil, err
	}
	plain := map[string]any{}
	if err := canon.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("cannot read the sealed settings of %s: %w", doc.Peel, err)
	}
	n, ok := strictyaml.FromSecret("settings", shown, plain)
	if !ok {
		return nil, fmt.Errorf("cannot use the settings of %s: what is sealed is not what is shown", doc.Peel)
	}
	return n, nil
}

// shortestMasked is the length of the shortest secret that is looked for in what functions return: a shorter one is found
// in too much that has nothing to do with it.
const shortestMasked = 6

// A mask puts what stands for secrets in their place, wherever a text holds one as it is. The nil mask changes nothing.
type mask struct {
	secrets []module.Secret
	words   *strings.Replacer
}

// maskOf finds the secrets below n.
func maskOf(n *strictyaml.Node) *mask {
	var all []module.Secret
	var find func(*strictyaml.Node)
	find = func(n *strictyaml.Node) {
		if n.Secret != nil {
			all = append(all, module.Secret{Plain: fmt.Sprint(n.Secret), Shown: fmt.Sprint(n.Value)})
		}
		for _, e := range n.List {
			find(e)
		}
		for _, p := range n.Map {
			find(p.Value)
		}
	}
	find(n)
	return newMask(all)
}

// maskOfArgs returns the mask of the secrets in a call's arguments; shown are the same arguments with placeholders for the
// secrets.
func maskOfArgs(shown, args any) *mask {
	var all []module.Secret
	var find func(shown, arg any)
	find = func(shown, arg any) {
		switch arg := arg.(type) {
		case map[string]any:
			shown, _ := shown.(map[string]any)
			for k, v := range arg {
				find(shown[k], v)
			}
		case []any:
			shown, _ := shown.([]any)
			for i, v := range arg[:min(len(arg), len(shown))] {
				find(shown[i], v)
			}
		default:
			if shown != arg {
				all = append(all, module.Secret{Plain: fmt.Sprint(arg), Shown: fmt.Sprint(shown)})
			}
		}
	}
	find(shown, args)
	return newMask(all)
}

// newMask returns the mask of the secrets of [shortestMasked] bytes or more, nil if there are none.
func newMask(all []module.Secret) *mask {
	m := &mask{}
	for _, s := range all {
		if s.Plain = strings.TrimSpace(s.Plain); len(s.Plain) >= shortestMasked {
			m.secrets = append(m.secrets, s)
		}
	}
	if len(m.secrets) == 0 {
		return nil
	}
	// Of two that begin at one place the replacer takes the first.
	slices.SortStableFunc(m.secrets, func(a, b module.Secret) int { return cmp.Compare(len(b.Plain), len(a.Plain)) })
	var pairs []string
	for _, s := range m.secrets {
		pairs = append(pairs, s.Plain, s.Shown)
	}
	m.words = strings.NewReplacer(pairs...)
	return m
}

// with returns the mask of the secrets of both. Two masks in turn would not do: a secret may be part of another.
func (m *mask) with(other *mask) *mask {
	if m == nil || other == nil || m == other {
		return cmp.Or(m, other)
	}
	added := slices.DeleteFunc(slices.Clone(other.secrets), func(s module.Secret) bool { return slices.Contains(m.secrets, s) })
	if len(added) == 0 {
		return m
	}
	return newMask(slices.Concat(m.secrets, added))
}

// list returns the secrets, the longest first.
func (m *mask) list() []module.Secret {
	if m == nil {
		return nil
	}
	return m.secrets
}

// result returns r without secrets.
func (m *mask) result(r wire.Result) wire.Result {
	if m == nil {
		return r
	}
	r.Error = m.words.Replace(r.Error)
	r.Data = m.value(r.Data)
	return r
}

// value returns v, of the shape that package canon decodes, without secrets. It does not change v.
func (m *mask) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.words.Replace(v)
	case []byte:
		return []byte(m.words.Replace(string(v)))
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.value(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[m.words.Replace(k)] = m.value(e)
		}
		return out
	}
	return v
}
