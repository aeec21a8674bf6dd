package grants_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// No account may let its users publish to replies, whatever the table of permissions says.
func TestNoRoleMayPublishToReplies(t *testing.T) {
	for public, token := range open(t, t.TempDir()).Trust().Accounts {
		account, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		if account.DefaultPermissions.Resp != nil {
			t.Errorf("account %s: %+v", account.Name, account.DefaultPermissions.Resp)
		}
		for _, key := range account.SigningKeys.Keys() {
			if scope, _ := account.SigningKeys.GetScope(key); scope != nil && scope.(*jwt.UserScope).Template.Resp != nil {
				t.Errorf("account %s (%s): a user may publish to the reply of what it receives", account.Name, public)
			}
		}
	}
}

// A role that may publish what it also hears can send itself a message with a reply of its choice. Masters may: they are
// trusted with the whole bus.
func TestNoRoleHearsWhatItPublishes(t *testing.T) {
	for role := range actors {
		if role == grants.RoleMaster {
			continue
		}
		g := grants.Permissions(role)
		for _, published := range g.Publish {
			for _, heard := range g.Subscribe {
				if p, h := jwt.Subject(published), jwt.Subject(heard); p.IsContainedIn(h) || h.IsContainedIn(p) {
					t.Errorf("%s publishes %s and hears %s", role, published, heard)
				}
			}
		}
	}
}

// TestNoCredentialReachesOthersByWayOfAReply runs a program that is not zester's against a whole master, on the embedded
// server and on a nats-server process: with each credential it has everything that it may send answered on subjects of
// others, and then publishes there.
func TestNoCredentialReachesOthersByWayOfAReply(t *testing.T) {
	program := attacker(t)
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		l := live{keys: open(t, keystore.Dir(dir)), dir: dir}
		l.url = l.startMaster(t, "")
		l.attack(t, program)
	})
	t.Run("elsewhere", func(t *testing.T) {
		if testing.Short() {
			t.Skip("builds and runs nats-server")
		}
		dir := t.TempDir()
		l := live{keys: open(t, keystore.Dir(dir)), dir: dir}
		l.url, _ = startServer(t, l.keys.Trust(), dir)
		l.startMaster(t, l.url)
		l.attack(t, program)
	})
}

// A plan is what the program attacker is given.
type plan struct {
	URL, Creds, CA         string
	Listen, Requests, Aims []string
}

