package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An event is one of a stream.
type event struct{ id, name, data string }

func (e event) String() string {
	var d struct {
		Peel   target.PeelID
		Status job.Status
	}
	_ = json.Unmarshal([]byte(e.data), &d)
	return strings.TrimSpace(fmt.Sprintf("%s %s%s", e.name, d.Peel, d.Status))
}

// follow opens the events of a job after one that was seen ("" for none). They come until the stream ends or stop is
// called.
func (s *system) follow(token string, jid wire.JID, last string) (events <-chan event, status int, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://master/api/v1/jobs/"+string(jid)+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode == 200 && kind != "text/event-stream" {
		s.t.Errorf("it is %s", kind)
	}
	heard := make(chan event, 1000)
	go func() {
		defer resp.Body.Close()
		defer close(heard)
		var e event
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
			if lines.Text() == "" && e != (event{}) {
				heard <- e
				e = event{}
			}
		}
	}()
	s.t.Cleanup(cancel)
	return heard, resp.StatusCode, cancel
}

// all are the events until the stream ends.
func all(events <-chan event) (names []string, last string) {
	for e := range events {
		names, last = append(names, e.String()), e.id
	}
	return names, last
}

func (s *system) dispatch(token string, request object) wire.JID {
	s.t.Helper()
	return want[job.Job](s.t, s.ask(token, "POST", "/api/v1/jobs", request), 202).JID
}

func TestEventsTellAJobToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var slow *nats.Conn
		var request wire.Request
		s.peel("web-01", nil, echo("web-01"))
		slow = s.peel("web-02", nil, func(_ *nats.Conn, r wire.Request) { request = r })
		stranger := s.peel("db-01", nil, nil)
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "web-*", "function": "test.ping"})
		synctest.Wait()
		events, status, _ := s.follow(admin, jid, "")
		if status != 200 {
			t.Fatal(status)
		}
		time.Sleep(20 * time.Second)
		// What does not count: strangers, a second ack or return, one for another's name.
		say(slow, wire.AckOf(jid, "web-02"), wire.Ack{JID: jid, Peel: "web-01", V: wire.Version})
		ack(stranger, "db-01", request)
		returns(stranger, "db-01", request, "none asked")
		ack(slow, "web-02", request)
		ack(slow, "web-02", request)
		time.Sleep(time.Second)
		returns(slow, "web-02", request, "one")
		returns(slow, "web-02", request, "two")
		say(slow, wire.ReturnOf(jid, "web-02"), wire.Return{JID: jid, Peel: "web-01", V: wire.Version})
		names, last := all(events)
		// The ack of web-01 came before the stream was open, and is not stored.
		if want := []string{"dispatched claimed", "return web-01", "ack web-02", "return web-02", "status complete"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		if _, status, _ := s.follow(admin, jid, last); status != http.StatusNoContent {
			t.Errorf("after the last event: %d", status)
		}
		refused(t, s.ask(admin, "GET", "/api/v1/jobs/"+string(wire.NewJID())+"/events", nil), 404, "no such job")
	})
}

func TestACancelEventShowsThePersonWhoAskedForIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) { ack(nc, "web-01", r) })
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping"})
		synctest.Wait()
		events, _, _ := s.follow(admin, jid, "")
		if a := s.ask(admin, "POST", "/api/v1/jobs/"+string(jid)+"/cancel", nil); a.status != 202 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for e := range events {
			var j job.Job
			if e.name != "cancel" {
				continue
			}
			if err := json.Unmarshal([]byte(e.data), &j); err != nil || j.JID != jid || j.Cancel == nil || j.Cancel.By != "token:admin" {
				t.Errorf("%s: %v", e.data, err)
			}
			return
		}
		t.Error("no cancel event")
	})
}

// TestEventsGoOnWithoutGapsOrRepetition breaks the stream after each of its events in turn.
func TestEventsGoOnWithoutGapsOrRepetition(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for i := range 5 {
			id := target.PeelID(fmt.Sprintf("web-%02d", i))
			s.peel(id, nil, func(nc *nats.Conn, r wire.Request) {
				ack(nc, id, r)
				for range 3 {
					returns(nc, id, r, "x")
				}
			})
		}
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping"})
		time.Sleep(5 * time.Second)
		if whole := s.broken(admin, jid); len(whole) != 7 {
			t.Errorf("%d events: %v", len(whole), whole)
		}
	})
}

