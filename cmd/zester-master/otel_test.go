package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// A sentSpan is the part of a span that the test reads.
type sentSpan struct {
	TraceID, Name, ParentSpanID string
	Attributes                  []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

// TestACollectorReceivesJobsAndRuns uses a collector on loopback.
func TestACollectorReceivesJobsAndRuns(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  often: {module: test.ping, interval: 1s, return_job: true}\n")},
	})
	spans := make(chan sentSpan, 1000)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []sentSpan }
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &request) != nil || r.Header.Get("X-Key") != "k3y" {
			t.Errorf("%v, %v: %s", err, r.Header, body)
		}
		for _, span := range request.ResourceSpans[0].ScopeSpans[0].Spans {
			select {
			case spans <- span:
			default: // the test has seen enough
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(collector.Close)
	s.write("headers", "X-Key: k3y\n")
	s.write("master.yaml", "data_dir: master\nlisten: 127.0.0.1:0\nrepo: fleet\notel: {url: "+collector.URL+"/v1/traces, headers_file: headers}\n")
	s.daemon("zester-master", "--config", "master.yaml").waitFor(`"leads":"reconciler"`)
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	limit := time.After(patience)
	next := func(name string) map[string]string {
		t.Helper()
		for {
			select {
			case span := <-spans:
				if span.Name != name {
					continue
				}
				all := map[string]string{"parent": span.ParentSpanID}
				for _, a := range span.Attributes {
					all[a.Key] = a.Value.StringValue
				}
				return all
			case <-limit:
				t.Fatalf("no span %s", name)
			}
		}
	}
	run := next("often")
	head, err := api.SyncStatus.Ask(s.ctx(), s.client(), api.None{})
	if err != nil || run["zester.peel"] != "web-01" || run["zester.entry"] != "often" || run["zester.commit"] != string(head.LastGood.Commit) || run["parent"] != "" {
		t.Errorf("%v, %v", run, err)
	}
	j := s.dispatch(s.client(), "web-01", "test.ping")
	both := []map[string]string{next("test.ping"), next("test.ping")}
	slices.SortFunc(both, func(a, b map[string]string) int { return len(a["parent"]) - len(b["parent"]) })
	if both[0]["zester.status"] != "complete" || both[1]["parent"] == "" || both[1]["zester.peel"] != "web-01" || both[1]["zester.jid"] != string(j.JID) {
		t.Errorf("%v", both)
	}
}
