package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// events is one stream of events to one client. It reads the stored steps and then the returns, from the beginning of
// the job, and skips those that the client has.
type events struct {
	r       *routes
	from    grants.Caller
	job     *job.Job // as last read
	request *http.Request
	out     sink

	after position // of the last event that the client has
	at    position // of the last event that was sent or is in after
	until uint64   // sequence of the last step that is stored
	end   uint64   // the step in the ID of the event about the end
	seen  uint64   // sequence of the last step that was read

	waiting  map[string]target.PeelID // targets whose return was not read, by wire ID
	acked    map[string]bool
	returned int // targets whose return was read

	read   int  // messages
	looked int  // value of read when the record was last read
	still  bool // no message was read between the last two reads of the record
}

var errStreamEnded = errors.New("the stream has sent all events")

// open reads the record of the job and finds its last step.
func (e *events) open(ctx context.Context, jid wire.JID) error {
	j, err := e.r.Store.Get(ctx, jid)
	if err != nil {
		return answerError(err)
	}
	e.job, e.at, e.waiting = j, e.after, make(map[string]target.PeelID, len(j.Targets))
	for _, id := range j.Targets {
		e.waiting[id.Wire()] = id
	}
	if err := e.findLast(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

// findLast sets until and end. A job whose end was not recorded in the stream, such as a scheduled one, ends one step
// after its last.
func (e *events) findLast(ctx context.Context) error {
	stream, err := e.r.JetStream.Stream(ctx, wire.StreamJobEvents)
	if err != nil {
		return fmt.Errorf("cannot read the events of job %s: %w", e.job.JID, err)
	}
	last, end := uint64(0), uint64(0)
	for _, subject := range []string{wire.StatusOf(e.job.JID), wire.CancelOf(e.job.JID), wire.DispatchOf(e.job.JID)} {
		msg, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the events of job %s: %w", e.job.JID, err)
		}
		last, end = max(last, msg.Sequence), max(last, msg.Sequence)+1
		if subject == wire.StatusOf(e.job.JID) {
			end = msg.Sequence
			break
		}
	}
	e.until, e.end = last, max(end, 1)
	return nil
}

// A tail is the messages of a stream about one job, from its first one on. The zero tail has none.
type tail struct {
	messages chan jetstream.Msg
	closed   <-chan struct{}
	stop     func()
}

// follow reads a stream until stop is called.
func (e *events) follow(ctx context.Context, stream string, subjects ...string) (tail, error) {
	consumer, err := e.r.JetStream.OrderedConsumer(ctx,
		stream, jetstream.OrderedConsumerConfig{FilterSubjects: subjects, InactiveThreshold: forgotten})
	if err != nil {
		return tail{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan jetstream.Msg)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxBytes(streamBytes))
	if err != nil {
		cancel()
		return tail{}, err
	}
	return tail{messages, consuming.Closed(), func() { cancel(); consuming.Stop() }}, nil
}

// run returns when the job has ended, the client has left or may no longer read, or the master stops.
func (e *events) run(ctx context.Context) error {
	acks := make(chan *nats.Msg, ackBuffer)
	sub, err := e.r.JetStream.Conn().ChanSubscribe(wire.AckOf(e.job.JID, "*"), acks)
	if err != nil {
		return err
	}
	// fails where the connection is closed, which ends the subscription as well
	defer func() { _ = sub.Unsubscribe() }()
	steps, err := e.follow(ctx, wire.StreamJobEvents, wire.DispatchOf(e.job.JID), wire.CancelOf(e.job.JID),
		wire.StatusOf(e.job.JID))
	if err != nil {
		return err
	}
	defer steps.stop()
	if err := e.out.write(": job " + string(e.job.JID) + "\n\n"); err != nil {
		return err
	}
	err = e.pass(ctx, steps, acks)
	if errors.Is(err, errStreamEnded) {
		return nil
	}
	return err
}

// pass sends events. The returns follow the stored steps, so that the order is always the same.
func (e *events) pass(ctx context.Context, steps tail, acks <-chan *nats.Msg) (err error) {
	check, look, ping := time.NewTicker(checkEvery), time.NewTicker(lookEvery), time.NewTicker(pingEvery)
	defer check.Stop()
	defer look.Stop()
	defer ping.Stop()
	var returns tail
	for err == nil {
		if err = e.endIfOver(); err != nil {
			break
		}
		if returns.stop == nil && e.seen >= e.until {
			if returns, err = e.follow(ctx, wire.KV(wire.BucketJobReturns), returnsOf(e.job.JID)); err != nil {
				break
			}
			defer returns.stop()
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-e.r.s.stop:
			err = errors.New("the master stops")
		case <-steps.closed:
			err = errors.New("the bus ended the reading of the steps")
		case <-returns.closed:
			err = errors.New("the bus ended the reading of the returns")
		case m := <-steps.messages:
			err = e.onStep(ctx, m)
		case m := <-returns.messages:
			err = e.onReturn(m)
		case m := <-acks:
			err = e.onAck(m)
		case <-check.C:
			err = e.admitted(ctx)
		case <-look.C:
			err = e.refresh(ctx)
		case <-ping.C:
			err = e.out.write(": still there\n\n")
		}
	}
	return err
}

// returnsOf returns the subject of the stored returns of a job.
func returnsOf(jid wire.JID) string { return wire.KVSubject(wire.BucketJobReturns, string(jid)+".*") }

// admitted returns an error if the token is not allowed to read the stream now, or who made it, if rules no longer show
// them the job, or if that cannot be checked.
func (e *events) admitted(ctx context.Context) error {
	text, _ := bounds.Bearer(e.request)
	t, err := e.r.Tokens.Authenticate(ctx, text)
	if err == nil && !t.Has(credential.ScopeRead) && e.job.User != t.User() {
		err = errors.New("the token lacks the scope read")
	}
	if err == nil {
		err = e.r.Check(ctx, e.from, access.Verb(api.JobReturns.HTTP.Verb))
	}
	if err == nil {
		err = e.r.Questions.CheckShown(ctx, e.from, e.job)
	}
	return err
}

// refresh reads the record again, unless it was final, and finds the last step: the bus may have removed the former
// one.
func (e *events) refresh(ctx context.Context) error {
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
	if e.findLast(ctx) == nil {
		e.job = j
	}
	e.still, e.looked = e.read == e.looked, e.read
	return nil
}

// endIfOver sends the end once all steps and all returns that the record counts were read. All of them are stored
// before the end of the job; one that cannot be read was removed since.
func (e *events) endIfOver() error {
	if !e.job.Status.Final() || e.seen < e.until || e.returned < e.job.ReturnCount && !e.still {
		return nil
	}
	if err := e.out.send(position{e.end, e.at.returned}.String(), "status", e.job.Summary()); err != nil {
		return err
	}
	return errStreamEnded
}

// onStep sends a step that the client does not have, except the end, which comes last.
func (e *events) onStep(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return nil
	}
	e.seen = meta.Sequence.Stream
	e.read++
	name, data := "dispatched", job.Job{}
	switch m.Subject() {
	case wire.CancelOf(e.job.JID):
		name = "cancel"
		stored, err := e.r.Store.Get(ctx, e.job.JID) // a cancel message has the JID alone
		if err != nil {
			return err
		}
		data = stored.Summary()
	default:
		var ok bool
		if data, ok = e.record(m); !ok {
			return nil
		}
	}
	if m.Subject() == wire.StatusOf(e.job.JID) {
		if data.Status.Final() {
			e.job, e.until, e.end = &data, max(e.until, e.seen), e.seen
		}
		return nil
	}
	if e.seen <= e.after.step {
		return nil
	}
	e.at.step = e.seen
	return e.out.send(e.at.String(), name, data)
}

