package otel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxText bounds a value of a field, in bytes.
const maxText = 256

// The JSON of a request, by the rules of OTLP: IDs are hex, and numbers of 64 bits are texts.
type (
	export struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"` // 16 bytes in hex
		SpanID     string      `json:"spanId"`  // 8 bytes in hex
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      int64       `json:"startTimeUnixNano,string"`
		End        int64       `json:"endTimeUnixNano,string"`
		Attributes []attribute `json:"attributes"`
		Status     spanStatus  `json:"status"`

		stored time.Time // when the bus stored the event
	}
	spanStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// The numbers of OTLP for the kind of a span within one application, and for the status of one that failed.
const (
	kindInternal = 1
	statusError  = 2
)

// request returns the JSON of a request with spans.
func request(spans []span) export {
	version := build.Read().Version
	return export{[]resourceSpans{{
		Resource:   resource{[]attribute{text("service.name", "zester"), text("service.version", version)}},
		ScopeSpans: []scopeSpans{{scope{"zester"}, spans}},
	}}}
}

func text(key, s string) attribute {
	s = outbound.Line(s, maxText)
	return attribute{key, value{String: &s}}
}

func number(key string, n int) attribute {
	s := strconv.Itoa(n)
	return attribute{key, value{Int: &s}}
}

// idOf returns n bytes in hex that depend on the parts alone.
func idOf(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
		_, _ = h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:n])
}

func traceOf(jid wire.JID) string                  { return idOf(16, "trace", string(jid)) }
func jobSpan(jid wire.JID) string                  { return idOf(8, "job", string(jid)) }
func runSpan(jid wire.JID, p target.PeelID) string { return idOf(8, "run", string(jid), string(p)) }

// newSpan returns a span without a parent. A span does not end before its start, which clocks of different hosts may
// suggest.
func newSpan(jid wire.JID, id, name string, start, end time.Time) span {
	from := nanoseconds(start)
	return span{
		TraceID:    traceOf(jid),
		SpanID:     id,
		Name:       outbound.Line(name, maxText),
		Kind:       kindInternal,
		Start:      from,
		End:        max(from, nanoseconds(end)),
		Attributes: []attribute{text("zester.jid", string(jid))},
	}
}

// nanoseconds returns a time since 1970. Times that have none, before 1970 or after 2262, are 0.
func nanoseconds(t time.Time) int64 {
	if t.Year() < 1970 || t.Year() > 2261 {
		return 0
	}
	return max(t.UnixNano(), 0)
}

// add adds a field unless its value is empty.
func (s *span) add(key, value string) {
	if value != "" {
		s.Attributes = append(s.Attributes, text(key, value))
	}
}

// fail marks the span as failed.
func (s *span) fail(why string) {
	s.Status = spanStatus{statusError, outbound.Line(why, maxText)}
}

// spansOf returns the spans of an event. Events that cannot be read have none. The error says that the bus did not
// answer.
func (f *follower) spansOf(ctx context.Context, m jetstream.Msg) ([]span, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	spans, err := f.read(ctx, m)
	for i := range spans {
		spans[i].stored = meta.Timestamp
	}
	return spans, err
}

