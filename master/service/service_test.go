package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

type none struct{}

type question struct {
	Text string `json:"text"`
}

func (q *question) Check() error {
	if q.Text == "" {
		return errors.New("text is missing")
	}
	return nil
}

// serve serves verbs on a connection of a master until the test ends or the returned function is called.
func serve(t *testing.T, o service.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = service.Serve(ctx, o) })
	stop = func() { cancel(); serving.Wait() }
	t.Cleanup(stop)
	time.Sleep(time.Second)
	return stop
}

func agree(context.Context, *service.Call, question) (*none, error) { return &none{}, nil }

func on[Q, A any](noun, verb string, f func(context.Context, *service.Call, Q) (*A, error)) service.Verb {
	return service.On(api.Endpoint[Q, A]{Noun: noun, Verb: verb}, f)
}

func ask(nc *nats.Conn, noun, verb, text string, wait time.Duration) error {
	data, err := canon.Marshal(question{text})
	if err != nil {
		return err
	}
	msg, err := nc.Request(wire.API(noun, verb, "ann"), data, wait)
	if err != nil {
		return err
	}
	return api.ReplyError(msg)
}

func TestAMasterThatDiesBeforeItsReplyLeavesAnEntry(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		log := audit.OpenLog(b.JetStream(t), slog.New(slog.DiscardHandler))
		nc := b.Conn(t, grants.RoleMaster, "m1")
		serve(t, service.Options{
			Conn: nc, Lane: service.NewLane(1, 9),
			Record: func(ctx context.Context, e audit.Entry) { log.Write(ctx, e); nc.Close() },
			Verbs:  []service.Verb{on("alert", "test", agree)},
		})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		if err := ask(ann, "alert", "test", "ops", 10*time.Second); !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("the master has died, and the caller gets %v", err)
		}
		page, err := log.List(t.Context(), audit.Query{})
		if err != nil {
			t.Fatal(err)
		}
		got := audit.Entry{}
		if len(page.Entries) == 1 {
			got = page.Entries[0]
		}
		if got.Action != "alert.test" || got.User != "ann" || got.Result != audit.Done {
			t.Errorf("the audit log has %+v", page.Entries)
		}
	})
}

// Each request has the text of a result. The audit log has those that changed something or were to.
func TestTheAuditLogHasWhatWasDoneRefusedAndFailed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var entries []string
		answer := func(_ context.Context, c *service.Call, q question) (*question, error) {
			c.About.Target = q.Text
			c.Dry = q.Text == "dry"
			switch q.Text {
			case "refused":
				return nil, fmt.Errorf("ann: %w", grants.ErrNotAllowed)
			case "failed":
				return nil, errors.New("no space is left")
			case "absent":
				return nil, absent{}
			}
			return &q, nil
		}
		serve(t, service.Options{
			Conn: b.Conn(t, grants.RoleMaster, "m1"), Lane: service.NewLane(1, 9), MaxRequest: 100,
			Record: func(_ context.Context, e audit.Entry) {
				entries = append(entries, fmt.Sprintf("%s %s %s", e.Action, e.Target, e.Result))
			},
			Verbs: []service.Verb{
				on("alert", "test", answer),
				on("alert", "list", answer),
				on("schedule", "file", answer),
			},
		})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		for text, want := range map[string]api.Code{
			"done": "", "dry": "", "refused": api.CodeForbidden, "failed": api.CodeUnavailable,
			"absent": api.CodeNotFound, "": api.CodeInvalid, strings.Repeat("x", 100): api.CodeInvalid,
		} {
			entries = nil
			for _, subject := range []string{"alert.test", "alert.list", "schedule.file"} {
				noun, verb, _ := strings.Cut(subject, ".")
				if err := ask(ann, noun, verb, text, time.Second); api.CodeOf(err) != want {
					t.Errorf("%s %.10q: %v, want the code %q", subject, text, err, want)
				}
			}
			result := map[api.Code]audit.Result{"": audit.Done, api.CodeUnavailable: audit.Failed}[want]
			if result == "" {
				result = audit.Refused
			}
			about := text
			if want == api.CodeInvalid {
				about = ""
			}
			switch logged := strings.Join(entries, ", "); {
			case text == "dry" && logged != "":
				t.Errorf("a change that was only checked is in the audit log: %s", logged)
			case text != "dry" && logged != fmt.Sprintf("alert.test %s %s", about, result):
				t.Errorf("%.10q: the audit log has %q", text, logged)
			}
		}
	})
}

type absent struct{}

func (absent) Error() string { return "there is no such thing" }
func (absent) Code() string  { return "404" }

// Of five requests one is carried out, three wait and one is refused. The callers of two that wait give up, and the
// caller of one that is carried out.
func TestALaneBoundsRequestsAndForgetsThoseOfCallersThatLeft(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var done []string
		nc, lane := b.Conn(t, grants.RoleMaster, "m1"), service.NewLane(1, 3)
		carryOut := func(ctx context.Context, _ *service.Call, q question) (*none, error) {
			select {
			case <-time.After(10 * time.Second):
				done = append(done, q.Text)
			case <-ctx.Done():
				done = append(done, q.Text+" was cut off")
			}
			return &none{}, ctx.Err()
		}
		serve(t, service.Options{Conn: nc, Lane: lane, Verbs: []service.Verb{
			on("alert", "test", carryOut), on("alert", "list", carryOut),
		}})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		for _, q := range []struct {
			verb, text string
			wait       time.Duration
		}{
			{"test", "change", time.Second},
			{"test", "late change", 9 * time.Second},
			{"list", "read", 15 * time.Second},
			{"list", "late read", 9 * time.Second},
		} {
			data, err := canon.Marshal(question{q.text})
			if err != nil {
				t.Fatal(err)
			}
			msg := &nats.Msg{Subject: wire.API("alert", q.verb, "ann"), Data: data, Header: nats.Header{}}
			wire.SetCallerWaits(msg.Header, q.wait)
			if err := ann.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := ask(ann, "alert", "test", "too many", time.Second); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("one more request than there is room for: %v", err)
		}
		if err := lane.Do(t.Context(), func() { done = append(done, "own") }); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		got := strings.Join(done, ", ")
		if got != "change, read was cut off, own" && got != "change, own, read was cut off" {
			t.Errorf("done: %s", got)
		}
	})
}

