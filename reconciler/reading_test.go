package reconciler

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// askedOfSync has the requests of each row of the reconciler that changes nothing.
var askedOfSync = map[string][]any{
	"status": {nil}, "history": {nil}, "groups": {nil}, "plan": {status.PlanRequest{}},
	"peels": {
		status.PeelsRequest{}, status.PeelsRequest{Cursor: "a"}, status.PeelsRequest{Peels: []target.PeelID{"db-01", "web-01"}},
	},
	"states": {status.PeelsRequest{}, status.PeelsRequest{Cursor: "a"}},
	"commit": {status.CommitRequest{Revision: "0000"}},
	"diff":   {status.DocumentRequest{Peel: "db-01"}, status.DocumentRequest{Peel: "web-01"}},
}

var instants = regexp.MustCompile(`"(?:proof|repo)":"[^"]*"|\d{4}-\d\d-\d\dT[0-9:.]+Z|"generation":\d+`)

// readers connects people who may read about web-* alone.
func (b *bench) readers() map[string]*nats.Conn {
	b.t.Helper()
	js := b.bus.JetStream(b.t)
	store, err := user.Open(b.t.Context(), js)
	if err != nil {
		b.t.Fatal(err)
	}
	role := credential.Role{Role: access.Role{Name: "team", Groups: []string{"web"}, Allow: []access.Actions{
		{Verbs: []string{access.Read}, Target: "web-*"},
	}}}
	if err := store.SetRole(b.t.Context(), role); err != nil {
		b.t.Fatal(err)
	}
	kv, err := js.KeyValue(b.t.Context(), wire.BucketUsers)
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]*nats.Conn{}
	for _, u := range []credential.User{
		{Name: "limited", Role: grants.RoleLimited, Limits: grants.Limits{Target: "web-*"}},
		{Name: "member", Role: grants.RoleMember, Roles: []string{"team"}},
		{Name: "grouped", Role: grants.RoleMember, Groups: []string{"web"}},
		{Name: "nothing", Role: grants.RoleMember},
	} {
		data, err := canon.Marshal(u)
		if err == nil {
			_, err = kv.Create(b.t.Context(), u.Name, data)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		all[u.Name] = b.bus.Conn(b.t, u.Role, u.Name)
	}
	return all
}

// repliesOfSync returns what readers are told in a fleet with web-01, and perhaps db-01, whose states fail.
func repliesOfSync(t *testing.T, hasDB bool) map[string]string {
	all := map[string]string{}
	entry := "schedule:\n  tidy: {module: test.ping, interval: 1h}\nstates:\n  motd: {file.managed: {path: /etc/motd, content: x}}\n"
	inBubble(t, fstest.MapFS{
		"top.yaml":          text("base:\n  'web-*': [web]\n  'db-*': [db]\n"),
		"settings/web.yaml": text(entry), "settings/db.yaml": text(strings.ReplaceAll(entry, "tidy", "canary")),
	}, func(b *bench) {
		ids := []target.PeelID{"web-01"}
		if hasDB {
			ids = append(ids, "db-01")
		}
		for _, id := range ids {
			b.peel(id, nil)
		}
		b.start()
		b.now()
		for _, id := range ids {
			doc := b.document(id)
			b.say(id, wire.StateRunOf(id.Wire()), wire.StateRun{
				Peel: id, Commit: string(doc.Commit), Digest: string(doc.Digest), Counts: map[string]int{"failed": 1}, Time: time.Now(),
				States: []wire.StateOutcome{{State: "motd-" + string(id), Result: "failed", Error: "no"}}, V: wire.Version,
			})
		}
		b.after(time.Minute)
		if n := b.status().Counts.Peels; n != len(ids) {
			t.Errorf("an operator counts %d peels", n)
		}
		for name, nc := range b.readers() {
			for verb, requests := range askedOfSync {
				if name == "limited" && (verb == "diff" || verb == "commit") {
					continue // the bus refuses it
				}
				for i, q := range requests {
					data, err := canon.Marshal(q)
					if err != nil {
						t.Fatal(err)
					}
					msg, err := nc.Request(wire.API("sync", verb, name), data, time.Minute)
					if err != nil {
						t.Fatal(name, verb, err)
					}
					var reply any
					refusal := msg.Header.Get("Nats-Service-Error")
					if refusal == "" {
						if err := canon.Unmarshal(msg.Data, &reply); err != nil {
							t.Fatal(err)
						}
					}
					shown, err := json.Marshal(reply)
					if err != nil {
						t.Fatal(err)
					}
					key := name + " " + verb + string(rune('0'+i))
					all[key] = instants.ReplaceAllString(string(shown)+" "+refusal, "~")
					if strings.Contains(strings.ReplaceAll(all[key], "to db-01", ""), "db-01") || strings.Contains(all[key], "canary") {
						t.Errorf("%s: %s", key, all[key])
					}
				}
			}
		}
	})
	return all
}

// TestNobodyLearnsOfPeelsOutsideFromTheReconciler compares what people who may read about web-* are told in a fleet with
// another peel, and in the same fleet without it.
func TestNobodyLearnsOfPeelsOutsideFromTheReconciler(t *testing.T) {
	for row, shows := range api.Showings() {
		if verb, ok := strings.CutPrefix(row, "sync."); ok && len(askedOfSync[verb]) == 0 {
			t.Errorf("no request of %s, which shows %s, is tried", row, shows)
		}
	}
	with, without := repliesOfSync(t, true), repliesOfSync(t, false)
	for _, key := range slices.Sorted(maps.Keys(with)) {
		if with[key] != without[key] {
			t.Errorf("%s:\nwith db-01     %s\nwithout db-01  %s", key, with[key], without[key])
		}
	}
	for _, name := range []string{"limited", "member", "grouped"} {
		if !strings.Contains(with[name+" peels0"], `"peel":"web-01"`) || !strings.Contains(with[name+" groups0"], "motd-web-01") ||
			!strings.Contains(with[name+" status0"], `"peels":1`) {
			t.Errorf("%s is not told of web-01: %s, %s, %s", name, with[name+" peels0"], with[name+" groups0"], with[name+" status0"])
		}
		for _, verb := range []string{"plan", "commit"} {
			if isAsked := verb == "plan" || name != "limited"; isAsked && !strings.Contains(with[name+" "+verb+"0"], "about the whole fleet") {
				t.Errorf("%s asks for the %s: %s", name, verb, with[name+" "+verb+"0"])
			}
		}
	}
}
