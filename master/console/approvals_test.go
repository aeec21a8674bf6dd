package console_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// decisionGets has the expected status of the forms of decisions as in gets, while nothing waits.
var decisionGets = []struct {
	path string
	want [5]int
}{
	{"/commits/0000000/approve", [5]int{303, 403, 403, 404, 403}},
	{"/commits/0000000/gate", [5]int{303, 403, 403, 409, 403}},
	{"/commits/0000000/freeze", [5]int{303, 403, 403, 409, 403}},
	{"/sync/facts", [5]int{303, 403, 403, 409, 403}},
	{"/sync/adopt", [5]int{303, 403, 403, 409, 403}},
	{"/approvals/held/nothing/approve", [5]int{303, 403, 403, 404, 403}},
	{"/approvals/held/nothing/reject", [5]int{303, 403, 404, 404, 404}},
	{"/approvals/held/2abcdefghijklmnopqrstuvwxyz/approve", [5]int{303, 403, 403, 404, 403}},
	{"/approvals/enroll/web-99/approve", [5]int{303, 403, 403, 404, 403}},
	{"/approvals/enroll/web-99/reject", [5]int{303, 403, 403, 404, 403}},
	{"/approvals/rekey/web-99/approve", [5]int{303, 403, 403, 404, 403}},
	{"/approvals/rekey/web-01/approve", [5]int{303, 403, 403, 409, 403}},
}

func TestDecisions(t *testing.T) {
	f := theFleet(t)
	for column, name := range everybody {
		b := f.browse(t)
		if name != "nobody" {
			b = f.login(t, name)
		}
		for _, g := range decisionGets {
			if got := b.get(g.path); got.status != g.want[column] {
				t.Errorf("%s as %s: %d, want %d\n%s", g.path, name, got.status, g.want[column], got.body)
			}
			want := g.want[column]
			if name == "nobody" {
				want = http.StatusUnauthorized
			}
			if got := b.post(g.path, url.Values{}); got.status != want {
				t.Errorf("POST %s as %s: %d, want %d\n%s", g.path, name, got.status, want, got.body)
			}
		}
	}
	t.Run("a patch", func(t *testing.T) { aPatch(t, f) })
	t.Run("a held action", func(t *testing.T) { aHeldAction(t, f) })
	t.Run("a host that asks to join", func(t *testing.T) { aHostThatAsks(t, f) })
	t.Run("a plan and a gate", func(t *testing.T) { aPlanAndAGate(t, f) })
}

