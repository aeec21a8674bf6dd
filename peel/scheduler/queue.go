package scheduler

import (
	"cmp"
	"slices"
	"strings"
)

// A queue holds entries in ascending order of their key, a time in nanoseconds. Entries with equal keys are ordered by
// name.
type queue []*entry

func byKey(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.Name, b.Name))
}

// push adds an entry, which must not be in a queue.
func (q *queue) push(e *entry, key int64) {
	e.queue, e.key = q, key
	i, _ := slices.BinarySearchFunc(*q, e, byKey)
	*q = slices.Insert(*q, i, e)
}

// dequeue removes the entry from the queue that it is in, if any.
func (e *entry) dequeue() {
	if e.queue == nil {
		return
	}
	i, _ := slices.BinarySearchFunc(*e.queue, e, byKey)
	*e.queue = slices.Delete(*e.queue, i, i+1)
	e.queue = nil
}