// broken follows a job that has ended to its last event, and again from after each of the others, where the same comes.
func (s *system) broken(token string, jid wire.JID) (whole []event) {
	s.t.Helper()
	events, _, _ := s.follow(token, jid, "")
	for e := range events {
		whole = append(whole, e)
	}
	for i := range max(0, len(whole)-1) {
		events, status, _ := s.follow(token, jid, whole[i].id)
		var rest []event
		for e := range events {
			rest = append(rest, e)
		}
		if status != 200 || !slices.Equal(rest, whole[i+1:]) {
			s.t.Errorf("after event %d: %d, %q, want %q", i, status, rest, whole[i+1:])
		}
		time.Sleep(time.Second) // for the stream to be closed, a token has few
	}
	return whole
}

// TestEventsGoOnOverARestartOfTheBus holds that a stream that is open then tells the end, too.
func TestEventsGoOnOverARestartOfTheBus(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		asked := make(chan wire.Request, 1)
		nc := s.peel("web-01", nil, func(_ *nats.Conn, r wire.Request) { asked <- r })
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		request := <-asked
		seen := []string{}
		last := ""
		next := func() (more bool) {
			events, status, _ := s.follow(admin, jid, last)
			if status != 200 {
				return status == 503
			}
			for e := range events {
				seen, last = append(seen, e.String()), e.id
				if e.name == "status" {
					return false
				}
			}
			return true
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for next() {
				time.Sleep(time.Second)
			}
		}()
		time.Sleep(5 * time.Second)
		s.bus.Restart(t)
		time.Sleep(30 * time.Second)
		ack(nc, "web-01", request)
		returns(nc, "web-01", request, "x")
		<-done
		if want := []string{"dispatched claimed", "ack web-01", "return web-01", "status complete"}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
	})
}

// TestTheEndIsToldByTheRecordWhereItsMessageIsLost also serves records that never had one.
func TestTheEndIsToldByTheRecordWhereItsMessageIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping"})
		time.Sleep(5 * time.Second)
		stream, err := s.js.Stream(t.Context(), "job-events")
		if err != nil {
			t.Fatal(err)
		}
		msg, err := stream.GetLastMsgForSubject(t.Context(), wire.StatusOf(jid))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.DeleteMsg(t.Context(), msg.Sequence); err != nil {
			t.Fatal(err)
		}
		events, _, _ := s.follow(admin, jid, "")
		names, last := all(events)
		if len(names) != 3 || names[2] != "status complete" {
			t.Errorf("%q", names)
		}
		if _, status, _ := s.follow(admin, jid, last); status != http.StatusNoContent {
			t.Errorf("after the last event: %d", status)
		}
	})
}

// TestTheEndIsTheLastEvent is about a return that the bus has lost since the end, and one that is read after the message about
// the end.
func TestTheEndIsTheLastEvent(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		s.peel("db-01", nil, echo("db-01"))
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping"})
		time.Sleep(5 * time.Second)
		stream, err := s.js.Stream(t.Context(), "KV_job-returns")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.job-returns."+string(jid)+".db-01"))
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		events, _, _ := s.follow(admin, jid, "")
		if names, _ := all(events); !slices.Equal(names, []string{"dispatched claimed", "return web-01", "status complete"}) || time.Since(began) > 11*time.Second {
			t.Errorf("where the bus has lost a return: %q after %v", names, time.Since(began))
		}

		s.store(wire.Return{JID: jid, Peel: "db-01", Result: wire.Result{Success: true}, V: wire.Version})
		whole := s.broken(admin, jid)
		if len(whole) != 4 || whole[2].String() != "return db-01" || whole[3].String() != "status complete" {
			t.Fatalf("%q", whole)
		}
		if _, status, _ := s.follow(admin, jid, whole[3].id); status != http.StatusNoContent {
			t.Errorf("after the last event: %d", status)
		}
	})
}

