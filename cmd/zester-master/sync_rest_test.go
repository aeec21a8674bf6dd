package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A web asks one master over HTTPS with a token.
type web struct {
	t      *testing.T
	client *http.Client
	base   string
	token  string
}

func (w web) do(method, path string, body any) (code int, answer []byte) {
	w.t.Helper()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, reader)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// sync gives an order or asks for the status, and checks the code.
func (w web) sync(code int, method, path string, body any) (s status.Sync) {
	w.t.Helper()
	got, answer := w.do(method, "/api/v1/sync"+path, body)
	if got != code {
		w.t.Fatalf("%s %s: %d %s, want %d", method, path, got, answer, code)
	}
	if code == http.StatusOK {
		if err := json.Unmarshal(answer, &s); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// metric checks for a line of /metrics.
func (w web) metric(line string, there bool) {
	w.t.Helper()
	if code, answer := w.do("GET", "/metrics", nil); code != 200 || strings.Contains("\n"+string(answer), "\n"+line) != there {
		w.t.Errorf("%d: a line %s is there: %v\n%s", code, line, !there, answer)
	}
}

// TestProgramsOrderTheReconcilerThroughAnyMaster runs two masters on one bus. One of them leads, and the requests go to the other.
func TestProgramsOrderTheReconcilerThroughAnyMaster(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte(entries(1))},
	})
	address := natstest.Reserve(t, 2)
	listen := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", address[i]) }
	s.daemon("zester-master", "--id", "m1", "--data-dir", "master", "--listen", "127.0.0.1:0", "--rest-listen", listen(0), "--repo", "fleet", "--poll", "1h").
		waitFor(`"leads":"reconciler"`)
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	s.settled()
	s.daemon("zester-master", "--nats", s.url(), "--creds", s.issue(grants.RoleMaster, "m2"), "--data-dir", "m2", "--rest-listen", listen(1), "--repo", "fleet", "--poll", "1h").
		waitFor("master is ready")
	token := func(name, scopes string) string {
		return strings.TrimSpace(s.zester(0, "auth", "token", "create", name, "--scope", scopes))
	}
	ops, ci := token("ops", "read,sync"), token("ci", "read,dispatch")
	leader := web{t, natstest.HTTPS(t, s.path("master/tls/ca.crt")), "https://" + listen(0), ops}
	other := web{t, natstest.HTTPS(t, s.path("m2/tls/ca.crt")), "https://" + listen(1), ops}

	first := other.sync(200, "GET", "", nil)
	if first.Owner != "m1" || first.Counts.Applied != 1 || first.LastGood.Commit == "" {
		t.Fatalf("%+v", first)
	}
	leader.metric("zester_sync_leader 1\n", true)
	leader.metric(`zester_peels{state="applied"} 1`+"\n", true)
	leader.metric(`zester_sync_revision_info{commit="`+string(first.LastGood.Commit)+`",role="in_force"} 1`+"\n", true)
	other.metric("zester_sync_leader 0\n", true)
	other.metric("zester_peels", false)

	s.commit(map[string]string{"settings/all.yaml": entries(2)})
	blocked := other.sync(200, "POST", "/now", nil)
	web{t, other.client, other.base, ci}.sync(403, "POST", "/approve", map[string]string{"hash": blocked.Blocked})
	other.sync(409, "POST", "/approve", map[string]string{"hash": "0123456789"})
	if out := other.sync(200, "POST", "/approve", map[string]string{"hash": blocked.Blocked}); out.Blocked != "" {
		t.Errorf("%+v", out)
	}
	s.settled()
	leader.metric("zester_sync_up_to_date 1\n", true)
	code, answer := other.do("GET", "/api/v1/sync/history", nil)
	var h status.History
	if err := json.Unmarshal(answer, &h); err != nil || code != 200 || h.Attempts[0].By != "token:ops" || h.Attempts[0].Outcome != status.OutcomeApplied {
		t.Errorf("%d %v: %s", code, err, answer)
	}

	page, err := api.AuditList.Ask(s.ctx(), s.client(), audit.Query{User: "token:ops"})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range page.Entries {
		if e.From != "127.0.0.1" || e.Role != "" {
			t.Errorf("%+v", e)
		}
		told = append(told, fmt.Sprint(e.Action, " ", e.Result))
	}
	if got := strings.Join(told, ", "); got != "sync.approve done, sync.approve refused, sync.now done" {
		t.Errorf("the audit log tells of %s", got)
	}
}
