package plan

import (
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Merge merges over into base: maps key by key, where null removes the key; any other value replaces the one of base.
// The result holds no null under a key of a map. Neither argument is changed; the result shares parts of both, and
// every key and value keeps its position.
func Merge(base, over *strictyaml.Node) *strictyaml.Node {
	if base.Kind != strictyaml.Map || over.Kind != strictyaml.Map {
		return withoutNulls(over)
	}
	out := slices.Clone(base.Map)
	place := make(map[string]int, len(out))
	for i := range out {
		place[out[i].Key] = i
	}
	for _, p := range over.Map {
		i, there := place[p.Key]
		switch {
		case there:
			out[i] = strictyaml.Pair{Key: p.Key, KeyPos: p.KeyPos, Value: Merge(out[i].Value, p.Value)}
		case p.Value.Kind != strictyaml.Null:
			out = append(out, strictyaml.Pair{Key: p.Key, KeyPos: p.KeyPos, Value: withoutNulls(p.Value)})
		}
	}
	out = slices.DeleteFunc(out, isNull)
	return &strictyaml.Node{Kind: strictyaml.Map, Pos: over.Pos, Map: out}
}

func isNull(p strictyaml.Pair) bool { return p.Value.Kind == strictyaml.Null }

// withoutNulls returns n without the keys with null in it and in its maps; lists stay as they are. It returns n itself
// if there are none.
func withoutNulls(n *strictyaml.Node) *strictyaml.Node {
	if !holdsNull(n) {
		return n
	}
	out := make([]strictyaml.Pair, 0, len(n.Map))
	for _, p := range n.Map {
		if !isNull(p) {
			out = append(out, strictyaml.Pair{Key: p.Key, KeyPos: p.KeyPos, Value: withoutNulls(p.Value)})
		}
	}
	return &strictyaml.Node{Kind: strictyaml.Map, Pos: n.Pos, Map: out}
}

func holdsNull(n *strictyaml.Node) bool {
	return slices.ContainsFunc(n.Map, func(p strictyaml.Pair) bool { return isNull(p) || holdsNull(p.Value) })
}