// store puts a return into the bucket job-returns.
func (s *system) store(r wire.Return) {
	s.t.Helper()
	data, err := canon.Marshal(r)
	if err == nil {
		_, err = s.js.PublishMsg(s.t.Context(), job.ReturnMessage(r.JID, r.Peel, data))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A damaged return is stored, so it counts as a failed one.
func TestADamagedReturnIsAFailedOneAmongTheEvents(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) { _ = nc.Publish(wire.ReturnOf(r.JID, "web-01"), []byte("damaged")) })
		s.peel("web-02", nil, func(nc *nats.Conn, r wire.Request) {
			say(nc, wire.ReturnOf(r.JID, "web-02"), wire.Return{JID: r.JID, Peel: "web-01", Result: wire.Result{Success: true}, V: wire.Version})
		})
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "web-*", "function": "test.ping"})
		events, _, _ := s.follow(admin, jid, "")
		failed := 0
		for e := range events {
			if e.name != "return" {
				continue
			}
			var row job.Row
			if err := json.Unmarshal([]byte(e.data), &row); err != nil {
				t.Fatal(err)
			}
			if row.State == job.RowFailed && row.Return != nil && strings.HasPrefix(row.Return.Error, "the return is damaged: ") {
				failed++
			} else {
				t.Errorf("%s", e.data)
			}
		}
		if failed != 2 {
			t.Errorf("%d failed returns, want 2", failed)
		}
	})
}

// TestEventsGoOnAfterAnIDOfAnEarlierVersion has one number, of the stream job-events, as an ID.
func TestEventsGoOnAfterAnIDOfAnEarlierVersion(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping"})
		time.Sleep(5 * time.Second)
		events, _, _ := s.follow(admin, jid, "")
		first := <-events
		_, last := all(events)
		step := func(id string) string { n, _, _ := strings.Cut(id, "-"); return n }
		again, status, _ := s.follow(admin, jid, step(first.id))
		if names, end := all(again); status != 200 || !slices.Equal(names, []string{"return web-01", "status complete"}) || end != last {
			t.Errorf("after the first step: %d, %q, %s instead of %s", status, names, end, last)
		}
		if _, status, _ := s.follow(admin, jid, step(last)); status != http.StatusNoContent {
			t.Errorf("after the end: %d", status)
		}
		for _, bad := range []string{"x", "-", "1-", "-1", "1-2-3", "1 2", strings.Repeat("9", 20), "0-" + strings.Repeat("9", 20), strings.Repeat("0", 50)} {
			if a := s.resumed(admin, jid, bad); a.status != http.StatusBadRequest {
				t.Errorf("after %q: %d", bad, a.status)
			}
		}
	})
}

// TestEventsOfARunningJobGoOn breaks the stream after each return, while others come.
func TestEventsOfARunningJobGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const peels = 6
		requests := make(chan wire.Request, peels)
		var conns [peels]*nats.Conn
		id := func(i int) target.PeelID { return target.PeelID(fmt.Sprintf("web-%02d", i)) }
		for i := range peels {
			conns[i] = s.peel(id(i), nil, func(_ *nats.Conn, r wire.Request) { requests <- r })
		}
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		request, seen, last := <-requests, []string{}, ""
		for i := range peels {
			returns(conns[i], id(i), request, "x")
			synctest.Wait()
			if i%2 == 1 { // two between one stream and the next
				events, status, stop := s.follow(admin, jid, last)
				if status != 200 {
					t.Fatal(status)
				}
				e := <-events
				seen, last = append(seen, e.String()), e.id
				stop()
				time.Sleep(time.Second)
			}
		}
		events, _, _ := s.follow(admin, jid, last)
		rest, _ := all(events)
		want := []string{"dispatched claimed"}
		for i := range peels {
			want = append(want, "return "+string(id(i)))
		}
		if got := append(seen, rest...); !slices.Equal(got, append(want, "status complete")) {
			t.Errorf("%q", got)
		}
	})
}

