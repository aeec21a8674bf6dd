package service

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
)

// A people has the records of people, which it opens for the first request of one: the bus may be away before.
type people struct {
	conn *nats.Conn

	mu    sync.Mutex
	store *user.Store // nil: not opened yet
}

// check returns an error if a caller may not send a request.
func (p *people) check(ctx context.Context, from grants.Caller, verb access.Verb) error {
	if !from.Role.IsPerson() {
		return nil
	}
	store, err := p.open(ctx)
	if err != nil {
		return err
	}
	return store.Check(ctx, from, verb)
}

func (p *people) open(ctx context.Context) (*user.Store, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.store != nil {
		return p.store, nil
	}
	js, err := jetstream.New(p.conn)
	if err != nil {
		return nil, err
	}
	store, err := user.Open(ctx, js)
	if err != nil {
		return nil, err
	}
	p.store = store
	return store, nil
}
