package rest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

type object = map[string]any

func TestAJobFromItsDispatchToItsReturns(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, id := range []target.PeelID{"web-01", "web.02", "db-01"} {
			s.peel(id, target.Facts{"os": "debian"}, echo(id))
		}
		ci := s.token(credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeRead, credential.ScopeDispatch}})
		a := s.ask(ci, "POST", "/api/v1/jobs", object{
			"target": "web*", "function": "cmd.run", "state_id": "x", "timeout": "90s", "metadata": object{"ticket": "42"},
			"args": object{"n": 3, "f": 1.5, "big": 1e3, "deep": []any{object{"m": -7}}, "text": "3"}, "user": nil,
		})
		refused(t, a, 400, "body.user")
		a = s.ask(ci, "POST", "/api/v1/jobs", object{
			"target": "web*", "function": "cmd.run", "state_id": "x", "timeout": "90s", "metadata": object{"ticket": "42"}, "expect": 2,
			"args": object{"max_output": 3, "env": object{"A": "b"}, "argv": []any{"x", "-y"}, "stdin": "3"},
		})
		j := want[job.Job](t, a, http.StatusAccepted)
		if j.User != "token:ci" || j.TargetCount != 2 || j.Timeout != 90*time.Second || j.TargetExpr != "web*" || j.Metadata["ticket"] != "42" {
			t.Errorf("%+v", j)
		}
		if where := a.header.Get("Location"); where != "/api/v1/jobs/"+string(j.JID) {
			t.Errorf("it is said to be at %s", where)
		}
		time.Sleep(time.Second)
		shown := want[job.Job](t, s.ask(ci, "GET", "/api/v1/jobs/"+string(j.JID), nil), http.StatusOK)
		if shown.Status != job.Complete || shown.SuccessCount != 2 || !slices.Equal(shown.Targets, []target.PeelID{"web-01", "web.02"}) {
			t.Errorf("%+v", shown)
		}
		page := want[job.RowsPage](t, s.ask(ci, "GET", "/api/v1/jobs/"+string(j.JID)+"/returns", nil), http.StatusOK)
		if len(page.Rows) != 2 || page.Next != "" || page.Rows[1].Peel != "web.02" || page.Rows[1].State != job.RowOK {
			t.Fatalf("%+v", page)
		}
		got := fmt.Sprint(page.Rows[0].Return.Data)
		if got != "map[args:map[argv:[x -y] env:map[A:b] max_output:3 stdin:3] function:cmd.run id:x]" {
			t.Errorf("it ran with %s", got)
		}
	})
}

// TestNumbersReachThePeelAsTheyWereWritten: a function that wants an integer refuses 3.0.
func TestNumbersReachThePeelAsTheyWereWritten(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		heard := make(chan map[string]any, 1)
		s.peel("web-01", nil, func(_ *nats.Conn, r wire.Request) { heard <- r.Args })
		body := `{"target":"*","function":"cmd.run","args":{"command":"x","max_output":%s}}`
		admin := s.admin()
		want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", fmt.Sprintf(body, "3")), 202)
		if n := (<-heard)["max_output"]; n != int64(3) {
			t.Errorf("3 is %T %[1]v", n)
		}
		refused(t, s.ask(admin, "POST", "/api/v1/jobs", fmt.Sprintf(body, "3.0")), 400, "argument max_output: must be a whole number")
		var args rest.Arguments
		if err := json.Unmarshal([]byte(`{"i":3,"f":3.0,"e":1e2,"max":9223372036854775807,"over":9223372036854775808,"list":[1,2.5]}`), &args); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"i": int64(3), "f": 3.0, "e": 100.0, "max": int64(9223372036854775807), "over": 9223372036854775808.0, "list": []any{int64(1), 2.5}}
		for name, value := range want {
			if fmt.Sprintf("%T %v", args[name], args[name]) != fmt.Sprintf("%T %v", value, value) {
				t.Errorf("%s is %T %v, want %T %v", name, args[name], args[name], value, value)
			}
		}
	})
}

func TestTheSameRequestRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		runs := 0
		s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) { runs++; echo("web-01")(nc, r) })
		admin, jid := s.admin(), wire.NewJID()
		request := object{"jid": jid, "target": "*", "function": "test.ping"}
		for range 3 {
			if j := want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", request), 202); j.JID != jid {
				t.Errorf("it is job %s", j.JID)
			}
			time.Sleep(time.Second)
		}
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
		request["function"] = "facts.items"
		refused(t, s.ask(admin, "POST", "/api/v1/jobs", request), 409, "another job")
	})
}

func TestWhatCannotBeDispatched(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		ran := false
		s.peel("web-01", nil, func(*nats.Conn, wire.Request) { ran = true })
		admin := s.admin()
		nested := strings.Repeat("[", 100) + strings.Repeat("]", 100)
		for _, c := range []struct {
			body   any
			status int
			detail string
		}{
			{nil, 400, "request body is required"},
			{"", 400, "required"},
			{"{", 400, "unexpected end"},
			{"[]", 400, "expected object"},
			{`{"target":"*","function":"test.ping"} {}`, 400, "invalid character"},
			{object{"function": "test.ping"}, 400, "target"},
			{object{"target": "*"}, 400, "function"},
			{object{"target": "", "function": "test.ping"}, 400, "body.target"},
			{object{"target": "*", "function": "test.ping", "targets": []string{"web-01"}}, 400, "body.targets"},
			{object{"target": "web-* and", "function": "test.ping"}, 400, "column"},
			{object{"target": "N@nobody", "function": "test.ping"}, 400, "nobody"},
			{object{"target": "nobody", "function": "test.ping"}, 400, "the target matches no peel"},
			{object{"target": "*", "function": "test.ping", "expect": 2}, 409, "selects 1 peels, 2 were expected"},
			{object{"target": "*", "function": "test.ping", "jid": "3MSZLBCVOnTLSXrY9ErdOnZ0a/b"}, 400, "not a job ID"},
			{object{"target": "*", "function": "test.ping", "jid": "3MSZLBCVOnTLSXrY9ErdOnZ0a.b"}, 400, "not a job ID"},
			{object{"target": "*", "function": "test"}, 400, "module.function"},
			{object{"target": "*", "function": "test.pnig"}, 400, "did you mean"},
			{object{"target": "*", "function": "cmd.run", "args": object{"comand": "true"}}, 400, "argument comand: unknown; did you mean"},
			{object{"target": "*", "function": "test.ping", "state_id": "web-01"}, 400, "takes no argument without a name"},
			{object{"target": "*", "function": "test.ping", "jid": strings.Repeat("!", 27)}, 400, "job ID"},
			{object{"target": "*", "function": "test.ping", "timeout": "5"}, 400, "5"},
			{object{"target": "*", "function": "test.ping", "timeout": "1ms"}, 400, "1ms"},
			{object{"target": "*", "function": "test.ping", "timeout": "0s"}, 400, "0s"},
			{object{"target": "*", "function": "test.ping", "when_online": "0s"}, 400, "0s"},
			{object{"target": "*", "function": "test.ping", "batch": object{"size": 0}}, 400, "batches of 0"},
			{object{"target": "*", "function": "test.ping", "metadata": object{"source": "schedule"}}, 400, "for masters to write"},
			{`{"target":"*","function":"test.ping","args":{"n":` + nested + `}}`, 400, "nest"},
			{`{"target":"*","function":"test.ping","args":{"n":1e999}}`, 400, "1e999"},
			{object{"target": "*", "function": "test.ping", "args": object{"text": strings.Repeat("a", 600<<10)}}, 400, "arguments"},
			{object{"target": "*", "function": "test.ping", "args": object{"text": strings.Repeat("a", 1<<20)}}, 413, "too large"},
		} {
			a := s.ask(admin, "POST", "/api/v1/jobs", c.body)
			if a.status != c.status || !strings.Contains(string(a.body), c.detail) {
				t.Errorf("%.100v: %d %.300s; want %d %q", c.body, a.status, a.body, c.status, c.detail)
			}
			refused(t, a, c.status, c.detail)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if ran {
			t.Error("something was run")
		}
		if len(s.log.with("job accepted")) > 0 {
			t.Error("something was accepted")
		}
	})
}