// record decodes the job in a step.
func (e *events) record(m jetstream.Msg) (job.Job, bool) {
	var step struct {
		Data job.Job `json:"data"`
	}
	err := wire.Decode(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}, &step)
	return step.Data.Summary(), err == nil && step.Data.JID == e.job.JID
}

// onReturn sends the stored return of a target, unless the client has it.
func (e *events) onReturn(m jetstream.Msg) error {
	e.read++
	meta, err := m.Metadata()
	sender := wire.Sender(m.Subject())
	id, ok := e.waiting[sender]
	if err != nil || !ok {
		return nil // published by a peel that is not a target
	}
	delete(e.waiting, sender)
	e.returned++
	if meta.Sequence.Stream <= e.after.returned {
		return nil
	}
	ret := job.ReadReturn(e.job.JID, id, m.Data())
	e.at.returned = meta.Sequence.Stream
	return e.out.send(e.at.String(), "return", job.Row{Peel: id, State: job.StateOf(job.Running, ret), Return: ret})
}

// onAck sends the first ack of a target that has not returned. It has no ID, because it is not stored.
func (e *events) onAck(m *nats.Msg) error {
	sender := wire.Sender(m.Subject)
	id, ok := e.waiting[sender]
	if a, err := wire.DecodeAck(m); !ok || err != nil || a.Peel != id || e.acked[sender] {
		return nil
	}
	e.acked[sender] = true
	return e.out.send("", "ack", map[string]target.PeelID{"peel": id})
}

// A sink writes events to the client.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send writes an event. If id is empty, the client keeps the ID of the event before.
func (s sink) send(id, name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.write(id + "event: " + name + "\ndata: " + string(body) + "\n\n")
}

func (s sink) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return err
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
