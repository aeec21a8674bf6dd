package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	eventsID     = "job-events"
	eventsStream = "job-events"

	maxStreams     = 100 // at once
	tokenStreams   = 10  // of them with one token
	addressStreams = 50  // of them from one address

	streamWrite = 10 * time.Second // for one event to leave
	streamBytes = 4 << 20          // of events that wait here
	forgotten   = 10 * time.Second // after which the bus ends the reading of a master that is gone
	checkEvery  = 500 * time.Millisecond
	lookEvery   = 5 * time.Second // at the record, in case the message that the job has ended got lost
	pingEvery   = 15 * time.Second
)

type eventsInput struct {
	JID  wire.JID `path:"jid" minLength:"27" maxLength:"27"`
	Last uint64   `header:"Last-Event-ID" doc:"The ID of the last event that was seen, to go on after it."`
}

func (r *routes) eventsOperation() huma.Operation {
	op := r.operation("GET", "/jobs/{jid}/events", eventsID, "Follow a job until it ends", eitherScope, 404)
	op.Description = `Server-sent events, from the beginning of the job or after Last-Event-ID, without gaps, on any master. The data is JSON: of ` +
		"`dispatched`, `cancel` and `status` the job without targets and arguments, of `ack` the name of the peel, of `return` the target with what it returned, " +
		"each target once. `status` is the last event; of what a peel ran by its schedule there are `return` and `status` alone. An answer of 204 says that nothing comes after Last-Event-ID."
	op.Responses = map[string]*huma.Response{
		"200": {Description: "The events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		"204": {Description: "The job has ended, and there are no more events"},
	}
	op.DefaultStatus = http.StatusOK
	return op
}

// jobEvents streams what is kept of a job in the stream job-events. The number of a message there is its event's ID.
func (r *routes) jobEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if _, err := r.visible(ctx, in.JID); err != nil {
		return nil, err
	}
	j, err := r.Store.Get(ctx, in.JID)
	if err != nil {
		return nil, answerError(err)
	}
	e := &events{r: r, job: j, after: in.Last, open: make(map[string]target.PeelID, len(j.Targets)), acked: map[string]bool{}}
	for _, id := range j.Targets {
		e.open[id.Wire()] = id
	}
	if e.until, err = r.lastEvent(ctx, in.JID); err != nil {
		return nil, unavailable(err)
	}
	e.still = j.Status.Final() && e.until == 0
	if j.Status.Final() && in.Last > 0 && in.Last == e.endID() {
		return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
	}
	slots := []slot{{tokenOf(ctx).Name, tokenStreams}, {source(remoteOf(ctx)), addressStreams}}
	if !r.streams.enter(slots...) {
		return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests(fmt.Sprintf(
			"too many streams of events are open: %d are the most with one token, %d from one address, %d in all", tokenStreams, addressStreams, maxStreams)), retryAfter(10))
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer r.streams.leave(slots...)
		e.request, e.w = humago.Unwrap(c)
		e.control = http.NewResponseController(e.w)
		_ = e.control.SetReadDeadline(time.Time{})
		c.SetHeader("Content-Type", "text/event-stream")
		c.SetStatus(http.StatusOK)
		if err := e.run(c.Context()); err != nil && ctx.Err() == nil {
			r.s.log.Debug("events ended early", "jid", in.JID, "request", requestOf(ctx), "err", err)
		}
	}}, nil
}

// lastEvent is the number of the message about the end of a job, of the newest about it if there is none such, 0 if none
// is kept.
func (r *routes) lastEvent(ctx context.Context, jid wire.JID) (uint64, error) {
	stream, err := r.JetStream.Stream(ctx, eventsStream)
	if err != nil {
		return 0, fmt.Errorf("cannot read the events of job %s: %w", jid, err)
	}
	for _, subject := range []string{wire.StatusOf(jid), wire.AllOf(jid)} {
		msg, err := stream.GetLastMsgForSubject(ctx, subject)
		if err == nil {
			return msg.Sequence, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, fmt.Errorf("cannot read the events of job %s: %w", jid, err)
		}
	}
	return 0, nil
}

// events is one stream to one asker. What each target has said already is learned anew from the beginning of the job,
// so that nothing comes twice after an interruption either.
type events struct {
	r       *routes
	job     *job.Job // as it was read last
	request *http.Request
	w       http.ResponseWriter
	control *http.ResponseController

	after uint64 // what was seen before
	until uint64 // its last event, once it has ended
	seen  uint64 // what was read
	open  map[string]target.PeelID
	acked map[string]bool

	looked uint64 // what was read when the record was looked at
	still  bool   // nothing was read from one look to the next
}

var errStreamEnded = errors.New("the stream has said all")

// run ends when the job has, the asker leaves or may no longer ask, or the master stops.
func (e *events) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consumer, err := e.r.JetStream.OrderedConsumer(ctx, eventsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{wire.AllOf(e.job.JID)}, InactiveThreshold: forgotten,
	})
	if err != nil {
		return err
	}
	messages := make(chan jetstream.Msg)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxBytes(streamBytes))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	defer cancel()
	if err := e.write(": job " + string(e.job.JID) + "\n\n"); err != nil {
		return err
	}
	err = e.pass(ctx, messages, consuming.Closed())
	if errors.Is(err, errStreamEnded) {
		return nil
	}
	return err
}