// TestEventsOfAScheduledJobEnd is about records that a peel's report has made: they are final from the beginning, and
// nobody tells their end.
func TestEventsOfAScheduledJobEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		nc := s.peel("web-01", nil, nil)
		admin, jid := s.admin(), wire.NewJID()
		for _, said := range []string{"first", "again"} { // only the first makes a record
			say(nc, wire.ScheduledOf(jid, "web-01"), wire.ScheduledResult{
				JID: jid, Peel: "web-01", Entry: "sync", Function: "cmd.run", Trigger: wire.TriggerTimer,
				Result: wire.Result{Success: true, Data: said}, V: wire.Version,
			})
			synctest.Wait()
			returns(nc, "web-01", wire.Request{JID: jid}, "not by the schedule")
		}
		events, status, stop := s.follow(admin, jid, "")
		time.AfterFunc(time.Minute, stop)
		var whole []event
		for e := range events {
			whole = append(whole, e)
		}
		if status != 200 || len(whole) != 2 || whole[0].String() != "return web-01" || !strings.Contains(whole[0].data, `"first"`) || whole[1].String() != "status complete" {
			t.Fatalf("%d, %+v", status, whole)
		}
		events, status, stop = s.follow(admin, jid, whole[0].id)
		time.AfterFunc(time.Minute, stop)
		if names, _ := all(events); status != 200 || !slices.Equal(names, []string{"status complete"}) {
			t.Errorf("after the first event: %d, %q", status, names)
		}
		if _, status, _ := s.follow(admin, jid, whole[1].id); status != http.StatusNoContent {
			t.Errorf("after the last event: %d", status)
		}
	})
}

// TestWhatComesLateIsNoEvent holds that the status is the last event, whatever peels say after it.
func TestWhatComesLateIsNoEvent(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		asked := make(chan wire.Request, 1)
		nc := s.peel("web-01", nil, func(_ *nats.Conn, r wire.Request) { asked <- r })
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "1s"})
		time.Sleep(5 * time.Second)
		returns(nc, "web-01", <-asked, "late")
		synctest.Wait()
		events, _, _ := s.follow(admin, jid, "")
		names, last := all(events)
		if !slices.Equal(names, []string{"dispatched claimed", "status timeout"}) {
			t.Errorf("%q", names)
		}
		if _, status, _ := s.follow(admin, jid, last); status != http.StatusNoContent {
			t.Errorf("after the last event: %d", status)
		}
	})
}

func TestAnOpenStreamEndsWithItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin, reader := s.admin(), s.reader()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		events, _, _ := s.follow(reader, jid, "")
		time.Sleep(time.Minute)
		elsewhere, err := token.Open(t.Context(), s.bus.JetStream(t))
		if err == nil {
			_, err = elsewhere.Revoke(t.Context(), "reader", "ann")
		}
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if names, _ := all(events); !slices.Equal(names, []string{"dispatched claimed"}) {
			t.Errorf("%q", names)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it went on for %v", took)
		}
	})
}

// A rule that takes reading, or the peel of the job, from the person who made a token ends the open streams of the token.
func TestAnOpenStreamEndsWithTheRightsOfWhoMadeItsToken(t *testing.T) {
	for name, denied := range map[string]access.Actions{
		"no-jobs": {Verbs: []string{"job.*"}}, "no-web": {Verbs: []string{"read"}, Target: "web-01"},
	} {
		bubble(t, func(t *testing.T, s *system) {
			s.limited = true
			s.peel("web-01", nil, nil)
			jid := s.dispatch(s.admin(), object{"target": "*", "function": "test.ping", "timeout": "10m"})
			events, _, _ := s.follow(s.reader(), jid, "")
			time.Sleep(time.Minute)
			users, err := user.Open(t.Context(), s.bus.JetStream(t))
			if err == nil {
				err = users.SetRole(t.Context(), credential.Role{Role: access.Role{
					Name: name, People: []string{"ann"}, Deny: []access.Actions{denied},
				}})
			}
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if names, _ := all(events); !slices.Equal(names, []string{"dispatched claimed"}) {
				t.Errorf("%s: %q", name, names)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: it went on for %v", name, took)
			}
		})
	}
}

func TestStreamsOfATokenAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin, reader := s.admin(), s.reader()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		var stops []func()
		for range 10 {
			_, status, stop := s.follow(reader, jid, "")
			if status != 200 {
				t.Fatal(status)
			}
			stops = append(stops, stop)
		}
		refused(t, s.ask(reader, "GET", "/api/v1/jobs/"+string(jid)+"/events", nil), 429, "too many streams")
		if _, status, _ := s.follow(admin, jid, ""); status != 200 {
			t.Errorf("another's: %d", status)
		}
		stops[0]()
		time.Sleep(time.Second)
		if _, status, _ := s.follow(reader, jid, ""); status != 200 {
			t.Errorf("after one has left: %d", status)
		}
	})
}

// TestStreamsOfAnAddressAreCounted has one host with ten tokens leave streams for others.
func TestStreamsOfAnAddressAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		opened := 0
		for i := range 10 {
			reader := s.token(credential.TokenRequest{Name: fmt.Sprintf("reader%d", i), Scopes: []credential.Scope{credential.ScopeRead}})
			for range 10 {
				if _, status, _ := s.follow(reader, jid, ""); status == 200 {
					opened++
				}
			}
		}
		if opened != 50 {
			t.Errorf("10 tokens of one address have %d of 100 streams", opened)
		}
		synctest.Wait() // until the connections of the refused requests are idle
		s.from = "192.0.2.2:40000"
		s.client.CloseIdleConnections()
		if _, status, _ := s.follow(admin, jid, ""); status != 200 {
			t.Errorf("from another address: %d", status)
		}
	})
}

// TestStreamsLeaveNothingBehind counts the consumers of the two streams, of which the server allows 1,000 each.
func TestStreamsLeaveNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		consumers := func() int {
			n := 0
			for _, name := range []string{"job-events", "KV_job-returns"} {
				stream, err := s.js.Stream(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				n += stream.CachedInfo().State.Consumers
			}
			return n
		}
		before := consumers()
		for range 30 {
			_, _, stop := s.follow(admin, jid, "")
			time.Sleep(time.Second)
			stop()
		}
		time.Sleep(30 * time.Second)
		if left := consumers() - before; left != 0 {
			t.Errorf("%d are left", left)
		}
	})
}

func TestAMasterThatStopsEndsItsStreams(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		admin := s.admin()
		jid := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "10m"})
		events, _, _ := s.follow(admin, jid, "")
		time.Sleep(10 * time.Second)
		began := time.Now()
		s.stop()
		if names, _ := all(events); !slices.Equal(names, []string{"dispatched claimed"}) || time.Since(began) > time.Second {
			t.Errorf("%q after %v", names, time.Since(began))
		}
	})
}

// TestWhoOnlyDispatchesFollowsHisOwn is the rule for all that is said of one job.
func TestWhoOnlyDispatchesFollowsHisOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, echo("web-01"))
		ci := s.token(credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeDispatch}})
		own, other := s.dispatch(ci, object{"target": "*", "function": "test.ping"}), s.dispatch(s.admin(), object{"target": "*", "function": "test.ping"})
		time.Sleep(2 * time.Second)
		for _, what := range []string{"", "/returns", "/events"} {
			if a := s.ask(ci, "GET", "/api/v1/jobs/"+string(own)+what, nil); a.status != 200 {
				t.Errorf("own%s: %d %s", what, a.status, a.body)
			}
			refused(t, s.ask(ci, "GET", "/api/v1/jobs/"+string(other)+what, nil), 403, "of another user")
		}
		refused(t, s.ask(ci, "POST", "/api/v1/jobs/"+string(other)+"/cancel", nil), 403, "of another user")
		refused(t, s.ask(ci, "POST", "/api/v1/jobs/"+string(own)+"/cancel", nil), 409, "complete")
	})
}

// FuzzEventID holds that an ID that is accepted is that of an event, or one number.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{"1", "0-0", "18446744073709551615-7", "18446744073709551616", "-1", "+1-2", "1--2", "1-2-3", " 1", "01-2", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		again, err := rest.EventID(id)
		if err != nil {
			return
		}
		if once, err := rest.EventID(again); err != nil || once != again {
			t.Errorf("%q is read as %s, that as %s: %v", id, again, once, err)
		}
	})
}
