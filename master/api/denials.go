package api

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials tell who waits for an answer that the bus has refused his question. The bus says so on the connection,
// quoting the subject.
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

// watch has cancel called if the subject is refused, until the function that is returned has been called.
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

// hear looks at an error of the connection.
func (d *denials) hear(err error) {
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
