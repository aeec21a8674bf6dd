package scheduler

import (
	"container/heap"
	"strings"
)

// A queue is a min-heap of entries by a key, in nanoseconds of whatever the queue is ordered by. Equal keys are
// ordered by name. An entry is in one queue at most and knows its place, so that it can be taken out.
type queue struct{ items []item }

type item struct {
	key int64
	e   *entry
}

func (q *queue) push(e *entry, key int64) {
	e.queue = q
	heap.Push((*heapOf)(q), item{key, e})
}

// next returns the entry with the smallest key, without taking it out. The queue must not be empty.
func (q *queue) next() (*entry, int64) { return q.items[0].e, q.items[0].key }

func (q *queue) len() int { return len(q.items) }

// dequeue takes the entry out of the queue that it is in, if any.
func (e *entry) dequeue() {
	if e.queue != nil {
		heap.Remove((*heapOf)(e.queue), e.place)
		e.queue = nil
	}
}

// heapOf is the queue as container/heap wants it.
type heapOf queue

func (h *heapOf) Len() int { return len(h.items) }

func (h *heapOf) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	if a.key != b.key {
		return a.key < b.key
	}
	return strings.Compare(a.e.Name, b.e.Name) < 0
}

func (h *heapOf) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].e.place, h.items[j].e.place = i, j
}

func (h *heapOf) Push(x any) {
	it := x.(item)
	it.e.place = len(h.items)
	h.items = append(h.items, it)
}

func (h *heapOf) Pop() any {
	last := len(h.items) - 1
	it := h.items[last]
	h.items[last] = item{}
	h.items = h.items[:last]
	return it
}
