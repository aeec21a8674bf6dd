package otel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/otel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// fields returns the attributes of a span as text.
func fields(t *testing.T, span map[string]any) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, a := range span["attributes"].([]any) {
		a := a.(map[string]any)
		v := a["value"].(map[string]any)
		if len(a) != 2 || len(v) != 1 {
			t.Errorf("attribute %v", a)
		}
		for kind, v := range v {
			text, ok := v.(string)
			if !ok || kind != "stringValue" && kind != "intValue" {
				t.Errorf("attribute %v", a)
			}
			all[a["key"].(string)] = text
		}
	}
	return all
}

func nanos(at time.Time) string { return fmt.Sprint(at.UnixNano()) }

func TestAScheduledRunIsASpan(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		file := headersFile(t, "# of the collector\n\nAuthorization: Bearer t0ken:with-colon\nX-Scope: ops\n", 0o600)
		e, _ := s.exporter("m1", func(o *otel.Options) { o.HeadersFile = file })
		r := s.run("sync-certs", nil)
		time.Sleep(5 * time.Second)
		got := s.collector.got()
		if len(got) != 1 || len(got[0].spans) != 1 {
			t.Fatalf("%+v", got)
		}
		q := got[0]
		if q.path != "POST /v1/traces" || q.header.Get("Content-Type") != "application/json" || q.header.Get("Authorization") != "Bearer t0ken:with-colon" || q.header.Get("X-Scope") != "ops" {
			t.Errorf("%s with %v", q.path, q.header)
		}
		span := q.spans[0]
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(span["traceId"].(string)) || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(span["spanId"].(string)) {
			t.Errorf("IDs %v and %v", span["traceId"], span["spanId"])
		}
		if span["name"] != "sync-certs" || span["kind"] != 1.0 || span["parentSpanId"] != nil || len(span["status"].(map[string]any)) != 0 ||
			span["startTimeUnixNano"] != nanos(r.Started) || span["endTimeUnixNano"] != nanos(r.Finished) {
			t.Errorf("%v", span)
		}
		want := map[string]string{
			"zester.jid": string(r.JID), "zester.peel": "web.01", "zester.entry": "sync-certs", "zester.function": "cmd.run", "zester.trigger": "timer",
			"zester.commit": r.Commit, "zester.file": r.Origin, "zester.author": r.Author, "zester.nominal": r.Nominal.UTC().Format(time.RFC3339Nano),
		}
		if f := fields(t, span); !maps.Equal(f, want) {
			t.Errorf("%v, want %v", f, want)
		}
		if strings.Contains(string(q.body), "secret") {
			t.Errorf("arguments or results are sent: %s", q.body)
		}
		if metric(t, e, `zester_otel_spans_total{result="sent"}`) != "1" || metric(t, e, "zester_otel_waiting") != "0" {
			t.Error("the metrics do not show the span")
		}
	})
}

