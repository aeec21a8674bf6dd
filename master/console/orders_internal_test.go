package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// noMaster is a bus on which no master answers.
type noMaster struct{}

func (noMaster) Ask(context.Context, string, string, any, any) error {
	return &api.Error{Code: api.CodeUnavailable, Msg: "no master answers just now"}
}

// sends sends a form as an operator, in a request whose time ends while the order is carried out.
func sends(t *testing.T, o order, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	run := o.run
	o.run = func(v *visit) (string, error) {
		cancel()
		return run(v)
	}
	o.path = "/sync/now"
	o.noun = "sync"
	o.verb = "now"
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, o.path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	c := &Console{o: Options{Log: slog.New(slog.DiscardHandler)}, live: &watch{}, metrics: newMetrics()}
	c.carryOut(&visit{w: w, r: r, session: &api.Session{User: "ann", Role: grants.RoleOperator}}, o)
	return w
}

func TestALateOrderHasAnAnswer(t *testing.T) {
	late := &api.Error{Code: api.CodeUnavailable, Msg: "no master answered in time"}
	plain := func(*visit) (*page.Form, error) { return &page.Form{Title: "Read the branch?", Back: "/commits"}, nil }
	once := func(v *visit) (*page.Form, error) {
		if v.r.Context().Err() != nil {
			return nil, errors.New("there is no form")
		}
		return plain(v)
	}
	refuse := func(*visit) (string, error) { return "", late }
	makes := func(v *visit) (string, error) {
		v.made = &page.Form{Title: "The token is made", Back: "/commits"}
		return "", nil
	}
	for name, row := range map[string]struct {
		o      order
		status int
		want   string
	}{
		"the form again":          {order{form: plain, run: refuse}, http.StatusServiceUnavailable, late.Msg},
		"the form cannot be made": {order{form: once, run: refuse}, http.StatusServiceUnavailable, late.Msg},
		"what was made":           {order{form: plain, run: makes}, http.StatusOK, "The token is made"},
	} {
		got := sends(t, row.o, url.Values{})
		if got.Code != row.status || !strings.Contains(got.Body.String(), row.want) {
			t.Errorf("%s: %d, want %d with %q:\n%s", name, got.Code, row.status, row.want, got.Body)
		}
	}
}

// TestAJobKeepsItsID holds that a form that is shown again runs the job once, if it is not known whether it runs.
func TestAJobKeepsItsID(t *testing.T) {
	sent := string(wire.NewJID())
	for code, keeps := range map[api.Code]bool{
		api.CodeUnavailable: true, api.CodeUnreachable: true, api.CodeConflict: false, api.CodeInvalid: false,
	} {
		o := order{
			form: func(*visit) (*page.Form, error) {
				fields := []page.Field{{Name: "jid", Value: string(wire.NewJID()), Kind: "hidden"}}
				return &page.Form{Back: "/jobs", Fields: fields}, nil
			},
			run: func(*visit) (string, error) { return "", &api.Error{Code: code, Msg: "not now"} },
		}
		got := sends(t, o, url.Values{"jid": {sent}})
		if kept := strings.Contains(got.Body.String(), `value="`+sent+`"`); kept != keeps {
			t.Errorf("%s: the ID is kept: %v\n%s", code, kept, got.Body)
		}
		bad := &visit{r: httptest.NewRequest(http.MethodPost, "/", nil)}
		if _, err := wire.ParseJID(bad.jobID(&api.Error{Code: code})); err != nil {
			t.Errorf("%s, without an ID: %v", code, err)
		}
	}
}

func TestAGateIsSeenAsItIs(t *testing.T) {
	r := status.Rollout{Commit: "4e1f9c7", Name: "first 10 %", Started: time.Unix(1, 0)}
	seen := gateSeen(&r)
	if got := waveOf(seen); got != r.Name {
		t.Errorf("the wave of %q: %q", seen, got)
	}
	failed := r
	failed.Failed = 1
	again := r
	again.Started = time.Unix(2, 0)
	for _, other := range []status.Rollout{failed, again} {
		if gateSeen(&other) == seen {
			t.Errorf("%+v is seen as %+v", other, r)
		}
	}
	if got := waveOf("4e1f9c7"); got != "" {
		t.Errorf("no wave: %q", got)
	}
}

// TestARefreshMakesNoForm holds that a page that asks for parts of a form is answered without making the form.
func TestARefreshMakesNoForm(t *testing.T) {
	made := 0
	o := order{
		path: "/entries/hello/remove", noun: "schedule", verb: "remove",
		form: func(*visit) (*page.Form, error) {
			made++
			return &page.Form{Title: "Remove hello?"}, nil
		},
	}
	newJob := jobPages[1]
	newJob.show = func(*visit) (*shown, error) {
		made++
		return &shown{body: page.Confirm(page.Form{Title: "Run it?"})}, nil
	}
	c := &Console{o: Options{Log: slog.New(slog.DiscardHandler)}, live: &watch{}, metrics: newMetrics()}
	for _, row := range []struct {
		role         grants.Role
		query        string
		status, made int
	}{
		{grants.RoleOperator, "", http.StatusOK, 2},
		{grants.RoleOperator, "?part=title,nav", http.StatusOK, 0},
		{grants.RoleAuditor, "?part=title,nav", http.StatusForbidden, 0},
	} {
		made = 0
		for _, show := range []func(*visit){
			func(v *visit) { c.ask(v, o) },
			func(v *visit) { c.show(v, newJob) },
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/"+row.query, nil)
			show(&visit{ask: noMaster{}, w: w, r: r, session: &api.Session{User: "ann", Role: row.role}})
			if w.Code != row.status || row.made == 0 && row.status == http.StatusOK && w.Body.Len() > 0 {
				t.Errorf("%s as %s: %d\n%s", row.query, row.role, w.Code, w.Body)
			}
		}
		if made != row.made {
			t.Errorf("%s as %s: %d forms are made, want %d", row.query, row.role, made, row.made)
		}
	}
}
