package peelindex

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// posting is a set of slots. Most sets have one slot (serial numbers, addresses), for which a bitmap takes too much
// memory.
type posting struct {
	one  uint32 // the only slot + 1, or 0
	many *roaring.Bitmap
}

func (p *posting) add(slot uint32) {
	switch {
	case p.many != nil:
		p.many.Add(slot)
	case p.one == 0:
		p.one = slot + 1
	case p.one != slot+1:
		p.many = roaring.BitmapOf(p.one-1, slot)
		p.one = 0
	}
}

func (p *posting) remove(slot uint32) {
	if p.many == nil {
		if p.one == slot+1 {
			p.one = 0
		}
		return
	}
	if p.many.Remove(slot); p.many.IsEmpty() {
		p.many = nil
	}
}

func (p posting) empty() bool { return p.one == 0 && p.many == nil }

func (p posting) addTo(b *roaring.Bitmap) {
	if p.many != nil {
		b.Or(p.many)
	} else if p.one != 0 {
		b.Add(p.one - 1)
	}
}

// tree is a node of the merged documents of all peels: the scalars, maps and lists at one path. All elements of a list
// share one node.
type tree struct {
	present posting            // the peels with a value at this path
	values  map[string]posting // scalars by [target.ValueText]
	keys    map[string]*tree
	element *tree // elements of lists
}

func (t *tree) add(v any, slot uint32) {
	t.present.add(slot)
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			t.addKey(k, c, slot)
		}
	case []any:
		if t.element == nil && len(v) > 0 {
			t.element = &tree{}
		}
		for _, e := range v {
			t.element.add(e, slot)
		}
	default:
		if t.values == nil {
			t.values = map[string]posting{}
		}
		text := target.ValueText(v)
		p := t.values[text]
		p.add(slot)
		t.values[text] = p
	}
}

func (t *tree) addKey(key string, v any, slot uint32) {
	if t.keys == nil {
		t.keys = map[string]*tree{}
	}
	c := t.keys[key]
	if c == nil {
		c = &tree{}
		t.keys[key] = c
	}
	c.add(v, slot)
}

// remove undoes add with the same v.
func (t *tree) remove(v any, slot uint32) {
	t.present.remove(slot)
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			t.removeKey(k, c, slot)
		}
	case []any:
		for _, e := range v {
			if t.element != nil {
				t.element.remove(e, slot)
			}
		}
		if t.element != nil && t.element.present.empty() {
			t.element = nil
		}
	default:
		text := target.ValueText(v)
		p := t.values[text]
		if p.remove(slot); p.empty() {
			delete(t.values, text)
		} else {
			t.values[text] = p
		}
	}
}

func (t *tree) removeKey(key string, v any, slot uint32) {
	c := t.keys[key]
	if c == nil {
		return
	}
	if c.remove(v, slot); c.present.empty() {
		delete(t.keys, key)
	}
}

// lookup applies a term to the tree as [target.FactTerm.Match] applies it to one document.
type lookup struct {
	term  *target.FactTerm
	found *roaring.Bitmap
	// inexact: a part may be a list index, and the tree does not know the index of an element. The caller then has to
	// match each peel.
	inexact bool
}

func (l *lookup) at(t *tree, i int) {
	if i == len(l.term.Parts) {
		t.present.addTo(l.found)
		return
	}
	l.inElement(t, i)
	if t.element != nil {
		l.inList(t.element, i)
	}
}

// inElement searches the scalars and maps of t.
func (l *lookup) inElement(t *tree, i int) {
	if m := l.term.Values[i]; m != nil {
		l.inValues(t.values, m)
	}
	if !l.term.Parts[i].Any {
		if c, ok := t.keys[l.term.Parts[i].Key]; ok {
			l.at(c, i+1)
		}
		return
	}
	for _, c := range t.keys {
		l.at(c, i+1)
	}
}

func (l *lookup) inList(element *tree, i int) {
	l.inElement(element, i)
	p := l.term.Parts[i]
	if i+1 == len(l.term.Parts) || !p.Any && p.Index < 0 {
		return
	}
	l.inexact = l.inexact || !p.Any
	l.at(element, i+1)
}

func (l *lookup) inValues(values map[string]posting, m target.ValueMatcher) {
	if g, ok := m.(target.Glob); ok {
		if text, ok := g.Literal(); ok {
			values[text].addTo(l.found)
			return
		}
	}
	for text, p := range values {
		if m.Match(text) {
			p.addTo(l.found)
		}
	}
}
