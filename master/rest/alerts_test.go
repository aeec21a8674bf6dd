package rest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/alert"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
)

// A taker is a chat without a socket, which would stop fake time.
type taker struct{ asked int }

func (c *taker) RoundTrip(*http.Request) (*http.Response, error) {
	if c.asked++; c.asked > 2 {
		return nil, errors.New("the chat is away")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// leadAlerts has another master lead the alerts, with one receiver and one problem.
func (s *system) leadAlerts() {
	s.t.Helper()
	ops, err := notify.NewReceiver(notify.ReceiverOptions{Name: "ops", Provider: notify.ReceiverSlack, URL: "https://chat.example/x", Transport: &taker{}})
	if err != nil {
		s.t.Fatal(err)
	}
	engine := alert.New(alert.Options{
		Conn: s.bus.Conn(s.t, grants.RoleMaster, "m3", nats.ReconnectBufSize(-1)), Fleet: s.backend.Fleet, Owner: "m3", Receivers: []*notify.Receiver{ops},
		Problems: func() []verdict.Problem {
			return []verdict.Problem{{Kind: verdict.Failed, Entry: "backup", Peel: "db-1"}}
		},
		Health: func() verdict.Health { return verdict.Health{Ready: true} }, Stored: func() error { return nil },
		Within: func(context.Context, grants.Caller) (access.Peels, error) { return access.Peels{All: true}, nil },
		Cause:  func(verdict.Kind, string) cause.Finding { return cause.Finding{} },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = engine.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-ended })
	time.Sleep(time.Minute)
	synctest.Wait()
}

// provokeAlerts asks in every way that has an answer of its own.
func (s *system) provokeAlerts(check func(method, path string, a answer)) {
	s.leadAlerts()
	ops, reader := s.token(credential.TokenRequest{Name: "pager", Scopes: []credential.Scope{credential.ScopeSync}}), s.token(credential.TokenRequest{Name: "viewer", Scopes: []credential.Scope{read}})
	const silences, end, test = "/api/v1/alerts/silences", "/api/v1/alerts/silences/{id}/end", "/api/v1/alerts/receivers/{name}/test"
	check("GET", "/api/v1/alerts", s.ask(reader, "GET", "/api/v1/alerts?ended=true", nil))
	check("GET", "/api/v1/alerts/status", s.ask(reader, "GET", "/api/v1/alerts/status", nil))
	made := s.ask(ops, "POST", silences, object{"match": "backup*", "for": "2h", "reason": "new disk"})
	check("POST", silences, made)
	check("POST", silences, s.ask(ops, "POST", silences, strings.Repeat(" ", 2<<20)))
	check("POST", silences, s.slowBody(ops, silences))
	check("POST", silences, s.otherType(ops, silences))
	id := want[api.Silence](s.t, made, 200).ID
	check("POST", end, s.ask(ops, "POST", strings.Replace(end, "{id}", id, 1), nil))
	check("POST", end, s.ask(ops, "POST", strings.Replace(end, "{id}", id, 1), nil))
	check("POST", test, s.ask(ops, "POST", strings.Replace(test, "{name}", "nobody", 1), nil))
	for range 2 {
		check("POST", test, s.ask(ops, "POST", strings.Replace(test, "{name}", "ops", 1), nil))
	}
}

func TestASilenceOverRESTIsOfTheToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.leadAlerts()
		ops := s.token(credential.TokenRequest{Name: "ops", Scopes: []credential.Scope{credential.ScopeSync}})
		const silences = "/api/v1/alerts/silences"
		silence := want[api.Silence](t, s.ask(ops, "POST", silences, object{"match": "backup*", "for": "2h", "reason": "new disk"}), 200)
		if silence.By != "token:ops" || silence.Until.Sub(silence.Time) != 2*time.Hour {
			t.Errorf("%+v", silence)
		}
		refused(t, s.ask(ops, "POST", silences, object{"match": "backup*", "reason": "r"}), 400, "for")
		refused(t, s.ask(ops, "POST", silences, object{"match": "backup*", "for": "for ever", "reason": "r"}), 400, "for")
		refused(t, s.ask(ops, "POST", silences, object{"match": "backup*", "for": "31d", "reason": "r"}), 400, "30d is the longest")
		refused(t, s.ask(ops, "POST", silences, object{"match": "[a", "for": "1h", "reason": "r"}), 400, "is not a glob")
		a := want[api.AlertsAnswer](t, s.ask(s.reader(), "GET", "/api/v1/alerts", nil), 200)
		if len(a.Alerts) != 1 || a.Alerts[0].ID != "default/backup" || len(a.Silences) != 1 || a.Silences[0].ID != silence.ID {
			t.Errorf("%+v", a)
		}
	})
}
