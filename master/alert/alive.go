package alert

import (
	"context"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/notify"
)

const aliveEvery = time.Minute

// An alive is the dead man's switch: it calls an address each minute while all is well. The service at the address
// raises an alarm when the calls stop.
type alive struct {
	call *notify.ReceiverCall

	mu    sync.Mutex
	state api.Alive
}

// run calls the address until ctx ends. It reads wellness in the loop of the term, by ask, so the calls stop if that
// loop hangs.
func (a *alive) run(ctx context.Context, ask func(context.Context, func(context.Context)) error,
	wellness func() string,
) error {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var s api.Alive
		if err := ask(ctx, func(context.Context) { s.Held = wellness() }); err != nil {
			return err
		}
		var err error
		if s.Held == "" {
			err = a.call.Do(ctx)
		}
		a.mu.Lock()
		s.Called = a.state.Called
		switch {
		case err != nil:
			s.Error = err.Error()
		case s.Held == "":
			s.Called = time.Now()
		}
		a.state = s
		a.mu.Unlock()
	}
}

func (a *alive) seen() *api.Alive {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	return &s
}