// run returns the subjects on which the attacker's server let it publish.
func (p plan) run(t *testing.T, program string) (open []string) {
	t.Helper()
	input, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &open)
	}
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func attacker(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "attacker")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/attacker").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestASitesServerReachesNobodyElse has a nats-server that asks its own clients for no credential and connects to the bus
// with the credential of a site. What the attacker publishes there must not arrive as another's.
func TestASitesServerReachesNobodyElse(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs nats-server")
	}
	dir := t.TempDir()
	l := live{keys: open(t, keystore.Dir(dir)), dir: dir}
	url, leafs := startServer(t, l.keys.Trust(), dir)
	l.url = url
	l.startMaster(t, l.url)
	l.populate(t)
	creds := filepath.Join(dir, "site.creds")
	if err := os.WriteFile(creds, siteCreds(t, l.keys, "peel-s"), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, _ := runServer(t, dir+"/nats-server", dir+"/site.conf", fmt.Sprintf(
		"listen: \"127.0.0.1:-1\"\nleafnodes { remotes: [ { urls: [%q], credentials: %q, tls { ca_file: %q } } ] }\n",
		leafs, creds, l.dir+"/tls/ca.crt"), "Leafnode connection created")

	type arrival struct{ at, subject string }
	arrivals, linked := make(chan arrival, 10000), make(chan struct{}, 1)
	var ears []*nats.Conn
	hear := func(role grants.Role, name string, subjects ...string) {
		nc := l.connect(t, role, name).Conn
		ears = append(ears, nc)
		for _, s := range subjects {
			if _, err := nc.Subscribe(strings.ReplaceAll(s, "{{name()}}", name), func(m *nats.Msg) {
				switch string(m.Data) {
				case "forged":
					arrivals <- arrival{name, m.Subject}
				case "linked":
					select {
					case linked <- struct{}{}:
					default:
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	hear(grants.RoleMaster, actors[grants.RoleMaster], "zester.>", "$KV.>")
	hear(grants.RolePeel, "peel-b", grants.Permissions(grants.RolePeel).Subscribe...)
	for _, role := range []grants.Role{grants.RoleOperator, grants.RoleDirect} {
		hear(role, actors[role], grants.Permissions(role).Subscribe...)
	}
	own := func(s string) string {
		return strings.NewReplacer("{{tag(peel)}}", "peel-s", "*", string(jid)).Replace(s)
	}
	g := grants.Permissions(grants.RoleSite)
	p := plan{URL: clients, Aims: aims("$JS.ACK.job-events.schedule-results.1.1.1.1.0")}
	for _, s := range g.Publish {
		p.Requests = append(p.Requests, own(s))
	}
	p.Aims = append(p.Aims, own(wire.Heartbeat("{{tag(peel)}}"))) // of its own, which shows that the link works
	last := wire.Heartbeat("peel-s")
	link(t, clients, last, linked)
	p.run(t, attacker(t))
	// It comes last, on the one connection to the bus.
	check := func(a arrival) {
		if wire.Sender(a.subject) != "peel-s" {
			t.Errorf("%s received what the site's server published on %s", a.at, a.subject)
		}
	}
	for limit, seen := time.After(time.Minute), ""; seen != last; {
		select {
		case a := <-arrivals:
			seen = a.subject
			check(a)
		case <-limit:
			t.Fatalf("nothing arrived on %s after a minute", last)
		}
	}
	for _, nc := range ears { // what the bus had sent to others before
		handled := make(chan struct{})
		if err := errors.Join(nc.Flush(), nc.Barrier(func() { close(handled) })); err != nil {
			t.Fatal(err)
		}
		<-handled
	}
	for len(arrivals) > 0 {
		check(<-arrivals)
	}
}

func (l live) attack(t *testing.T, program string) {
	l.populate(t)
	for _, role := range []grants.Role{grants.RolePeel, grants.RoleOperator, grants.RoleDirect, grants.RoleLimited, grants.RoleAuditor, grants.RoleObserver} {
		name := actors[role]
		own := func(grants []string) (subjects []string) {
			for _, g := range grants {
				subjects = append(subjects, strings.ReplaceAll(g, "{{name()}}", name))
			}
			return subjects
		}
		g := grants.Permissions(role)
		granted := own(g.Publish)
		plan := plan{URL: l.url, CA: l.dir + "/tls/ca.crt", Creds: l.credsFile(t, role, name), Listen: own(g.Subscribe)}
		for _, subject := range append(slices.Clone(granted), plan.Listen...) { // what it hears as well: its own echo
			plan.Requests = append(plan.Requests, strings.NewReplacer("*", string(jid), ">", "x").Replace(subject))
		}
		for _, aim := range aims("$JS.ACK.job-events.schedule-results.1.1.1.1.0") {
			if !slices.ContainsFunc(granted, func(g string) bool { return jwt.Subject(aim).IsContainedIn(jwt.Subject(g)) }) {
				plan.Aims = append(plan.Aims, aim)
			}
		}
		reached := slices.DeleteFunc(plan.run(t, program), func(s string) bool {
			return slices.ContainsFunc(granted, func(g string) bool { return jwt.Subject(s).IsContainedIn(jwt.Subject(g)) })
		})
		if t.Logf("%s: %d of %d subjects of others open", role, len(reached), len(plan.Aims)); len(reached) > 0 {
			t.Errorf("%s published to %v", role, reached)
		}
	}
}

// populate has something stored for each peel that tries and for others, so that what reads it gets an answer.
func (l live) populate(t *testing.T) {
	t.Helper()
	lead := l.connect(t, grants.RoleMaster, actors[grants.RoleMaster])
	for _, p := range []string{"peel-a", "peel-b"} {
		request(t, lead.Conn, wire.SettingsKey(p), string(document(t, "peel-a")))
		request(t, l.connect(t, grants.RolePeel, p).Conn, wire.Fact(p), "facts of "+p)
	}
	request(t, lead.Conn, "$KV."+wire.BucketActive+"."+string(jid), "job")
}

// credsFile returns the path of a credential.
func (l live) credsFile(t *testing.T, role grants.Role, name string) string {
	t.Helper()
	creds, err := l.keys.Creds(role, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A subscription takes memory of the server, whatever its subject.
func TestNoRoleFillsTheServerWithSubscriptions(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for role, name := range actors {
			if role == grants.RoleMaster || role == grants.RoleSite {
				continue
			}
			var exceeded int
			nc := b.Conn(t, role, name, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				exceeded++
			}))
			const tried = 5000
			for n := range tried {
				if _, err := nc.Subscribe(fmt.Sprintf("%s.%d", role.Inbox(name), n), func(*nats.Msg) {}); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if limit := int(grants.Permissions(role).Subscriptions); limit == 0 || tried-exceeded != limit {
				t.Errorf("%s: %d of %d subscriptions were taken, the limit is %d", role, tried-exceeded, tried, limit)
			}
		}
	})
}

// link publishes to the subject on a site's server until the bus has it. Before the bus has told the site's server what it
// permits, one message on another subject would end the connection between them.
func link(t *testing.T, url, subject string, linked <-chan struct{}) {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(time.Minute); ; {
		if err := nc.Publish(subject, []byte("linked")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-linked:
			return
		case <-again.C:
		case <-limit:
			t.Fatal("nothing that is published on the site's server reaches the bus after a minute")
		}
	}
}
