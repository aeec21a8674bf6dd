// Package peelindex evaluates target expressions for a whole fleet without reading the facts of each peel. Make an
// [Index] with [New], set the facts of each peel with [Index.Put], and call [Index.Select]. [Index.Explain] returns the
// meaning of each part of an expression.
//
// The index merges the facts of all peels into one tree whose leaves are sets of peels. Select returns exactly the
// peels for which [target.Expr.Match] returns true.
//
// Known gap: a part of a path that may be a list index costs one Match for each candidate.
package peelindex

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Index holds the facts of a fleet. It is safe for concurrent use; each method sees one consistent state.
type Index struct {
	mu       sync.RWMutex
	peels    []target.Peel // by slot
	slots    map[target.PeelID]uint32
	free     []uint32
	version  atomic.Uint64
	members  *roaring.Bitmap // the slots of peels with facts
	facts    tree
	settings tree
	// order is the slots sorted by ID, or nil after a slot was added or removed; the next reader sorts again.
	order atomic.Pointer[[]uint32]
}

// New returns an empty index.
func New() *Index {
	return &Index{slots: map[target.PeelID]uint32{}, members: roaring.New()}
}

// Put sets the facts of a peel, makes it a member and reports whether that changed the index. The caller must not
// change facts afterwards.
func (ix *Index) Put(id target.PeelID, facts target.Facts) (changed bool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	slot := ix.slot(id)
	changed = ix.members.CheckedAdd(slot)
	changed = replace(&ix.facts, &ix.peels[slot].Facts, facts, slot) || changed
	if changed {
		ix.version.Add(1)
	}
	return changed
}

// Version returns a number that grows with every change of the index.
func (ix *Index) Version() uint64 { return ix.version.Load() }

// PutSettings sets the settings of a peel for I@ and J@; nil is none. The peel does not become a member: a peel without
// facts is never selected. The caller must not change settings afterwards.
func (ix *Index) PutSettings(id target.PeelID, settings map[string]any) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	slot := ix.slot(id)
	if replace(&ix.settings, &ix.peels[slot].Settings, settings, slot) {
		ix.version.Add(1)
	}
	ix.release(slot)
}

// Remove removes the facts of a peel, which is no member afterwards, and reports whether it was one.
func (ix *Index) Remove(id target.PeelID) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	slot, ok := ix.slots[id]
	if !ok || !ix.members.CheckedRemove(slot) {
		return false
	}
	replace(&ix.facts, &ix.peels[slot].Facts, nil, slot)
	ix.version.Add(1)
	ix.release(slot)
	return true
}

// Get returns the facts of a member, which must not be changed.
func (ix *Index) Get(id target.PeelID) (target.Facts, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	slot, ok := ix.slots[id]
	if !ok || !ix.members.Contains(slot) {
		return nil, false
	}
	return ix.peels[slot].Facts, true
}

// Len returns the number of members.
func (ix *Index) Len() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return int(ix.members.GetCardinality())
}

// IDs returns the members, sorted.
func (ix *Index) IDs() []target.PeelID {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.ids(ix.members)
}

// Select returns the members for which e.Match is true, sorted.
func (ix *Index) Select(e *target.Expr) []target.PeelID {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.ids(ix.selected(e))
}

func (ix *Index) selected(e *target.Expr) *roaring.Bitmap {
	b := ix.set(e.Root())
	b.And(ix.members)
	return b
}

// Part is a set of peels that are selected by the same expressions.
type Part struct {
	Matches []int           // indexes of the expressions, ascending
	Peels   []target.PeelID // sorted
}

// Partition divides the members by the expressions that select them. Peels that no expression selects are a part
// without Matches. It costs one Select for each expression, plus one step for each selected peel.
func (ix *Index) Partition(exprs []*target.Expr) []Part {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	classes := []class{{parent: -1, expr: -1}}
	of := make([]int, len(ix.peels)) // class by slot
	for n, e := range exprs {
		split := map[int]int{} // old class → class of its selected peels
		for it := ix.selected(e).Iterator(); it.HasNext(); {
			slot := it.Next()
			to, ok := split[of[slot]]
			if !ok {
				to = len(classes)
				classes = append(classes, class{parent: of[slot], expr: n})
				split[of[slot]] = to
			}
			of[slot] = to
		}
	}
	peels := make([][]target.PeelID, len(classes))
	for _, slot := range ix.sorted() {
		if ix.members.Contains(slot) {
			peels[of[slot]] = append(peels[of[slot]], ix.peels[slot].ID)
		}
	}
	var parts []Part
	for c, ids := range peels {
		if len(ids) > 0 {
			parts = append(parts, Part{Matches: matches(classes, c), Peels: ids})
		}
	}
	return parts
}