// A caller has two requests in the lane at most, and leaves the other places to others.
func TestALaneBoundsTheRequestsOfEachCaller(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc, lane := b.Conn(t, grants.RoleMaster, "m1"), service.NewLane(1, 9).Each(2)
		carryOut := func(context.Context, *service.Call, question) (*none, error) {
			time.Sleep(10 * time.Second)
			return &none{}, nil
		}
		serve(t, service.Options{Conn: nc, Lane: lane, Verbs: []service.Verb{on("alert", "list", carryOut)}})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		ended := make(chan error, 3)
		for range 2 {
			go func() { ended <- ask(ann, "alert", "list", "q", time.Minute) }()
			synctest.Wait()
		}
		go func() { ended <- lane.DoFor(t.Context(), "bob", func() {}) }()
		synctest.Wait()
		err := ask(ann, "alert", "list", "too many", time.Minute)
		if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "2 requests of ann of this kind") {
			t.Errorf("a third request of a caller: %v", err)
		}
		if err := lane.DoFor(t.Context(), "ann", func() { t.Error("done") }); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("a third request beside the bus: %v", err)
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := ask(ann, "alert", "list", "again", time.Minute); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

func TestAVerbWithItsOwnLaneWaitsForNoOther(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		wait := func(context.Context, *service.Call, question) (*none, error) {
			time.Sleep(10 * time.Second)
			return &none{}, nil
		}
		serve(t, service.Options{
			Conn: b.Conn(t, grants.RoleMaster, "m1"), Lane: service.NewLane(1, 0),
			Verbs: []service.Verb{
				on("alert", "test", wait),
				on("alert", "list", agree).In(service.NewLane(1, 0)),
			},
		})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		done := make(chan error)
		go func() { done <- ask(ann, "alert", "test", "x", time.Minute) }()
		time.Sleep(time.Second)
		if err := ask(ann, "alert", "list", "x", time.Second); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A master that lost its lease answers nothing more, and refuses what still waits.
func TestAServiceThatStopsRefusesWhatWaitsTooLong(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var done []string
		nc := b.Conn(t, grants.RoleMaster, "m1")
		carryOut := func(ctx context.Context, _ *service.Call, q question) (*none, error) {
			select {
			case <-time.After(1500 * time.Millisecond):
				done = append(done, q.Text)
			case <-ctx.Done():
			}
			return &none{}, ctx.Err()
		}
		stop := serve(t, service.Options{
			Conn: nc, Lane: service.NewLane(1, 9), Verbs: []service.Verb{on("alert", "test", carryOut)},
		})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		results := make(chan error, 3)
		for _, text := range []string{"first", "second", "third"} {
			go func() { results <- ask(ann, "alert", "test", text, time.Minute) }()
			synctest.Wait()
		}
		stop()
		for _, want := range []api.Code{"", api.CodeUnavailable, api.CodeUnavailable} {
			if err := <-results; api.CodeOf(err) != want {
				t.Errorf("%v, want the code %q", err, want)
			}
		}
		if got := strings.Join(done, ", "); got != "first" {
			t.Errorf("carried out: %s", got)
		}
		if err := ask(ann, "alert", "test", "after", time.Second); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("a service that has stopped: %v", err)
		}
	})
}

// FuzzRequest: whatever is sent, the request is answered, as done or not valid.
func FuzzRequest(f *testing.F) {
	for _, q := range []any{question{"x"}, question{}, map[string]any{"other": 1}, nil} {
		data, err := canon.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := on("alert", "test", func(_ context.Context, _ *service.Call, q question) (*question, error) {
			return &q, q.Check()
		})
		if err := v.Try(t.Context(), data); err != nil && api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%v has the code %q", err, api.CodeOf(err))
		}
	})
}

func TestEachRequestIsCountedWithTheCodeOfItsReply(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		metrics := service.NewMetrics()
		wait := func(context.Context, *service.Call, question) (*none, error) {
			time.Sleep(5 * time.Second)
			return &none{}, nil
		}
		serve(t, service.Options{
			Conn: b.Conn(t, grants.RoleMaster, "m1"), Lane: service.NewLane(1, 9), Metrics: metrics,
			Verbs: []service.Verb{on("alert", "test", wait), on("alert", "list", agree)},
		})
		ann := b.Conn(t, grants.RoleOperator, "ann")
		for _, text := range []string{"x", "x", ""} {
			_ = ask(ann, "alert", "test", text, time.Minute)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics)
		shown := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(shown, httptest.NewRequest("GET", "/", nil))
		for _, line := range []string{
			`zester_requests_total{code="200",noun="alert",verb="test"} 2`,
			`zester_requests_total{code="400",noun="alert",verb="test"} 1`,
			`zester_request_duration_seconds_sum{noun="alert",verb="test"} 10`,
			`zester_request_duration_seconds_count{noun="alert",verb="test"} 3`,
		} {
			if !strings.Contains(shown.Body.String(), line+"\n") {
				t.Errorf("the metrics lack %s:\n%s", line, shown.Body)
			}
		}
	})
}