func TestEveryAcceptedDispatchIsInTheLog(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, id := range []target.PeelID{"web-01", "web-02"} {
			s.peel(id, nil, nil)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://master/api/v1/jobs", strings.NewReader(`{"target":"web-*","function":"cmd.run","args":{"command":"true"}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.admin())
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", "build-77")
		a := s.do(req)
		j := want[job.Job](t, a, 202)
		if id := a.header.Get("X-Request-Id"); id != "build-77" {
			t.Errorf("the answer names request %s", id)
		}
		found := s.log.with(`"msg":"job accepted over REST"`, `"jid":"`+string(j.JID)+`"`, `"user":"token:admin"`, `"function":"cmd.run"`, `"targets":2`, `"request":"build-77"`)
		if len(found) != 1 {
			t.Errorf("%q", s.log.with("job"))
		}
	})
}

func TestOddRequestIDsAreReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		seen := map[string]bool{}
		for _, given := range []string{"", "a b", "x\"y", strings.Repeat("a", 65), "ü"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://master/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Request-Id", given)
			id := s.do(req).header.Get("X-Request-Id")
			if id == "" || id == given || seen[id] {
				t.Errorf("%q became %q", given, id)
			}
			seen[id] = true
		}
	})
}

func TestJobsAreListedInPagesAndFiltered(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, id := range []target.PeelID{"db-01", "web-01"} {
			s.peel(id, nil, echo(id))
		}
		admin := s.admin()
		var all []wire.JID
		for i := range 5 {
			request := object{"target": "*", "function": "test.ping"}
			if i%2 == 1 {
				request = object{"target": "web-01", "function": "cmd.run", "state_id": "true"}
			}
			all = append(all, want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", request), 202).JID)
			time.Sleep(2 * time.Second)
		}
		slices.Reverse(all)
		list := func(query string) (jids []wire.JID) {
			t.Helper()
			for cursor := ""; ; {
				page := want[job.JobsPage](t, s.ask(admin, "GET", "/api/v1/jobs?"+query+cursor, nil), 200)
				for _, j := range page.Jobs {
					jids = append(jids, j.JID)
				}
				if page.Next == "" {
					return jids
				}
				cursor = "&cursor=" + string(page.Next)
				time.Sleep(time.Second)
			}
		}
		for query, want := range map[string][]wire.JID{
			"": all, "limit=2": all, "function=cmd.run": {all[1], all[3]}, "target=db-01": {all[0], all[2], all[4]},
			"user=token:admin": all, "user=ann": nil, "status=complete": all, "status=running": nil, "schedule=hello": nil, "commit=abc": nil,
			"function=cmd.run&limit=1": {all[1], all[3]},
		} {
			if got := list(query); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		for _, query := range []string{"status=done", "limit=0", "limit=501", "limit=x", "nonsense=1", "cursor=nonsense"} {
			refused(t, s.ask(admin, "GET", "/api/v1/jobs?"+query, nil), 400, strings.Split(query, "=")[0])
		}
	})
}

func TestReturnsComeInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var ids []target.PeelID
		for i := range 8 {
			id := target.PeelID(fmt.Sprintf("web-%02d", i))
			ids = append(ids, id)
			s.peel(id, nil, func(nc *nats.Conn, r wire.Request) { returns(nc, id, r, strings.Repeat("x", 200<<10)) })
		}
		admin := s.admin()
		j := want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", object{"target": "*", "function": "test.ping"}), 202)
		time.Sleep(2 * time.Second)
		var got []target.PeelID
		for cursor, pages := "", 1; ; pages++ {
			page := want[job.RowsPage](t, s.ask(admin, "GET", "/api/v1/jobs/"+string(j.JID)+"/returns"+cursor, nil), 200)
			for _, row := range page.Rows {
				got = append(got, row.Peel)
			}
			if page.Next == "" {
				if pages < 2 {
					t.Error("all came in one page")
				}
				break
			}
			cursor = "?cursor=" + string(page.Next)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%v", got)
		}
	})
}

func TestTargetsThatAreOfflineAreUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin := s.admin()
		j := want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", object{"target": "*", "function": "cmd.run", "state_id": "true", "timeout": "30m"}), 202)
		for _, state := range []job.RowState{job.RowWaiting, job.RowUnreachable} {
			page := want[job.RowsPage](t, s.ask(admin, "GET", "/api/v1/jobs/"+string(j.JID)+"/returns", nil), 200)
			if len(page.Rows) != 1 || page.Rows[0].State != state {
				t.Errorf("%+v, want %s", page.Rows, state)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) { ack(nc, "web-01", r) })
		admin := s.admin()
		j := want[job.Job](t, s.ask(admin, "POST", "/api/v1/jobs", object{"target": "*", "function": "cmd.run", "state_id": "true", "timeout": "30m"}), 202)
		path := "/api/v1/jobs/" + string(j.JID)
		canceled := want[job.Job](t, s.ask(admin, "POST", path+"/cancel", nil), 202)
		if canceled.Cancel == nil || canceled.Cancel.By != "token:admin" {
			t.Errorf("%+v", canceled)
		}
		refused(t, s.ask(admin, "POST", path+"/cancel", nil), 409, "token:admin")
		time.Sleep(30 * time.Second)
		if shown := want[job.Job](t, s.ask(admin, "GET", path, nil), 200); shown.Status != job.Canceled {
			t.Errorf("it is %s", shown.Status)
		}
		refused(t, s.ask(admin, "POST", path+"/cancel", nil), 409, "canceled")
		refused(t, s.ask(admin, "POST", "/api/v1/jobs/"+string(wire.NewJID())+"/cancel", nil), 404, "no such job")
		if len(s.log.with("cancel accepted over REST", string(j.JID), "token:admin")) != 1 {
			t.Errorf("%q", s.log.with("cancel"))
		}
	})
}

func TestPeelsAndTargets(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, id := range []target.PeelID{"db-01", "web-01", "web-02"} {
			nc := s.peel(id, target.Facts{"os": "debian"}, nil)
			if id != "web-02" {
				say(nc, wire.Heartbeat(id.Wire()), object{})
			}
		}
		synctest.Wait()
		reader := s.reader()
		peels := want[api.PeelsPage](t, s.ask(reader, "GET", "/api/v1/peels", nil), 200)
		if peels.Total != 3 || len(peels.Peels) != 3 || !peels.Peels[1].Online || peels.Peels[1].ID != "web-01" {
			t.Errorf("%+v", peels)
		}
		peels = want[api.PeelsPage](t, s.ask(reader, "GET", "/api/v1/peels?target=web-*&cursor=web-01", nil), 200)
		if peels.Total != 2 || len(peels.Peels) != 1 || peels.Peels[0].ID != "web-02" {
			t.Errorf("%+v", peels)
		}
		targets := want[api.TargetsPage](t, s.ask(reader, "GET", "/api/v1/targets?expr=L@web-01,web-02,web-09", nil), 200)
		if targets.Total != 2 || !slices.Equal(targets.Peels, []target.PeelID{"web-01", "web-02"}) || !slices.Equal(targets.Unknown, []target.PeelID{"web-09"}) {
			t.Errorf("%+v", targets)
		}
		none := s.ask(reader, "GET", "/api/v1/targets?expr=nobody", nil)
		if got := want[api.TargetsPage](t, none, 200); got.Total != 0 || !strings.Contains(string(none.body), `"peels":[]`) {
			t.Errorf("%s", none.body)
		}
		refused(t, s.ask(reader, "GET", "/api/v1/targets", nil), 400, "expr")
		refused(t, s.ask(reader, "GET", "/api/v1/targets?expr=and", nil), 400, "column")
		refused(t, s.ask(reader, "GET", "/api/v1/peels?target=(", nil), 400, "column")
	})
}