// aHeldAction holds that an action runs in the name of the person who approved it, on the peels that were shown.
func aHeldAction(t *testing.T, f *fleet) {
	ask := func(by *api.Client, target string, peels ...target.PeelID) api.HoldID {
		t.Helper()
		a, err := api.HoldAdd.Ask(t.Context(), by, api.HoldAddRequest{
			Kind: api.HoldDispatch, Target: target, Hash: audit.PeelsHash(peels), Module: "test.ping",
			Reason: "<b>is it up?</b>", Agent: "helper 1.2",
		})
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	id := string(ask(f.people["lee"], "web-01", "web-01"))
	path := "/approvals/held/" + id + "/approve"
	f.login(t, "eve").get("/approvals").has(t, `data-kind="held"`, "An assistant asks for test.ping")
	ann := f.login(t, "ann")
	ann.get("/approvals").has(t, `href="`+path+`"`)
	form := ann.get(path)
	form.has(t, `data-testid="claim"`, "&lt;b&gt;is it up?", "helper 1.2", "Run test.ping on 1 peel?", "zester approve "+id, "Run it as ann")
	if got := ann.post(path, url.Values{"seen": {"other"}}); got.status != http.StatusConflict {
		t.Errorf("other peels: %d\n%s", got.status, got.body)
	}
	if got := f.login(t, "lee").post(path, url.Values{"seen": {form.field(t, "seen")}}); got.status != http.StatusForbidden {
		t.Errorf("who asked approves: %d", got.status)
	}
	got := ann.post(path, url.Values{"seen": {form.field(t, "seen")}})
	if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/jobs/") {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	ann.get(got.header.Get("Location")).has(t, "test.ping", "ann")
	if again := ann.post(path, url.Values{"seen": {form.field(t, "seen")}}); again.status != http.StatusConflict {
		t.Errorf("twice: %d\n%s", again.status, again.body)
	}

	every := "/approvals/held/" + string(ask(f.local, "web-0[12]", "web-01", "web-02")) + "/approve"
	form = ann.get(every)
	form.has(t, "Run test.ping on 2 peels?", "Type <code>2</code>")
	if got := ann.post(every, url.Values{"seen": {form.field(t, "seen")}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("all peels without their number: %d", got.status)
	}

	id = string(ask(f.people["lee"], "web-01", "web-01"))
	reject := "/approvals/held/" + id + "/reject"
	ann.get(reject).has(t, "nothing runs", "--reject")
	if got := ann.post(reject, url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	if got := ann.get(reject); got.status != http.StatusConflict {
		t.Errorf("the form of a rejected action: %d", got.status)
	}
	ann.get("/system/audit?user=ann&action=hold").has(t, "hold.approve", "hold.reject", "console")
}

// asks sends the request of a new host to join, and returns its key.
func (f *fleet) asks(t *testing.T, id target.PeelID) (public string) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign(enroll.Proof(id, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(enroll.Request{ID: id, Public: key.Public(), Proof: base64.RawURLEncoding.EncodeToString(proof)})
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+f.address+"/api/v1/enroll", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := natstest.HTTPS(t, f.ca()).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("enroll: %d", resp.StatusCode)
	}
	return key.Public()
}

func aHostThatAsks(t *testing.T, f *fleet) {
	public := f.asks(t, "db-01")
	ann := f.login(t, "ann")
	ann.get("/approvals").has(t, "db-01 asks to join", `href="/approvals/enroll/db-01/approve"`)
	form := ann.get("/approvals/enroll/db-01/approve")
	form.has(t, public, "zester auth peel approve db-01 --key "+public)
	sent := url.Values{"seen": {public}, "typed": {"000000"}}
	if got := ann.post("/approvals/enroll/db-01/approve", sent); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another key was typed: %d", got.status)
	}
	sent.Set("typed", public[len(public)-6:])
	if got := ann.post("/approvals/enroll/db-01/approve", sent); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	if got := ann.get("/approvals/enroll/db-01/approve"); got.status != http.StatusConflict {
		t.Errorf("it has joined: %d", got.status)
	}

	public = f.asks(t, "db-02")
	sent = url.Values{"seen": {public}}
	if got := ann.post("/approvals/enroll/db-02/reject", sent); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	all, err := api.EnrollList.Ask(t.Context(), f.local, api.EnrollQuery{})
	if err != nil {
		t.Fatal(err)
	}
	states := map[target.PeelID]credential.EnrollState{}
	for _, e := range all.Peels {
		states[e.ID] = e.State
	}
	if states["db-01"] != credential.Accepted || states["db-02"] == credential.Pending {
		t.Errorf("%v", states)
	}
}

// aPlanAndAGate lets a commit go out that exceeds the limits, and then from its first wave to the others.
func aPlanAndAGate(t *testing.T, f *fleet) {
	commit := func(message string, files map[string][]byte) string {
		t.Helper()
		h, err := f.work.Commit(message, files, ada)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
			t.Fatal(err)
		}
		return h.String()
	}
	holds := func(what string, is func(*status.Sync) bool) {
		t.Helper()
		f.until(t, what, func(ctx context.Context) bool {
			s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
			return err == nil && is(s)
		})
	}
	inForce := func(commit string) {
		t.Helper()
		holds("a commit in force", func(s *status.Sync) bool { return string(s.LastGood.Commit) == commit && s.Rollout == nil })
	}
	more := append(bytes.Clone(repo["settings/all.yaml"].Data), "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n"...)
	inForce(commit("Limits are for ten settings or more", map[string][]byte{"settings/all.yaml": more}))
	inForce(commit("Go out in waves", map[string][]byte{
		"zester.yaml": []byte("limits: {change: 10%}\nwaves: [{name: canary, peels: 1, gate: manual}, {name: all, peels: 100%}]\n"),
	}))
	sha := commit("Say more", map[string][]byte{
		"settings/all.yaml": bytes.Replace(more, []byte("text: hello"), []byte("text: hello again"), 1),
	})
	holds("a plan that waits", func(s *status.Sync) bool { return s.Blocked != "" })

	ann := f.login(t, "ann")
	ann.get("/approvals").has(t, `data-kind="plan"`, `href="/commits/`+sha+`/approve"`)
	form := ann.get("/commits/" + sha + "/approve")
	form.has(t, "2 peels get other settings", "changes hello", "Type <code>2</code>", "zester sync approve ")
	sent := url.Values{"seen": {form.field(t, "seen")}, "typed": {"2"}, "reason": {"it was tried"}}
	wrong := url.Values{"seen": {"0000"}, "typed": {"2"}}
	if got := ann.post("/commits/"+sha+"/approve", wrong); got.status != http.StatusConflict {
		t.Errorf("another plan: %d", got.status)
	}
	if got := ann.post("/commits/"+sha+"/approve", sent); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}

	holds("a gate", func(s *status.Sync) bool { return s.Rollout != nil && s.Rollout.State == "gate" })
	ann.get("/").has(t, "The gate after wave canary", sha[:8]+" runs on 1 of the 1 peels of the wave, 0 failed",
		`href="/commits/`+sha+`/gate"`)
	gateSincePassed(t, f)
	form = ann.get("/commits/" + sha + "/gate")
	form.has(t, "Open the gate after the wave canary?", "1 of its 1 peel have it, 0 failed",
		"wave all begins, 2 of 2; 1 peel to change does not have it yet", "zester sync approve canary")
	fewer := strings.Replace(form.field(t, "seen"), " 0 canary", " 1 canary", 1)
	if got := ann.post("/commits/"+sha+"/gate", url.Values{"seen": {fewer}, "typed": {"canary"}}); got.status != http.StatusConflict {
		t.Errorf("another number of peels had failed: %d", got.status)
	}
	sent = url.Values{"seen": {form.field(t, "seen")}, "typed": {"canary"}, "reason": {"no errors"}}
	if got := ann.post("/commits/"+sha+"/gate", sent); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	inForce(sha)
	ann.get("/commits/"+sha).has(t, "gate canary", "Opened by <b>ann</b> at", "</time>: no errors")
}

// gateSincePassed holds that a gate waits for a person since its wave has passed, which is later than the rollout began.
func gateSincePassed(t *testing.T, f *fleet) {
	t.Helper()
	s, err := api.SyncStatus.Ask(t.Context(), f.local, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	now, err := api.NowShow.Ask(t.Context(), f.people["ann"], api.None{})
	if err != nil {
		t.Fatal(err)
	}
	passed := s.Rollout.Steps[0].Passed
	for _, w := range now.Waiting {
		if w.Kind == api.WaitingGate && w.Since.Equal(passed) && passed.After(s.Rollout.Started) {
			return
		}
	}
	t.Errorf("the wave passed at %v, and this waits: %+v", passed, now.Waiting)
}
