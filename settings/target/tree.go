package target

import (
	"github.com/RoaringBitmap/roaring/v2"
)

// posting is the set of slots that share a leaf. Many leaves belong to one
// peel alone (serial numbers, addresses), and a bitmap is dear for those.
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

// tree is a place in the merged documents of all peels: the scalars, the maps
// and the lists that stand there. All elements of a list share one place.
type tree struct {
	present posting            // the peels with anything here
	values  map[string]posting // scalars by valueText
	keys    map[string]*tree
	element *tree
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
		text := valueText(v)
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
		text := valueText(v)
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

// lookup walks the tree as factTerm.match walks one document.
type lookup struct {
	term  *factTerm
	found *roaring.Bitmap
	// inexact is set when a part may have meant a list index: the tree does
	// not know which element stands where.
	inexact bool
}

func (l *lookup) at(t *tree, i int) {
	if i == len(l.term.parts) {
		t.present.addTo(l.found)
		return
	}
	l.inElement(t, i)
	if t.element != nil {
		l.inList(t.element, i)
	}
}

// inElement looks at the scalars and maps of t.
func (l *lookup) inElement(t *tree, i int) {
	if m := l.term.values[i]; m != nil {
		l.inValues(t.values, m)
	}
	if !l.term.parts[i].any {
		if c, ok := t.keys[l.term.parts[i].key]; ok {
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
	p := l.term.parts[i]
	if i+1 == len(l.term.parts) || !p.any && p.index < 0 {
		return
	}
	l.inexact = l.inexact || !p.any
	l.at(element, i+1)
}

func (l *lookup) inValues(values map[string]posting, m valueMatcher) {
	if g, ok := m.(glob); ok {
		if text, ok := g.literal(); ok {
			values[text].addTo(l.found)
			return
		}
	}
	for text, p := range values {
		if m.match(text) {
			p.addTo(l.found)
		}
	}
}

func (t *factTerm) set(ix *Index) *roaring.Bitmap {
	l := lookup{term: t, found: roaring.New()}
	root := &ix.facts
	if t.source == inSettings {
		root = &ix.settings
	}
	l.inElement(root, 0)
	if !l.inexact {
		return l.found
	}
	for _, slot := range l.found.ToArray() {
		if !t.match(&ix.peels[slot]) {
			l.found.Remove(slot)
		}
	}
	return l.found
}

func (t netTerm) set(ix *Index) *roaring.Bitmap {
	found := roaring.New()
	for _, name := range addressFacts {
		place, ok := ix.facts.keys[name]
		if !ok {
			continue
		}
		for _, t2 := range []*tree{place, place.element} {
			if t2 == nil {
				continue
			}
			for text, p := range t2.values {
				if t.contains(text) {
					p.addTo(found)
				}
			}
		}
	}
	return found
}

func (n andNode) set(ix *Index) *roaring.Bitmap {
	b := n[0].set(ix)
	for _, c := range n[1:] {
		if b.IsEmpty() {
			break
		}
		b.And(c.set(ix))
	}
	return b
}

func (n orNode) set(ix *Index) *roaring.Bitmap {
	b := n[0].set(ix)
	for _, c := range n[1:] {
		b.Or(c.set(ix))
	}
	return b
}

func (n notNode) set(ix *Index) *roaring.Bitmap {
	b := ix.members.Clone()
	b.AndNot(n.node.set(ix))
	return b
}

func (t globTerm) set(ix *Index) *roaring.Bitmap {
	if t.glob.all() {
		return ix.members.Clone()
	}
	if text, ok := t.glob.literal(); ok {
		return listTerm{ids: []PeelID{PeelID(text)}}.set(ix)
	}
	if prefix := t.glob.prefix(); prefix != "" {
		return ix.scanPrefix(prefix, t.glob.match)
	}
	return ix.scan(t.glob.match)
}

func (t regexTerm) set(ix *Index) *roaring.Bitmap { return ix.scan(t.re.MatchString) }

func (t groupTerm) set(ix *Index) *roaring.Bitmap { return t.expr.root.set(ix) }

func (t listTerm) set(ix *Index) *roaring.Bitmap {
	b := roaring.New()
	for _, id := range t.ids {
		if slot, ok := ix.slots[id]; ok {
			b.Add(slot)
		}
	}
	return b
}
