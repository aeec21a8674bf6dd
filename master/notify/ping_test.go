package notify_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var now = time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)

func service(t *testing.T, url string) *notify.PingService {
	t.Helper()
	s, err := notify.NewPinger(notify.PingOptions{Name: "checks", To: outbound.Address{URL: url}, Entries: "*"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A desk is a service that gets all pings that are due.
type desk struct {
	*testing.T
	*notify.PingService
	marks   map[notify.PingID]notify.PingMark
	problem string
}

// told sends all pings that are due, and returns them.
func (d *desk) told(runs ...verdict.Run) (list []string) {
	d.Helper()
	p := d.Plan(runs, d.marks, now)
	for len(p.Due) > 0 {
		next := p.Next("")
		list = append(list, next.Slug+"/"+next.Word)
		if p = p.Told(next); len(list) > 10*len(runs) {
			d.Fatalf("told again and again: %q", list)
		}
	}
	d.marks, d.problem = p.Marks, p.Problem
	return list
}

func (d *desk) was(want string, runs ...verdict.Run) {
	d.Helper()
	if told := fmt.Sprint(d.told(runs...)); told != want {
		d.Errorf("told %s, want %s", told, want)
	}
}

func TestEachRunIsPingedOnce(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	r := verdict.Run{Entry: "backup", Peel: "db-1"}
	d.was("[]", r)
	r.Started, r.Running = at(1), true
	d.was("[backup-db-1/start]", r)
	d.was("[]", r)
	r.Ended, r.Running = at(2), false
	d.was("[backup-db-1/0]", r)
	d.was("[]", r)
	r.Started, r.Ended, r.Failed = at(3), at(4), true // start and end are in one report
	d.was("[backup-db-1/fail]", r)
	d.was("[]", r)
	r.Started, r.Ended, r.Exit = at(4), at(5), 3
	d.was("[backup-db-1/3]", r)
	r.Started, r.Running = at(5), true
	d.was("[backup-db-1/start]", r)
	r.Started, r.Ended, r.Failed, r.Exit = at(7), at(6), false, 0 // a run has ended, and the next one is in flight
	d.was("[backup-db-1/0 backup-db-1/start]", r)
	d.was("[]", r)
	r.Ended, r.Running = at(8), false
	d.was("[backup-db-1/0]", r)
	lost := r
	lost.Started, lost.Ended = time.Time{}, time.Time{} // the report has no room for the entry
	d.was("[]", lost)
	d.was("[]", r)
	r.Started = at(9) // the peel died during the run
	d.was("[]", r)
	r.Started, r.Ended = at(-60), at(-50) // its clock was set back
	d.was("[backup-db-1/0]", r)
}

func TestEachNotedRunIsPingedOnce(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	r := verdict.Run{Entry: "backup", Peel: "db-1", Started: at(2), Ended: at(3)}
	r.Before = []verdict.Ended{{At: at(-20)}, {At: at(1), Failed: true}}
	d.was("[backup-db-1/fail backup-db-1/0]", r)
	d.was("[]", r)
	r.Before = []verdict.Ended{{At: at(1), Failed: true}, {At: at(3)}, {At: at(5), Failed: true, Exit: 3}, {At: at(7)}}
	r.Started, r.Ended, r.Running = at(10), at(9), true
	d.was("[backup-db-1/3 backup-db-1/0 backup-db-1/0 backup-db-1/start]", r)
	d.was("[]", r)
	r.Before, r.Ended = []verdict.Ended{{At: at(-61)}}, at(-60) // the clock was set back
	d.was("[backup-db-1/0]", r)
}

func TestOldRunsOfNewEntriesAreNotPinged(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	old := verdict.Run{Entry: "old", Peel: "db-1", Started: now.Add(-21 * time.Minute), Ended: now.Add(-20 * time.Minute)}
	fresh := verdict.Run{Entry: "fresh", Peel: "db-1", Started: now.Add(-30 * time.Minute), Ended: now.Add(-10 * time.Minute)}
	d.was("[fresh-db-1/0]", fresh, old)
	old.Started, old.Ended = now.Add(-19*time.Minute), now.Add(-18*time.Minute) // the peel reported it late
	d.was("[old-db-1/0]", fresh, old)
	d.was("[]", fresh)
	if len(d.marks) != 1 {
		t.Errorf("%d marks are kept of one entry", len(d.marks))
	}
}

func TestSlugs(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	run := func(entry string, peel target.PeelID) verdict.Run {
		return verdict.Run{Entry: entry, Peel: peel, Started: now, Ended: now}
	}
	d.was("[backup_db-2-db-1/0 nightly-report--db-1/0 report-db-1/0 report-web-1-example-com/0]",
		run("Backup_DB-2", "db-1"), run("nightly report?", "db-1"), run("report", "db-1"), run("report", "web-1.example.com"))
}

// A second peel with an entry does not change the slug of the first one: its check at the service would fall silent.
func TestAnotherPeelLeavesTheSlugOfAnEntry(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	first := verdict.Run{Entry: "backup", Peel: "db-1", Started: now, Ended: now}
	second := verdict.Run{Entry: "backup", Peel: "db-2", Started: now, Ended: now}
	d.was("[backup-db-1/0]", first)
	first.Started, first.Ended = now.Add(time.Minute), now.Add(time.Minute)
	d.was("[backup-db-1/0 backup-db-2/0]", first, second)
	first.Started, first.Ended = now.Add(2*time.Minute), now.Add(2*time.Minute)
	d.was("[backup-db-1/0]", first)
}

func TestTwoEntriesWithOneSlug(t *testing.T) {
	d := &desk{T: t, PingService: service(t, "https://hc.example")}
	var runs []verdict.Run
	for _, entry := range []string{"../a", "..-a", "A"} {
		runs = append(runs, verdict.Run{Entry: entry, Peel: "db-1", Started: now, Ended: now})
	}
	d.was("[---a-db-1/0 a-db-1/0]", runs...)
	if d.problem != "..-a of db-1 is not pinged: it has the slug of ../a of db-1, which is ---a-db-1" {
		t.Errorf("the problem is %q", d.problem)
	}
	runs = nil
	for i := range notify.MaxPingEntries + 1 {
		runs = append(runs, verdict.Run{Entry: "backup", Peel: target.PeelID(fmt.Sprintf("db-%04d", i)), Started: now, Ended: now})
	}
	if told := d.told(runs...); len(told) != notify.MaxPingEntries || told[notify.MaxPingEntries-1] != "backup-db-0999/0" {
		t.Errorf("%d pings, the last is %s", len(told), told[len(told)-1])
	}
	if !strings.Contains(d.problem, "1001") {
		t.Errorf("the problem is %q", d.problem)
	}
}

// Four entries run all the time, and one ping can be sent after each run: each entry gets a quarter of the pings.
func TestEachEntryHasItsTurn(t *testing.T) {
	s := service(t, "https://hc.example")
	var marks map[notify.PingID]notify.PingMark
	slug, told := "", map[string]int{}
	for i := range 100 {
		end := now.Add(time.Duration(i) * time.Second)
		var runs []verdict.Run
		for _, entry := range []string{"a", "b", "c", "d"} { // each has run again since
			runs = append(runs, verdict.Run{Entry: entry, Peel: "db-1", Started: end, Ended: end})
		}
		p := s.Plan(runs, marks, end)
		next := p.Next(slug)
		slug = next.Slug
		told[slug]++
		marks = p.Told(next).Marks
	}
	if !maps.Equal(told, map[string]int{"a-db-1": 25, "b-db-1": 25, "c-db-1": 25, "d-db-1": 25}) {
		t.Errorf("told %v", told)
	}
}

func TestAPingIsOneRequest(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprintf("%s %s %q", r.Method, r.URL, body))
	}))
	t.Cleanup(server.Close)
	for _, word := range []string{"start", "0", "fail"} {
		if err := service(t, server.URL+"/k3y?create=1").Send(t.Context(), notify.Ping{Slug: "backup", Word: word}); err != nil {
			t.Error(err)
		}
	}
	if want := []string{`GET /k3y/backup/start?create=1 ""`, `GET /k3y/backup/0?create=1 ""`, `GET /k3y/backup/fail?create=1 ""`}; !slices.Equal(got, want) {
		t.Errorf("the service got %q", got)
	}
}