// pass hands events on.
func (e *events) pass(ctx context.Context, messages <-chan jetstream.Msg, closed <-chan struct{}) error {
	check, look, ping := time.NewTicker(checkEvery), time.NewTicker(lookEvery), time.NewTicker(pingEvery)
	defer check.Stop()
	defer look.Stop()
	defer ping.Stop()
	for {
		if err := e.endIfOver(); err != nil {
			return err
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.r.s.stop:
			return errors.New("the master stops")
		case <-closed:
			return errors.New("the bus ended the reading")
		case m := <-messages:
			err = e.message(ctx, m)
		case <-check.C:
			err = e.admitted(ctx)
		case <-look.C:
			err = e.look(ctx)
		case <-ping.C:
			err = e.write(": still there\n\n")
		}
		if err != nil {
			return err
		}
	}
}

// admitted returns an error once the token opens the stream no more, or that cannot be told.
func (e *events) admitted(ctx context.Context) error {
	text, _ := bearer(e.request)
	token, err := e.r.Tokens.Authenticate(ctx, text)
	if err == nil && !token.Has(auth.ScopeRead) && e.job.User != token.User() {
		err = errors.New("the token has not the scope any more")
	}
	return err
}

// look reads the record again, unless it was final, and which event is the last, for the bus may have dropped the one
// that was.
func (e *events) look(ctx context.Context) error {
	j := e.job
	if !j.Status.Final() {
		var err error
		if j, err = e.r.Store.Get(ctx, e.job.JID); errors.Is(err, job.ErrNotFound) {
			return err
		}
		if err != nil || !j.Status.Final() {
			return nil
		}
	}
	last, err := e.r.lastEvent(ctx, e.job.JID)
	if err == nil {
		e.job, e.until = j, last
	}
	e.still, e.looked = e.seen == e.looked, e.seen
	return nil
}

// endIfOver tells the end by the record once all that is kept was read. The last returns may stand behind the message
// about the end, because the bus hands a return to the master before it keeps it: they are waited for, unless the bus
// does not have them.
func (e *events) endIfOver() error {
	if !e.job.Status.Final() || e.seen < e.until {
		return nil
	}
	if missing := len(e.open) > e.job.TargetCount-e.job.ReturnCount; missing && !e.still {
		return nil
	}
	if err := e.send(e.endID(), "status", e.job.Summary()); err != nil {
		return err
	}
	return errStreamEnded
}

// endID is the ID of the event about the end, whatever stands behind it.
func (e *events) endID() uint64 { return max(e.until, 1) }

// message sends on a message that counts and was not seen before, except the end, which comes last.
func (e *events) message(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return nil
	}
	e.seen = meta.Sequence.Stream
	name, data := e.event(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if j, ok := data.(job.Job); ok && name == "status" && j.Status.Final() {
		e.job, e.until = &j, max(e.until, e.seen)
		return nil
	}
	if name == "" || e.seen <= e.after {
		return nil
	}
	if name == "cancel" {
		j, err := e.r.Store.Get(ctx, e.job.JID)
		if err != nil {
			return err
		}
		data = j.Summary()
	}
	return e.send(e.seen, name, data)
}

// event reads a message. It has no name if it does not count: from a stranger, forged, or not the first of its kind.
func (e *events) event(msg *nats.Msg) (name string, data any) {
	switch msg.Subject {
	case wire.DispatchOf(e.job.JID):
		return e.record("dispatched", msg)
	case wire.CancelOf(e.job.JID):
		if _, err := wire.DecodeCancel(msg); err != nil {
			return "", nil
		}
		return "cancel", nil // message adds the record: a cancel goes to all peels and carries the JID alone
	case wire.StatusOf(e.job.JID):
		return e.record("status", msg)
	}
	sender := wire.Sender(msg.Subject)
	id, open := e.open[sender]
	if !open {
		return "", nil
	}
	if msg.Subject == wire.AckOf(e.job.JID, sender) {
		if a, err := wire.DecodeAck(msg); err != nil || a.Peel != id || e.acked[sender] {
			return "", nil
		}
		e.acked[sender] = true
		return "ack", map[string]target.PeelID{"peel": id}
	}
	ret, ok := e.returned(msg)
	if !ok || ret.Peel != id || len(msg.Data) > job.MaxReturn {
		return "", nil
	}
	delete(e.open, sender)
	return "return", job.Row{Peel: id, State: job.StateOf(job.Running, ret), Return: ret}
}

// returned reads what a target returned: of a scheduled job by its report, of others by its return.
func (e *events) returned(msg *nats.Msg) (*wire.Return, bool) {
	reported := msg.Subject == wire.ScheduledOf(e.job.JID, wire.Sender(msg.Subject))
	if reported != e.job.Scheduled() {
		return nil, false
	}
	if reported {
		r, err := wire.DecodeScheduled(msg)
		return r.Return(), err == nil
	}
	r, err := wire.DecodeReturn(msg)
	return &r, err == nil
}

// record reads what a master said.
func (e *events) record(name string, msg *nats.Msg) (string, any) {
	var said struct {
		Data job.Job `json:"data"`
	}
	if err := wire.Decode(msg, &said); err != nil || said.Data.JID != e.job.JID {
		return "", nil
	}
	return name, said.Data.Summary()
}

func (e *events) send(id uint64, name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return e.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", id, name, body))
}

func (e *events) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := io.WriteString(e.w, text); err != nil {
		return err
	}
	return e.control.Flush()
}