func (f *follower) read(ctx context.Context, m jetstream.Msg) ([]span, error) {
	if wire.IsScheduled(m.Subject()) {
		s, err := f.scheduledRun(m)
		if err != nil {
			f.counts.unreadable.Add(1)
			return nil, nil
		}
		return []span{s}, nil
	}
	j, err := endedJob(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err != nil {
		f.counts.unreadable.Add(1)
		return nil, nil
	}
	return f.dispatched(ctx, j)
}

// endedJob reads the event of the end of a job, which a master published.
func endedJob(msg *nats.Msg) (*job.Job, error) {
	jid, _, err := wire.JobSubject(msg.Subject)
	if err != nil {
		return nil, err
	}
	var e struct {
		Data job.Job `json:"data"`
	}
	if err := wire.Decode(msg, &e); err != nil {
		return nil, err
	}
	if e.Data.JID != jid || !e.Data.Status.Final() {
		return nil, wire.ErrForged
	}
	return &e.Data, nil
}

// dispatched returns the span of a job, and those of the runs on its targets.
func (f *follower) dispatched(ctx context.Context, j *job.Job) ([]span, error) {
	spans := []span{jobSpanOf(j)}
	ctx, cancel := context.WithTimeout(ctx, ackWait/2)
	defer cancel()
	leftOut, unreadable := uint64(0), uint64(0)
	err := f.store.Stored(ctx, j.JID, func(r job.StoredReturn) {
		if len(spans) > MaxRuns {
			leftOut++
			return
		}
		s, err := runOf(j, r)
		if err != nil {
			unreadable++
			return
		}
		spans = append(spans, s)
	})
	if err != nil {
		return nil, err // counted when it is read again
	}
	f.counts.leftOut.Add(leftOut)
	f.counts.unreadable.Add(unreadable)
	return spans, nil
}

// jobSpanOf returns the span of a dispatched job.
func jobSpanOf(j *job.Job) span {
	s := newSpan(j.JID, jobSpan(j.JID), j.Function, j.Created, j.Updated)
	s.add("zester.function", j.Function)
	s.add("zester.user", j.User)
	s.add("zester.target", j.Target)
	s.add("zester.status", string(j.Status))
	s.Attributes = append(s.Attributes, number("zester.targets", j.TargetCount),
		number("zester.returned", j.ReturnCount), number("zester.succeeded", j.SuccessCount))
	if j.Status != job.Complete {
		why := j.Metadata[job.MetaFailedReason]
		if why == "" {
			why = strconv.Itoa(j.ReturnCount) + " of " + strconv.Itoa(j.TargetCount) + " targets returned, " +
				strconv.Itoa(j.SuccessCount) + " succeeded"
		}
		s.fail(why)
	}
	return s
}

// runOf returns the span of a run on a target of a job. Its times are those of the peel's clock.
func runOf(j *job.Job, stored job.StoredReturn) (span, error) {
	var named struct {
		Peel target.PeelID `json:"peel_id"`
	}
	if err := canon.Unmarshal(stored.Data, &named); err != nil {
		return span{}, err
	}
	if named.Peel.Wire() != stored.Sender {
		return span{}, wire.ErrForged
	}
	r, err := job.ReadReceipt(j.JID, named.Peel, stored.Data)
	if err != nil {
		return span{}, err
	}
	s := newSpan(j.JID, runSpan(j.JID, r.Peel), j.Function, r.Finished.Add(-max(r.Duration, 0)), r.Finished)
	s.Parent = jobSpan(j.JID)
	s.add("zester.peel", string(r.Peel))
	s.add("zester.function", j.Function)
	s.finish(&r)
	return s, nil
}

// finish adds how a run ended.
func (s *span) finish(r *job.Receipt) {
	s.add("zester.outcome", string(r.Outcome))
	if !r.Success {
		why := r.Error
		if why == "" {
			why = "the run did not succeed"
		}
		s.fail(why)
	}
}

// scheduledRun returns the span of a run that a peel reports.
func (f *follower) scheduledRun(m jetstream.Msg) (span, error) {
	ended, err := results.Read(m, time.Now(), &f.key)
	if err != nil {
		return span{}, err
	}
	j := ended.Job
	r, err := job.ReadReceipt(j.JID, j.Targets[0], ended.Return)
	if err != nil {
		return span{}, err
	}
	entry := j.Metadata[job.MetaSchedule]
	s := newSpan(j.JID, runSpan(j.JID, r.Peel), entry, timeIn(j, job.MetaStarted), timeIn(j, job.MetaFinished))
	s.add("zester.peel", string(r.Peel))
	s.add("zester.entry", entry)
	s.add("zester.function", j.Function)
	for _, key := range []string{job.MetaTrigger, job.MetaCommit, job.MetaFile, job.MetaAuthor, job.MetaNominal} {
		s.add("zester."+key, j.Metadata[key])
	}
	s.finish(&r)
	return s, nil
}

// timeIn returns a time in the metadata of a job, zero if it is missing.
func timeIn(j *job.Job, key string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, j.Metadata[key])
	return t
}