func TestWhatDoesNotExistIsAProblemToo(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		refused(t, s.ask("", "GET", "/", nil), 404, "openapi.json")
		refused(t, s.ask("", "GET", "/docs", nil), 404, "openapi.json")
		refused(t, s.ask("", "GET", "/api/v1/nothing", nil), 404, "openapi.json")
		a := s.ask("", "DELETE", "/api/v1/jobs", nil)
		refused(t, a, 405, "GET, HEAD, POST")
		if a.header.Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("Allow is %q", a.header.Get("Allow"))
		}
		refused(t, s.ask(s.reader(), "GET", "/api/v1/jobs/short", nil), 400, "path.jid")
	})
}

// TestDurationsAreGivenBackAsTheyAreTaken asks the answers of all routes about a job, and the document.
func TestDurationsAreGivenBackAsTheyAreTaken(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		admin := s.admin()
		a := s.ask(admin, "POST", "/api/v1/jobs", object{"target": "*", "function": "test.ping", "timeout": "90s", "when_online": "1h"})
		jid := want[job.Job](t, a, 202).JID
		time.Sleep(2 * time.Second)
		answers := []string{string(a.body)}
		for _, path := range []string{"", "/returns", "/events"} {
			answers = append(answers, string(s.ask(admin, "GET", "/api/v1/jobs/"+string(jid)+path, nil).body))
		}
		answers = append(answers, string(s.ask(admin, "GET", "/api/v1/jobs", nil).body))
		for _, body := range answers {
			if !strings.Contains(body, `"timeout":"1m30s"`) || !strings.Contains(body, `"when_online":"1h"`) || strings.Contains(body, "0000000") {
				t.Errorf("durations are not as they were asked for in %s", body)
			}
		}
		if body := answers[2]; !strings.Contains(body, `"duration":"`) {
			t.Errorf("the return's duration is no text in %s", body)
		}
		a = s.ask(admin, "POST", "/api/v1/jobs", object{"target": "*", "function": "test.ping"})
		if !strings.Contains(string(a.body), `"timeout":"1m"`) || strings.Contains(string(a.body), "when_online") {
			t.Errorf("%s", a.body)
		}
	})
}

// TestAJobOfTheCallersOwnIDMayBeAskedForAgain repeats a request while the fleet changes.
func TestAJobOfTheCallersOwnIDMayBeAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var ran atomic.Int32
		join := func(id target.PeelID) {
			s.peel(id, nil, func(nc *nats.Conn, r wire.Request) { ran.Add(1); echo(id)(nc, r) })
		}
		join("web-01")
		ci := s.token(credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeDispatch}})
		jid := wire.NewJID()
		request := func(change object) object {
			o := object{"jid": jid, "target": "web-*", "function": "test.ping", "expect": 1, "metadata": object{"build": "7"}}
			maps.Copy(o, change)
			return o
		}
		first := want[job.Job](t, s.ask(ci, "POST", "/api/v1/jobs", request(nil)), 202)
		join("web-02") // it matches, and is no target of the first
		for range 2 {
			a := s.ask(ci, "POST", "/api/v1/jobs", request(nil))
			if j := want[job.Job](t, a, 202); j.JID != jid || j.TargetCount != 1 || !j.Created.Equal(first.Created) || a.header.Get("Location") != "/api/v1/jobs/"+string(jid) {
				t.Errorf("%+v", j)
			}
			time.Sleep(5 * time.Second)
		}
		for name, change := range map[string]object{
			"another target": {"target": "web-01"}, "another function": {"function": "test.version"}, "arguments": {"function": "test.echo", "args": object{"text": "x"}},
			"another timeout": {"timeout": "61s"}, "metadata": {"metadata": object{"build": "8"}}, "a batch": {"batch": object{"size": 1}}, "when online": {"when_online": "1h"},
		} {
			a := s.ask(ci, "POST", "/api/v1/jobs", request(change))
			if a.status != 409 {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		refused(t, s.ask(s.admin(), "POST", "/api/v1/jobs", request(nil)), 409, "belongs to another job")
		synctest.Wait()
		if n := ran.Load(); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}