func TestAnswersOfTheService(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("no such check for s3cretk3y"))
	}))
	t.Cleanup(server.Close)
	s := service(t, server.URL+"/s3cretk3y")
	for code, final := range map[int]bool{400: true, 404: true, 409: true, 410: true, 401: false, 403: false, 429: false, 500: false, 503: false} {
		status = code
		err := s.Send(t.Context(), notify.Ping{Slug: "backup", Word: "0"})
		e, ok := err.(*outbound.Error)
		if !ok || e.Status != code || e.Final != final || e.After != 2*time.Minute {
			t.Errorf("status %d: %+v", code, err)
			continue
		}
		if text := err.Error(); !strings.HasPrefix(text, `cannot ping backup at "checks": `) || strings.Contains(text, "s3cretk3y") {
			t.Errorf("status %d: %s", code, text)
		}
	}
}

func TestAServiceThatIsAwayIsTriedAgain(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	err = service(t, "http://"+closed.Addr().String()+"/s3cretk3y").Send(t.Context(), notify.Ping{Slug: "backup", Word: "0"})
	if e, ok := err.(*outbound.Error); !ok || e.Final || strings.Contains(e.Error(), "s3cretk3y") {
		t.Errorf("error is %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []notify.PingOptions{
		{},
		{Name: "a b", Entries: "*", To: outbound.Address{URL: "https://hc.example"}},
		{Name: "checks", To: outbound.Address{URL: "https://hc.example"}},
		{Name: "checks", Entries: "[a", To: outbound.Address{URL: "https://hc.example"}},
		{Name: "checks", Entries: "*"},
		{Name: "checks", Entries: "*", To: outbound.Address{URL: "https://hc.example", File: "also"}},
	} {
		if _, err := notify.NewPinger(o); err == nil || !strings.HasPrefix(err.Error(), "cannot send pings to ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	s, err := notify.NewPinger(notify.PingOptions{Name: "checks", Entries: "backup*", To: outbound.Address{URL: "https://hc.example"}})
	if err != nil || !s.Has("backup-db") || s.Has("report") || s.Name() != "checks" {
		t.Errorf("%+v, %v", s, err)
	}
}