// TestTheJSONIsThatOfOTLP compares a request byte by byte.
func TestTheJSONIsThatOfOTLP(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.exporter("m1", nil)
		r := s.run("e", func(r *wire.ScheduledResult) {
			r.JID, r.Commit, r.Origin, r.Author, r.Proof = "2MiKxgDj2SNKWVFZjKqpTMhKvVu", "", "", "", ""
			r.Success, r.Error, r.Nominal = false, "exit status 1\nmore", time.Time{}
		})
		time.Sleep(5 * time.Second)
		body := string(s.collector.got()[0].body)
		version := regexp.MustCompile(`"service.version","value":\{"stringValue":"([^"]*)"`).FindStringSubmatch(body)
		want := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"zester"}},{"key":"service.version","value":{"stringValue":"` + version[1] + `"}}]},` +
			`"scopeSpans":[{"scope":{"name":"zester"},"spans":[{"traceId":"2f154cb4e9abc58b1fe535781ee1c9a2","spanId":"ccfa13071500b94e","name":"e","kind":1,` +
			`"startTimeUnixNano":"` + nanos(r.Started) + `","endTimeUnixNano":"` + nanos(r.Finished) + `","attributes":[` +
			`{"key":"zester.jid","value":{"stringValue":"2MiKxgDj2SNKWVFZjKqpTMhKvVu"}},{"key":"zester.peel","value":{"stringValue":"web.01"}},{"key":"zester.entry","value":{"stringValue":"e"}},` +
			`{"key":"zester.function","value":{"stringValue":"cmd.run"}},{"key":"zester.trigger","value":{"stringValue":"timer"}}],"status":{"code":2,"message":"exit status 1 more"}}]}]}]}`
		if body != want {
			t.Errorf("\n%s\nwant\n%s", body, want)
		}
	})
}

func TestAJobIsASpanAndItsRunsAreBelowIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.exporter("m1", nil)
		jid := wire.NewJID()
		returned := time.Now()
		s.publish(wire.ReturnOf(jid, "web_01"), wire.Return{JID: jid, Peel: "web.01", Result: wire.Result{Outcome: wire.Canceled, Error: "stopped", Data: "secret-output", Duration: 3 * time.Second}, Finished: returned, V: wire.Version})
		j := &job.Job{Spec: job.Spec{JID: jid, Function: "cmd.run", TargetExpr: "web-*"}, Target: "web-*", TargetCount: 2, Created: returned.Add(-4 * time.Second), User: "ann", V: wire.Version}
		j.Finish(job.End{Targets: 2, Returned: 1}, returned.Add(time.Second))
		if err := s.store.Record(t.Context(), wire.StatusOf(jid), "status", j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		got := s.collector.got()
		if len(got) != 1 || len(got[0].spans) != 2 {
			t.Fatalf("%+v", got)
		}
		whole, run := got[0].spans[0], got[0].spans[1]
		if whole["name"] != "cmd.run" || whole["parentSpanId"] != nil || run["parentSpanId"] != whole["spanId"] || run["traceId"] != whole["traceId"] || run["spanId"] == whole["spanId"] {
			t.Errorf("%v and %v", whole, run)
		}
		if whole["startTimeUnixNano"] != nanos(j.Created) || whole["endTimeUnixNano"] != nanos(j.Updated) || run["startTimeUnixNano"] != nanos(returned.Add(-3*time.Second)) || run["endTimeUnixNano"] != nanos(returned) {
			t.Errorf("times of %v and %v", whole, run)
		}
		want := map[string]string{
			"zester.jid": string(jid), "zester.function": "cmd.run", "zester.user": "ann", "zester.target": "web-*", "zester.status": "partial",
			"zester.targets": "2", "zester.returned": "1", "zester.succeeded": "0",
		}
		if f := fields(t, whole); !maps.Equal(f, want) {
			t.Errorf("%v, want %v", f, want)
		}
		want = map[string]string{"zester.jid": string(jid), "zester.peel": "web.01", "zester.function": "cmd.run", "zester.outcome": "canceled"}
		if f := fields(t, run); !maps.Equal(f, want) {
			t.Errorf("%v, want %v", f, want)
		}
		status := func(span map[string]any) string { data, _ := json.Marshal(span["status"]); return string(data) }
		if status(whole) != `{"code":2,"message":"1 of 2 targets returned, 0 succeeded"}` || status(run) != `{"code":2,"message":"stopped"}` {
			t.Errorf("%s and %s", status(whole), status(run))
		}
		if strings.Contains(string(got[0].body), "secret") {
			t.Errorf("results are sent: %s", got[0].body)
		}
	})
}

// TestUnprovenOriginsAreNotSent holds that the collector learns no more of a report than the record of the job.
func TestUnprovenOriginsAreNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.exporter("m1", nil)
		s.run("e", func(r *wire.ScheduledResult) { r.Author = "Eve <eve@example.org>" })
		time.Sleep(5 * time.Second)
		f := fields(t, s.collector.got()[0].spans[0])
		if f["zester.commit"] != "" || f["zester.author"] != "" || f["zester.file"] != "" || f["zester.entry"] != "e" {
			t.Errorf("%v", f)
		}
	})
}

// TestWhatNoMasterCouldSendIsSentLater holds that masters that share the stream send each span once, and that no span is lost while no
// master runs or the collector is down.
func TestWhatNoMasterCouldSendIsSentLater(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.run("before", nil) // no master has asked for spans yet
		_, stop1 := s.exporter("m1", nil)
		_, stop2 := s.exporter("m2", nil)
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprintf("a%02d", i))
			s.run(want[i], nil)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if got := s.collector.names(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("sent %v", got)
		}
		stop1()
		stop2()
		s.run("away", nil)
		time.Sleep(2 * time.Hour)
		s.collector.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		e, stop3 := s.exporter("m3", nil)
		s.run("down", nil)
		time.Sleep(time.Hour)
		if metric(t, e, "zester_otel_waiting") != "2" || metric(t, e, `zester_otel_spans_total{result="sent"}`) != "0" {
			t.Error("the metrics do not show what waits")
		}
		stop3() // with events in its hands
		s.collector.answers(nil)
		s.collector.got()
		s.exporter("m4", nil)
		time.Sleep(5 * time.Second)
		if got := s.collector.names(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"away", "down"}) {
			t.Errorf("then sent %v", got)
		}
	})
}

func TestACollectorThatDoesNotTakeSpansIsAskedAgainAfterGrowingPauses(t *testing.T) {
	secretAnswer := func(status int, header, value, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body + r.Header.Get("Authorization")))
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		pauses []time.Duration // the first ones
		log    string
	}{
		"down":              {secretAnswer(502, "X", "", "bad gateway "), []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, "status 502"},
		"too many":          {secretAnswer(429, "Retry-After", "90", ""), []time.Duration{90 * time.Second, 90 * time.Second}, "status 429"},
		"wrong credential":  {secretAnswer(401, "X", "", ""), []time.Duration{time.Second, 2 * time.Second}, "its credential may lack the right"},
		"redirect":          {secretAnswer(307, "Location", "http://elsewhere/v1/traces", ""), []time.Duration{time.Second, 2 * time.Second}, "its url has changed"},
		"garbage":           {secretAnswer(200, "X", "", "<html>Please log in</html>"), []time.Duration{time.Second, 2 * time.Second}, "not one of OTLP"},
		"endless":           {secretAnswer(200, "X", "", strings.Repeat("x", 1<<20)), []time.Duration{time.Second, 2 * time.Second}, "more than 65536 bytes"},
		"impossible number": {secretAnswer(200, "X", "", `{"partialSuccess":{"rejectedSpans":7}}`), []time.Duration{time.Second, 2 * time.Second}, "OTLP"},
		"silent":            {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, []time.Duration{21 * time.Second, 22 * time.Second}, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				file := headersFile(t, "Authorization: Bearer t0ken-of-the-collector\n", 0o600)
				e, _ := s.exporter("m1", func(o *otel.Options) { o.HeadersFile = file })
				s.collector.answers(c.answer)
				s.run("e", nil)
				time.Sleep(10 * time.Minute)
				s.collector.answers(nil)
				tries := s.collector.got()
				if len(tries) < 6 {
					t.Fatalf("%d tries", len(tries))
				}
				for i, want := range c.pauses {
					if got := tries[i+1].at.Sub(tries[i].at).Round(time.Second); got != want {
						t.Errorf("pause %d is %v, want %v", i, got, want)
					}
				}
				for _, again := range tries[1:] {
					if string(again.body) != string(tries[0].body) {
						t.Errorf("a later request differs:\n%s\n%s", tries[0].body, again.body)
					}
				}
				if log := s.log.String(); !strings.Contains(log, c.log) || !strings.Contains(log, "collector=localhost") || strings.Contains(log, "t0ken") {
					t.Errorf("log without %q, or with the token:\n%s", c.log, log)
				}
				time.Sleep(3 * time.Minute)
				if got := s.collector.names(); !slices.Equal(got, []string{"e"}) {
					t.Errorf("then sent %v", got)
				}
				if got := metric(t, e, "zester_otel_requests_failed_total"); got != fmt.Sprint(len(tries)) {
					t.Errorf("%s failures of %d", got, len(tries))
				}
			})
		})
	}
}

// TestOneMasterTriesASpanWhileTheCollectorIsDown holds that the bus does not give it to the other master meanwhile.
func TestOneMasterTriesASpanWhileTheCollectorIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.exporter("m1", nil)
		s.exporter("m2", nil)
		s.collector.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		s.run("e", nil)
		time.Sleep(30 * time.Minute)
		s.collector.got()
		time.Sleep(time.Hour)
		if n := len(s.collector.got()); n < 58 || n > 60 {
			t.Errorf("%d tries in an hour", n)
		}
	})
}

func TestSpansThatTheCollectorRefusesAreDroppedAndCounted(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		e, _ := s.exporter("m1", nil)
		s.collector.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) })
		s.run("bad", nil)
		time.Sleep(time.Minute)
		if n := len(s.collector.got()); n != 1 {
			t.Errorf("%d requests", n)
		}
		s.collector.answers(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}`))
		})
		s.run("half", nil)
		s.run("other half", nil)
		time.Sleep(time.Minute)
		s.collector.answers(func(http.ResponseWriter, *http.Request) {}) // an empty answer
		s.run("good", nil)
		time.Sleep(time.Minute)
		if refused, sent := metric(t, e, `zester_otel_spans_total{result="refused"}`), metric(t, e, `zester_otel_spans_total{result="sent"}`); refused != "2" || sent != "2" {
			t.Errorf("%s refused, %s sent", refused, sent)
		}
	})
}

func TestSpansThatNobodyTakesForADayAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		e, _ := s.exporter("m1", nil)
		s.collector.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		s.run("old", nil)
		time.Sleep(23 * time.Hour)
		s.run("young", nil)
		time.Sleep(2 * time.Hour)
		s.collector.answers(nil)
		s.collector.got()
		time.Sleep(2 * time.Minute)
		if got := s.collector.names(); !slices.Equal(got, []string{"young"}) {
			t.Errorf("sent %v", got)
		}
		if metric(t, e, `zester_otel_spans_total{result="expired"}`) != "1" || metric(t, e, "zester_otel_waiting") != "0" {
			t.Error("the metrics do not show the dropped span")
		}
	})
}

// TestALargeJobIsSentInParts also holds that runs beyond the limit are counted.
func TestALargeJobIsSentInParts(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		e, _ := s.exporter("m1", nil)
		jid, n := wire.NewJID(), otel.MaxRuns+3
		for i := range n {
			peel := fmt.Sprintf("p%05d", i)
			data := encoded(t, wire.Return{JID: jid, Peel: "web.01", V: wire.Version})
			if i > 0 {
				data = encoded(t, map[string]any{"jid": jid, "peel_id": peel, "success": true, "v": wire.Version})
			}
			if _, err := s.js.PublishMsgAsync(job.ReturnMessage(jid, target.PeelID(peel), data)); err != nil {
				t.Fatal(err)
			}
		}
		<-s.js.PublishAsyncComplete()
		j := &job.Job{Spec: job.Spec{JID: jid, Function: "test.ping"}, TargetCount: n, Created: time.Now(), User: "ann", V: wire.Version}
		j.Finish(job.End{Targets: n, Returned: n, Succeeded: n}, time.Now())
		if err := s.store.Record(t.Context(), wire.StatusOf(jid), "status", j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		ids, most := map[any]bool{}, 0
		for _, r := range s.collector.got() {
			most = max(most, len(r.spans))
			for _, span := range r.spans {
				ids[span["spanId"]] = true
			}
		}
		if len(ids) != otel.MaxRuns+1 || most != 512 {
			t.Errorf("%d spans, at most %d in a request", len(ids), most)
		}
		if left, bad := metric(t, e, `zester_otel_spans_total{result="left_out"}`), metric(t, e, `zester_otel_spans_total{result="unreadable"}`); left != "2" || bad != "1" {
			t.Errorf("%s left out, %s unreadable", left, bad)
		}
	})
}

func TestWhatCannotBeReadIsCountedAndStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		e, _ := s.exporter("m1", nil)
		s.publish(wire.ScheduledOf(wire.NewJID(), "web_01"), "no report")
		s.run("of-another", func(r *wire.ScheduledResult) { r.Peel = "web.02" })
		if _, err := s.js.Publish(t.Context(), wire.StatusOf(wire.NewJID()), []byte("no event")); err != nil {
			t.Fatal(err)
		}
		s.run("good", nil)
		time.Sleep(5 * time.Second)
		if got := s.collector.names(); !slices.Equal(got, []string{"good"}) {
			t.Errorf("sent %v", got)
		}
		if n := metric(t, e, `zester_otel_spans_total{result="unreadable"}`); n != "3" {
			t.Errorf("%s unreadable", n)
		}
	})
}

func TestAnExporterSurvivesARestartOfTheBus(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.exporter("m1", nil)
		s.run("before", nil)
		time.Sleep(5 * time.Second)
		s.bus.Restart(t)
		time.Sleep(2 * time.Minute)
		s.run("after", nil)
		time.Sleep(2 * time.Minute)
		if got := s.collector.names(); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("sent %v", got)
		}
	})
}

func TestWhatIsRefusedBeforeTheStart(t *testing.T) {
	good := headersFile(t, "Authorization: x\n", 0o600)
	replaceable := headersFile(t, "Authorization: x\n", 0o600)
	if err := os.Chmod(filepath.Dir(replaceable), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    otel.Options
		want string
	}{
		"no URL":            {otel.Options{URL: "collector:4318"}, "want an http or https URL"},
		"no path":           {otel.Options{URL: "https://collector:4318"}, "which mostly is /v1/traces"},
		"credential in URL": {otel.Options{URL: "https://u:p4ssword@collector/v1/traces"}, "headers_file"},
		"plain text":        {otel.Options{URL: "http://collector/v1/traces", HeadersFile: good}, "use https"},
		"no file":           {otel.Options{URL: "https://collector/v1/traces", HeadersFile: "/nowhere/headers"}, "cannot read the headers in /nowhere/headers"},
		"open file":         {otel.Options{URL: "https://collector/v1/traces", HeadersFile: headersFile(t, "A: b\n", 0o644)}, "chmod 600"},
		"open directory":    {otel.Options{URL: "https://collector/v1/traces", HeadersFile: replaceable}, "cannot read the headers in " + replaceable},
		"empty file":        {otel.Options{URL: "https://collector/v1/traces", HeadersFile: headersFile(t, "\n# none\n", 0o600)}, "want 1 to 16"},
		"no colon":          {otel.Options{URL: "https://collector/v1/traces", HeadersFile: headersFile(t, "A: b\nt0ken\n", 0o600)}, ":2: want NAME: VALUE"},
		"name":              {otel.Options{URL: "https://collector/v1/traces", HeadersFile: headersFile(t, "a b: t0ken\n", 0o600)}, ":1: want NAME: VALUE"},
		"value":             {otel.Options{URL: "https://collector/v1/traces", HeadersFile: headersFile(t, "a: t0ken\x01\n", 0o600)}, ":1: want NAME: VALUE"},
	} {
		_, err := otel.New(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "p4ssword") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, o := range []otel.Options{{URL: "http://127.0.0.1:4318/v1/traces", HeadersFile: good}, {URL: "http://collector:4318/v1/traces"}} {
		if _, err := otel.New(o); err != nil {
			t.Errorf("%s: %v", o.URL, err)
		}
	}
}