// class is the set of peels of the class parent that the expression with index expr selects too.
type class struct{ parent, expr int }

func matches(classes []class, c int) []int {
	var m []int
	for ; classes[c].parent >= 0; c = classes[c].parent {
		m = append(m, classes[c].expr)
	}
	slices.Reverse(m)
	return m
}

// slot returns the slot of id, a new one if it has none.
func (ix *Index) slot(id target.PeelID) uint32 {
	if slot, ok := ix.slots[id]; ok {
		return slot
	}
	ix.order.Store(nil)
	var slot uint32
	if n := len(ix.free); n > 0 {
		slot = ix.free[n-1]
		ix.free = ix.free[:n-1]
		ix.peels[slot] = target.Peel{ID: id}
	} else {
		slot = uint32(len(ix.peels))
		ix.peels = append(ix.peels, target.Peel{ID: id})
	}
	ix.slots[id] = slot
	return slot
}

// release frees a slot with neither facts nor settings.
func (ix *Index) release(slot uint32) {
	if ix.members.Contains(slot) || ix.peels[slot].Settings != nil {
		return
	}
	delete(ix.slots, ix.peels[slot].ID)
	ix.peels[slot] = target.Peel{}
	ix.free = append(ix.free, slot)
	ix.order.Store(nil)
}

// replace replaces the document *old by doc, in t too. It updates only keys whose values differ.
func replace(t *tree, old *map[string]any, doc map[string]any, slot uint32) (changed bool) {
	for k, v := range *old {
		if now, ok := doc[k]; !ok || !reflect.DeepEqual(v, now) {
			t.removeKey(k, v, slot)
			changed = true
		}
	}
	for k, v := range doc {
		if was, ok := (*old)[k]; !ok || !reflect.DeepEqual(was, v) {
			t.addKey(k, v, slot)
			changed = true
		}
	}
	*old = doc
	return changed
}

// scan returns the members for whose ID f returns true.
func (ix *Index) scan(f func(id string) bool) *roaring.Bitmap {
	var found []uint32
	for it := ix.members.Iterator(); it.HasNext(); {
		if slot := it.Next(); f(string(ix.peels[slot].ID)) {
			found = append(found, slot)
		}
	}
	return roaring.BitmapOf(found...)
}

// scanPrefix is scan for IDs with a prefix. It reads only those IDs if the slots are sorted already; to sort them would
// cost more than to read all.
func (ix *Index) scanPrefix(prefix string, f func(id string) bool) *roaring.Bitmap {
	known := ix.order.Load()
	if known == nil {
		return ix.scan(f)
	}
	order := *known
	begin, _ := slices.BinarySearchFunc(order, prefix, func(slot uint32, prefix string) int {
		return strings.Compare(string(ix.peels[slot].ID), prefix)
	})
	var found []uint32
	for _, slot := range order[begin:] {
		id := string(ix.peels[slot].ID)
		if !strings.HasPrefix(id, prefix) {
			break
		}
		if ix.members.Contains(slot) && f(id) {
			found = append(found, slot)
		}
	}
	return roaring.BitmapOf(found...)
}

// sorted returns all slots by ID.
func (ix *Index) sorted() []uint32 {
	if order := ix.order.Load(); order != nil {
		return *order
	}
	order := make([]uint32, 0, len(ix.slots))
	for _, slot := range ix.slots {
		order = append(order, slot)
	}
	sorting.Func(order, ix.byID)
	ix.order.Store(&order)
	return order
}

func (ix *Index) byID(a, b uint32) int {
	return strings.Compare(string(ix.peels[a].ID), string(ix.peels[b].ID))
}

// ids returns the IDs of slots, sorted. Many are taken from the sorted order, few are sorted by themselves.
func (ix *Index) ids(b *roaring.Bitmap) []target.PeelID {
	n := int(b.GetCardinality())
	ids := make([]target.PeelID, 0, n)
	if n < len(ix.slots)/8 {
		slots := b.ToArray()
		sorting.Func(slots, ix.byID)
		for _, slot := range slots {
			ids = append(ids, ix.peels[slot].ID)
		}
		return ids
	}
	dense := b.ToDense()
	for _, slot := range ix.sorted() {
		if w := int(slot / 64); w < len(dense) && dense[w]>>(slot%64)&1 == 1 {
			ids = append(ids, ix.peels[slot].ID)
		}
	}
	return ids
}
