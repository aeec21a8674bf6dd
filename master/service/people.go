package service

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/reach"
)

// A people has the records of people and tokens, which it opens for the first request of one: the bus may be away
// before.
type people struct {
	conn *nats.Conn

	mu    sync.Mutex
	known *reach.Reach // nil: not opened yet
}

// check returns an error if a caller may not send a request whose reply shows something.
func (p *people) check(ctx context.Context, from grants.Caller, verb access.Verb, shows api.Showing) error {
	if _, isToken := credential.TokenNameOf(from.User); !isToken && !from.Role.IsPerson() {
		return nil
	}
	known, err := p.open(ctx)
	if err == nil {
		err = known.Check(ctx, from, verb)
	}
	if err != nil || shows != api.WholeFleet {
		return err
	}
	return known.CheckWhole(ctx, from, verb)
}

func (p *people) open(ctx context.Context) (*reach.Reach, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	js, err := jetstream.New(p.conn)
	if err != nil {
		return nil, err
	}
	known, err := reach.Open(ctx, js, nil)
	if err != nil {
		return nil, err
	}
	p.known = &known
	return p.known, nil
}
