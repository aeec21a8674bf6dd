package api

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials cancels requests that the bus refuses. The bus reports a refusal as an error of the connection that quotes
// the subject.
type denials struct {
	mu      sync.Mutex
	next    int
	waiting map[int]waiter
}

type waiter struct {
	subject string
	cancel  context.CancelCauseFunc
}

func newDenials() *denials { return &denials{waiting: map[int]waiter{}} }

// watch calls cancel if the bus refuses the subject, until unwatch is called.
func (d *denials) watch(subject string, cancel context.CancelCauseFunc) (unwatch func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.next
	d.next++
	d.waiting[id] = waiter{subject, cancel}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, id)
	}
}

// onError cancels the requests whose subject an error of the connection refuses.
func (d *denials) onError(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waiting {
		if strings.Contains(err.Error(), `"`+w.subject+`"`) {
			w.cancel(err)
		}
	}
}
