package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	eventsID = "job-events"

	maxStreams     = 100 // at once
	tokenStreams   = 10  // of them with one token
	addressStreams = 50  // of them from one address

	streamWrite = 10 * time.Second // to send one event
	streamBytes = 4 << 20          // of events that wait to be sent
	forgotten   = 10 * time.Second // after which the bus removes the consumer of a master that is gone
	checkEvery  = 500 * time.Millisecond
	lookEvery   = 5 * time.Second // how often the record is read, in case the message about the end was lost
	ackBuffer   = 8192            // acks that wait to be sent; more are dropped
	pingEvery   = 15 * time.Second
)

type eventsInput struct {
	JID  wire.JID `path:"jid" minLength:"27" maxLength:"27"`
	Last string   `header:"Last-Event-ID" maxLength:"41" pattern:"^[0-9]{1,20}(-[0-9]{1,20})?$" doc:"The ID of the last event that was received, to go on after it."`
}

func (r *routes) eventsOperation() huma.Operation {
	op := r.over(&api.Route{
		Path: "GET /jobs/{jid}/events", ID: eventsID, Summary: "Follow a job until it ends", Scopes: eitherScope,
		Codes: []int{404}, Verb: api.JobReturns.HTTP.Verb,
	})
	op.Description = "Server-sent events, from the beginning of the job or after Last-Event-ID, without gaps, " +
		"on any master. The data is JSON: of `dispatched`, `cancel` and `status` the job without targets and " +
		"arguments, of `return` the target with what it returned, each target once, and of `ack` the name of the " +
		"peel. Acks are not stored: they are sent while they arrive, have no ID and are not repeated. `status` is " +
		"the last event; of what a peel ran by its schedule there are `return` and `status` alone. An answer of " +
		"204 says that nothing comes after Last-Event-ID. After an ID of an earlier version, which is one number, " +
		"all returns are sent again."
	op.Responses = map[string]*huma.Response{
		"200": {
			Description: "The events",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
		},
		"204": {Description: "The job has ended, and there are no more events"},
	}
	op.DefaultStatus = http.StatusOK
	return op
}

// A position is the ID of an event: the sequences of the last sent step, in the stream job-events, and of the last sent
// return, in the stream of the bucket job-returns; 0 means none.
type position struct{ step, returned uint64 }

func (p position) String() string { return fmt.Sprintf("%d-%d", p.step, p.returned) }

// parsePosition reads the ID of an event. Earlier versions had one number, a sequence in job-events;
// all returns are then sent again.
func parsePosition(id string) (p position, err error) {
	step, returned, both := strings.Cut(id, "-")
	if p.step, err = strconv.ParseUint(step, 10, 64); err == nil && both {
		p.returned, err = strconv.ParseUint(returned, 10, 64)
	}
	if err != nil {
		return position{}, fmt.Errorf("cannot read the event ID %q: want STEP-RETURN, two sequences: %w", id, err)
	}
	return p, nil
}

// jobEvents streams the steps of a job and the returns of its targets as they are stored.
func (r *routes) jobEvents(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	e := &events{r: r, from: callerOf(ctx), acked: map[string]bool{}}
	if in.Last != "" {
		var err error
		if e.after, err = parsePosition(in.Last); err != nil {
			return nil, huma.Error400BadRequest(sentence(err))
		}
	}
	if _, err := r.visible(ctx, in.JID); err != nil {
		return nil, err
	}
	if err := e.open(ctx, in.JID); err != nil {
		return nil, err
	}
	if e.job.Status.Final() && e.after.step == e.end {
		return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
	}
	slots := []bounds.Slot{
		{Key: tokenOf(ctx).Name, Most: tokenStreams}, {Key: bounds.Source(remoteOf(ctx)), Most: addressStreams},
	}
	if !r.streams.Enter(slots...) {
		return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests(fmt.Sprintf(
			"too many streams of events are open: %d are the most with one token, %d from one address, %d in all",
			tokenStreams, addressStreams, maxStreams)), retryAfter(10))
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer r.streams.Leave(slots...)
		request, w := humago.Unwrap(c)
		e.request, e.out = request, sink{w, http.NewResponseController(w)}
		_ = e.out.control.SetReadDeadline(time.Time{})
		c.SetHeader("Content-Type", "text/event-stream")
		c.SetStatus(http.StatusOK)
		if err := e.run(c.Context()); err != nil && ctx.Err() == nil {
			r.s.log.Debug("events ended early", "jid", in.JID, "request", requestOf(ctx), "err", err)
		}
	}}, nil
}
