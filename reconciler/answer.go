package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	pageOfPeels   = 500
	answersAtOnce = 64 // questions; one more is refused
	// duplicatesShown bounds the peels that the status names as duplicates.
	duplicatesShown = 20
	// pausedShown bounds the peels that the status names for entries paused by failures.
	pausedShown = 20
	// askLimit is how long sync.now waits for the attempt that it asked for.
	askLimit = 2 * time.Minute
)

// answer serves zester.api.sync.* until ctx ends. Only the holder of the lease does.
func (t *term) answer(ctx context.Context) error {
	service, err := micro.AddService(t.nc, micro.Config{
		Name: "zester-sync", Version: "1.0.0", QueueGroup: wire.MastersQueue,
		Description: "what Git says, and how far the fleet is with it",
	})
	if err != nil {
		return fmt.Errorf("cannot serve zester.api.sync: %w", err)
	}
	var answering sync.WaitGroup
	defer answering.Wait()
	defer service.Stop()
	slots := make(chan struct{}, answersAtOnce)
	endpoints := map[string]func(context.Context, micro.Request) (any, error){
		"status": func(context.Context, micro.Request) (any, error) { return t.status(), nil },
		"now":    t.now, "approve": t.approve, "pause": t.pause, "resume": t.resume,
		"pin": t.pin, "unpin": t.unpin, "retry": t.retry, "history": t.pastAttempts,
		"plan": t.plan, "peels": t.peels, "diff": t.document, "remove": t.remove,
	}
	for verb, handle := range endpoints {
		handler := micro.HandlerFunc(func(req micro.Request) {
			select {
			case slots <- struct{}{}:
				answering.Go(func() { defer func() { <-slots }(); t.respond(ctx, req, verb, handle) })
			default:
				_ = wire.Answer(t.nc, req, nil, "503", errBusy)
			}
		})
		if err := service.AddEndpoint(verb, handler, micro.WithEndpointSubject(wire.API("sync", verb, "*"))); err != nil {
			return fmt.Errorf("cannot serve zester.api.sync.%s: %w", verb, err)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// orders are the verbs that change something.
var orders = map[string]bool{"now": true, "approve": true, "pause": true, "resume": true, "pin": true, "unpin": true, "retry": true, "remove": true}

// respond answers one request.
func (t *term) respond(ctx context.Context, req micro.Request, verb string, handle func(context.Context, micro.Request) (any, error)) {
	if orders[verb] {
		t.noteOrder(verb, asker(req))
	}
	answer, err := handle(ctx, req)
	named := about(req.Data())
	if a, ok := answer.(done); ok {
		answer, named = a.status, a.about
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
	if orders[verb] && t.r.o.Steered != nil {
		o := Order{Subject: req.Subject(), Header: nats.Header(req.Headers()), Verb: verb, About: named, Err: err, Refused: refused}
		t.r.o.Steered(ctx, t.nc, o)
	}
	if err := wire.Answer(t.nc, req, data, code, err); err != nil {
		t.r.log.Debug("question not answered", "subject", req.Subject(), "err", err)
	}
}

// about is what the question of an order names; one that cannot be read names nothing.
func about(question []byte) string {
	var q struct {
		Hash     string `json:"hash"`
		Revision string `json:"revision"`
		Peel     string `json:"peel"`
	}
	_ = canon.Unmarshal(question, &q)
	return q.Hash + q.Revision + q.Peel
}

func (t *term) status() status.Sync {
	s := t.board.read()
	s.Counts = t.progress.Counts()
	s.PausedErrors = t.progress.PausedErrors(pausedShown)
	s.Duplicates = t.fleet.Duplicates()
	s.Duplicates = s.Duplicates[:min(len(s.Duplicates), duplicatesShown)]
	return s
}

var errBusy = errors.New("too many ask at once; ask again")

var errHandover = errors.New("the attempt did not end: it takes long, or the reconciler hands over; ask again")

// now has the branch asked at once and returns when that attempt has ended.
func (t *term) now(ctx context.Context, _ micro.Request) (any, error) {
	return t.do(ctx, &ask{branch: true})
}

// do has the loop do what is asked and try what follows from it, and returns what that came to.
func (t *term) do(ctx context.Context, a *ask) (status.Sync, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	a.done = make(chan error, 1)
	select {
	case t.asks <- a:
	case <-ctx.Done():
		return status.Sync{}, errHandover
	}
	select {
	case err := <-a.done:
		return t.status(), err
	case <-ctx.Done():
		return status.Sync{}, errHandover
	}
}

// document answers with what a peel was given.
func (t *term) document(ctx context.Context, req micro.Request) (any, error) {
	var q status.DocumentRequest
	if err := canon.Unmarshal(req.Data(), &q); err != nil {
		return nil, record.Refuse("%v", err)
	}
	id, err := target.ParsePeelID(string(q.Peel))
	if err != nil {
		return nil, record.Refuse("%v", err)
	}
	doc, _, err := t.store.Get(ctx, id)
	if err == nil && doc == nil {
		err = record.Refuse("no settings were given to %s", id)
	}
	if err != nil {
		return nil, err
	}
	values, err := doc.Values()
	if err != nil {
		return nil, err
	}
	return status.Document{Peel: t.progress.Peel(id), Commit: doc.Commit, Digest: doc.Digest, Settings: values, Origins: doc.Origins}, nil
}

func (t *term) peels(_ context.Context, req micro.Request) (any, error) {
	var ask status.PeelsRequest
	if len(req.Data()) > 0 {
		if err := canon.Unmarshal(req.Data(), &ask); err != nil {
			return nil, err
		}
	}
	return t.progress.Page(ask.After, pageOfPeels), nil
}
