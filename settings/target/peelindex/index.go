// Package peelindex answers target expressions for a fleet without looking at every peel. Make an [Index] with [New], tell it
// the facts of each peel with Put, and call Select.
//
// It merges the facts of all peels into one tree whose leaves are sets of peels, and walks that tree the way
// [target.Expr.Match] walks the facts of one. Select returns exactly the peels for which Match is true. Explain says how an
// expression is understood and what each of its parts selects.
package peelindex

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Index holds the peels of a fleet and answers expressions about them. It is
// safe for concurrent use; an answer is about one moment.
type Index struct {
	mu       sync.RWMutex
	peels    []target.Peel // by slot
	slots    map[target.PeelID]uint32
	free     []uint32
	version  atomic.Uint64
	members  *roaring.Bitmap // the slots of peels with facts
	facts    tree
	settings tree
	// order is the slots by ID, or nil after a slot came or went. Readers
	// fill it in.
	order atomic.Pointer[[]uint32]
}

// New makes an empty index.
func New() *Index {
	return &Index{slots: map[target.PeelID]uint32{}, members: roaring.New()}
}

// Put sets the facts of a peel, which is a member from then on, and reports
// whether that changed anything. Nobody may change facts afterwards.
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

// Version grows with everything that may change an answer.
func (ix *Index) Version() uint64 { return ix.version.Load() }

// PutSettings sets what I@ and J@ see of a peel, nil for nothing. It makes no
// member: a peel without facts is in no answer. Nobody may change settings
// afterwards.
func (ix *Index) PutSettings(id target.PeelID, settings map[string]any) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	slot := ix.slot(id)
	if replace(&ix.settings, &ix.peels[slot].Settings, settings, slot) {
		ix.version.Add(1)
	}
	ix.release(slot)
}

// Remove takes the facts of a peel away, and with them its membership; it
// reports whether the peel was a member.
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

// Len is the number of members.
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

// Part is a set of peels that the same expressions select.
type Part struct {
	Matches []int           // places in the list of expressions, rising
	Peels   []target.PeelID // sorted
}

// Partition divides the members by which of exprs select them. Peels that
// none selects form a part with no Matches. The cost is that of one Select for
// each expression, plus one step for each peel that it selects.
func (ix *Index) Partition(exprs []*target.Expr) []Part {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	classes := []class{{parent: -1, expr: -1}}
	of := make([]int, len(ix.peels)) // class by slot
	for n, e := range exprs {
		split := map[int]int{} // class → what becomes of its peels
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

// class holds the peels of its parent that one more expression selects.
type class struct{ parent, expr int }

func matches(classes []class, c int) []int {
	var m []int
	for ; classes[c].parent >= 0; c = classes[c].parent {
		m = append(m, classes[c].expr)
	}
	slices.Reverse(m)
	return m
}

// slot finds or makes the place of id.
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

// replace exchanges the document at old for doc in t. Only the keys that
// differ are touched.
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

// scan returns the members whose ID f accepts.
func (ix *Index) scan(f func(id string) bool) *roaring.Bitmap {
	var found []uint32
	for it := ix.members.Iterator(); it.HasNext(); {
		if slot := it.Next(); f(string(ix.peels[slot].ID)) {
			found = append(found, slot)
		}
	}
	return roaring.BitmapOf(found...)
}

// scanPrefix is scan for an f that accepts nothing without the prefix. It looks at those IDs alone if the order is
// known; to find it would cost more than to look at all.
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
	slices.SortFunc(order, ix.byID)
	ix.order.Store(&order)
	return order
}

func (ix *Index) byID(a, b uint32) int {
	return strings.Compare(string(ix.peels[a].ID), string(ix.peels[b].ID))
}

// ids turns slots into IDs; many are picked from the order, few are sorted.
func (ix *Index) ids(b *roaring.Bitmap) []target.PeelID {
	n := int(b.GetCardinality())
	ids := make([]target.PeelID, 0, n)
	if n < len(ix.slots)/8 {
		slots := b.ToArray()
		slices.SortFunc(slots, ix.byID)
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
