package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// How many calls of assistants are recorded for each user by one master. Readers may record calls too, and must not be
// able to push the entries of others out of the audit log: ten a minute are at most 15 MB a day.
const (
	callsAtOnce = 600
	callEvery   = 6 * time.Second
	maxAgents   = 1024 // users whose calls are counted
)

// An agents records calls of assistants.
type agents struct {
	mu     sync.Mutex
	byUser map[string]*rate.Limiter
}

// allow reports whether a user may record one more call.
func (a *agents) allow(user string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.byUser[user]
	if l == nil {
		if len(a.byUser) >= maxAgents {
			clear(a.byUser)
		}
		l = rate.NewLimiter(rate.Every(callEvery), callsAtOnce)
		a.byUser[user] = l
	}
	return l.Allow()
}

// recordCall writes a call of an assistant into the audit log under the name of the caller. If it returns an error, the
// call is not in the log, and must not be carried out.
func (s *Server) recordCall(ctx context.Context, from grants.Caller, c audit.Call) (*api.None, error) {
	e, err := c.Entry()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if !s.agents.allow(from.User) {
		return nil, &api.Error{
			Code: api.CodeConflict,
			Msg: fmt.Sprintf("%s has used up %d calls of tools, and gets one more every %v: wait", from.User,
				callsAtOnce, callEvery),
		}
	}
	if err := s.o.Audit.Record(ctx, e.By(from)); err != nil {
		return nil, &api.Error{
			Code: api.CodeUnavailable,
			Msg:  "the call is not in the audit log: " + err.Error(),
			Err:  err,
		}
	}
	return &api.None{}, nil
}
