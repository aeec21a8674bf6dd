package sops

import (
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// opener converts the nodes of one file. If aead is nil, it masks encrypted values without decrypting them.
type opener struct {
	metadata     *metadata
	aead         *cipherText
	fingerprints []byte
	mac          *mac
	errs         strictyaml.Errors
}

func (o *opener) document(doc *strictyaml.Node) *strictyaml.Node {
	out := &strictyaml.Node{Kind: strictyaml.Map, Pos: doc.Pos}
	for _, p := range doc.Map {
		if p.Key != metadataKey {
			p.Value = o.node(p.Value, []string{p.Key})
			out.Map = append(out.Map, p)
		}
	}
	return out
}

// node returns the decrypted n, or nil for a comment: sops stores encrypted comments in a list as elements.
func (o *opener) node(n *strictyaml.Node, path []string) *strictyaml.Node {
	switch n.Kind {
	case strictyaml.Null:
		return n
	case strictyaml.List:
		out := &strictyaml.Node{Kind: strictyaml.List, Pos: n.Pos, List: make([]*strictyaml.Node, 0, len(n.List))}
		for _, e := range n.List {
			if e = o.node(e, path); e != nil {
				out.List = append(out.List, e)
			}
		}
		return out
	case strictyaml.Map:
		out := &strictyaml.Node{Kind: strictyaml.Map, Pos: n.Pos, Map: make([]strictyaml.Pair, 0, len(n.Map))}
		for _, p := range n.Map {
			if p.Value = o.node(p.Value, append(path, p.Key)); p.Value != nil {
				out.Map = append(out.Map, p)
			}
		}
		return out
	}
	if o.metadata.rule.encrypted(path, n.Value) {
		return o.scalar(n, path)
	}
	if o.mac != nil && !o.metadata.macOnlyEncrypted {
		o.mac.add(n)
	}
	return n
}

// scalar returns a decrypted value. Sops does not encrypt empty strings.
func (o *opener) scalar(n *strictyaml.Node, path []string) *strictyaml.Node {
	if n.Value == "" {
		return n
	}
	place := strings.Join(path, ":") + ":"
	out := &strictyaml.Node{Kind: strictyaml.String, Pos: n.Pos}
	text, _ := n.Value.(string)
	if o.aead == nil {
		parts := envelope.FindStringSubmatch(text)
		if parts == nil {
			o.refuse(n, path, errNotEncrypted)
		} else if parts[4] == commentType {
			return nil
		}
		out.Value = fingerprint(nil, place, text)
		out.Secret = out.Value
		return out
	}
	secret, err := o.open(text, place)
	if err == nil && secret.kind == commentType {
		return nil
	}
	if err == nil {
		out.Secret, err = secret.value()
	}
	if err != nil {
		o.refuse(n, path, err)
		return n
	}
	o.mac.addText(secret.text)
	out.Value = fingerprint(o.fingerprints, place, secret.kind, secret.text)
	return out
}

const commentType = "comment"

func (o *opener) refuse(n *strictyaml.Node, path []string, err error) {
	if len(o.errs) < strictyaml.MaxErrors {
		o.errs = append(o.errs, strictyaml.Error{Pos: n.Pos, Path: strings.Join(path, "."), Msg: err.Error()})
	}
}
