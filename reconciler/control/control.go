// Package control serves zester.api.sync.*: it answers with the state of the reconciler, and turns orders of people into
// changes of the record.
//
// Call [Service.Run] in each leadership session. It serves every request in a goroutine of its own and hands each [Order] to
// the loop, which alone changes the record.
//
// Guarantees:
//   - The user is the last token of the subject, which the bus checks.
//   - An order is answered as soon as its consequences are complete, and at most 500 ms after the loop has stored its change,
//     whatever the network, the repo and the worker do. OnCommand is called before each answer.
//   - sync.now is answered when an attempt to read the branch that began after it has ended, with all its consequences, or
//     after 2 min.
//   - At most 64 requests are served at a time, and besides 16 of sync.now; one more is refused. So requests that wait for
//     the remote do not delay orders.
//
// Known gap: an answer after 500 ms shows the status at that time. An approval that ends later, because the fleet changed at
// the same time, shows only in sync.status and in the history.
package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	servedAtOnce = 64                     // requests, but for sync.now
	nowAtOnce    = 16                     // requests of sync.now, which wait for the remote
	orderLimit   = 500 * time.Millisecond // for the consequences of an order
	nowLimit     = 2 * time.Minute        // for the consequences of sync.now, and for the loop to take an order
)

// A Service answers zester.api.sync.* for the master that leads. All fields but OnCommand are required.
type Service struct {
	NC       *nats.Conn
	JS       jetstream.JetStream
	Orders   chan<- *Order    // to the loop
	Newest   func() *Snapshot // of the loop; returns at once
	Archive  *archive.Archive
	Progress *progress.Progress
	Settings *settings.Store
	Fleet    *feed.Feed
	// OnCommand is called with each operator command, before its reply.
	OnCommand func(context.Context, *nats.Conn, Command)
	// Remove removes the settings of a peel, and reports whether there were any. It may take long.
	Remove func(context.Context, target.PeelID) (bool, error)
	// Read reads a revision from the repo or the archive, nil if neither has it. It may take long.
	Read func(context.Context, settings.Commit) (*archive.Revision, error)
	Log  *slog.Logger
}

// A Command is an order of a person and its result.
type Command struct {
	Subject string      // its last token is the user
	Header  nats.Header // of the request
	Verb    string      // of sync: now, approve, pause, resume, pin, unpin, retry or remove
	About   string      // the plan, revision, peel or wave in the request; of an approval that was given, the plan and its revision
	Err     error       // why it was not carried out; nil if it was
	Refused bool        // Err is final: the same command fails again
}

var (
	errHandover     = errors.New("the attempt did not end in time, or another master takes the lead; try again")
	errStatesUnread = errors.New("the master that leads still reads the reports on states: ask again")
	errNoPeel       = &record.Refusal{Reason: "no such peel is known"}
)

// A handler answers one request. about is for the audit log; if empty, the log uses the name in the request.
type handler func(context.Context, *reply.Request) (answer any, about string, err error)

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	service := reply.NewService(ctx, s.NC)
	defer service.Stop()
	requests, nows := make(chan struct{}, servedAtOnce), make(chan struct{}, nowAtOnce)
	for verb, handle := range s.handlers() {
		slots := requests
		if verb == "now" {
			slots = nows
		}
		if err := service.HandleEach(wire.API("sync", verb, "*"), slots, func(ctx context.Context, req *reply.Request) {
			s.respond(ctx, req, verb, handle)
		}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *Service) handlers() map[string]handler {
	return map[string]handler{
		"status": s.status, "history": s.history, "peels": s.peels, "states": s.states, "diff": s.document, "plan": s.plan,
		"now": s.now, "approve": s.approve, "pause": s.pause, "resume": s.resume, "pin": s.pin, "unpin": s.unpin, "retry": s.retry,
		"adopt":  s.adopt,
		"remove": s.remove,
	}
}

// isCommand reports whether a verb changes something.
func isCommand(verb string) bool {
	switch verb {
	case "status", "history", "peels", "states", "diff", "plan":
		return false
	}
	return true
}

// respond answers one request.
func (s *Service) respond(ctx context.Context, req *reply.Request, verb string, handle handler) {
	answer, about, err := handle(ctx, req)
	if about == "" {
		about = named(req.Data())
	}
	var data []byte
	if err == nil {
		data, err = canon.Marshal(answer)
	}
	code := "503"
	_, refused := errors.AsType[*record.Refusal](err)
	switch {
	case errors.Is(err, errNoPeel), errors.Is(err, errNoPlan):
		code = "404"
	case refused:
		code = "409"
	}
	if isCommand(verb) && s.OnCommand != nil {
		s.OnCommand(ctx, s.NC, Command{req.Subject(), req.Headers(), verb, about, err, refused})
	}
	if err := reply.Send(s.NC, req, data, code, err); err != nil {
		s.Log.Debug("request not answered", "subject", req.Subject(), "err", err)
	}
}

// named returns the plan, revision, peel, wave or source in the request of a command, empty if it cannot be read.
func named(request []byte) string {
	var q struct {
		Hash     string `json:"hash"`
		Revision string `json:"revision"`
		Peel     string `json:"peel"`
		Wave     string `json:"wave"`
		To       string `json:"to"`
	}
	_ = canon.Unmarshal(request, &q)
	return q.Hash + q.Revision + q.Peel + q.Wave + q.To
}

// user returns the sender of a request: the last token of its subject, which the bus permits to this user alone.
func user(req *reply.Request) string {
	subject := req.Subject()
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// decode reads the body of a request. An empty one leaves into as it is.
func decode(req *reply.Request, into any) error {
	if len(req.Data()) == 0 {
		return nil
	}
	if err := canon.Unmarshal(req.Data(), into); err != nil {
		return record.Refuse("%v", err)
	}
	return nil
}

// do gives an order to the loop, and returns the status when the consequences are complete or limit has passed.
func (s *Service) do(ctx context.Context, o *Order, limit time.Duration) (status.Sync, error) {
	taken, cancel := context.WithTimeout(ctx, nowLimit)
	defer cancel()
	select {
	case s.Orders <- o:
	case <-taken.Done():
		return status.Sync{}, errHandover
	}
	select {
	case err := <-o.accepted:
		if err != nil {
			return status.Sync{}, err
		}
	case <-taken.Done():
		select {
		case err := <-o.accepted: // both at the same time
			if err != nil {
				return status.Sync{}, err
			}
		default:
			return status.Sync{}, errHandover
		}
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-o.settled:
		return s.Status(), nil
	case <-late.C:
	case <-taken.Done():
	}
	if limit == nowLimit {
		return status.Sync{}, errHandover
	}
	return s.Status(), nil // the order is stored, also if this master hands over
}
