package auth_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const jid = wire.JID("2abcdefghijklmnopqrstuvwxyz")

// actors are who tries; each probe names the roles for which it must work.
var actors = map[auth.Role]string{
	auth.RolePeel:     "peel-a",
	auth.RoleOperator: "ann",
	auth.RoleDirect:   "dan",
	auth.RoleLimited:  "lee",
	auth.RoleAuditor:  "eve",
	auth.RoleMaster:   "m1",
}

var (
	nobody   = []auth.Role{}
	masters  = []auth.Role{auth.RoleMaster}
	peels    = []auth.Role{auth.RolePeel, auth.RoleMaster}
	people   = []auth.Role{auth.RoleOperator, auth.RoleDirect, auth.RoleMaster} // what is the same for all that dispatch without limits
	ann      = []auth.Role{auth.RoleOperator, auth.RoleMaster}
	dan      = []auth.Role{auth.RoleDirect, auth.RoleMaster}
	limited  = []auth.Role{auth.RoleLimited, auth.RoleMaster}
	hearers  = []auth.Role{auth.RoleOperator, auth.RoleDirect, auth.RoleLimited, auth.RoleMaster}
	auditors = []auth.Role{auth.RoleAuditor, auth.RoleMaster}
)

type probes map[string][]auth.Role // by subject

func publishes() probes {
	p := probes{
		wire.Dispatch("ann"): ann, wire.Dispatch("dan"): dan, wire.Dispatch("bob"): masters, "zester.dispatch": masters,
		wire.Resolve("ann"): ann, wire.Resolve("dan"): dan, wire.Resolve("bob"): masters, wire.Resolve("eve"): masters,
		wire.Direct("peel-a", "dan"): dan, wire.Direct("peel.a", "dan"): masters, wire.Direct("peel-a", "ann"): masters, wire.Direct("peel-b", "peel-a"): masters,
		wire.API("job", "list", "ann"): ann, wire.API("sync", "now", "dan"): dan, wire.API("job", "list", "bob"): masters, wire.API("job", "list", "eve"): auditors,
		wire.API("job", "cancel", "ann"): ann, wire.API("job", "cancel", "eve"): masters,
		wire.Dispatch("lee"): limited, wire.Resolve("lee"): limited, wire.API("job", "list", "lee"): limited, wire.API("job", "cancel", "lee"): limited,
		wire.API("token", "create", "lee"): masters, wire.API("user", "add", "lee"): masters, wire.API("sync", "approve", "lee"): masters,
		wire.API("sync", "pause", "lee"): masters, wire.API("user", "add", "ann"): ann, wire.API("user", "revoke", "eve"): masters,
		"$KV.users.lee":                 masters,
		wire.API("job", "retry", "eve"): masters, wire.API("sync", "now", "eve"): masters, wire.API("job", "list", "peel-a"): masters,
		wire.CancelOf(jid): masters, wire.DispatchOf(jid): masters, wire.StatusOf(jid): masters,
		"$KV.jobs." + string(jid): masters, "$KV.jobs.active." + string(jid): masters,
		"$KV.job-returns." + string(jid) + ".peel-a": masters,
		"$KV.masters.m2": masters, "$KV.leases.reconciler": masters, "$KV.rollout.r": masters,
		"$KV.tokens.ci": masters, wire.API("token", "create", "ann"): ann, wire.API("token", "create", "eve"): masters,
		"$JS.ACK.job-events.schedule-results.1.1.1.1.0": masters,
		"$JS.API.DIRECT.GET.facts":                      people,
		"$JS.API.DIRECT.GET.facts.zester.fact.peel-b":   masters,
		"$JS.API.DIRECT.GET.KV_settings.$KV.settings.*": masters,
		"$SRV.PING": nobody, "$SYS.REQ.SERVER.PING": nobody, "$SYS.REQ.CLAIMS.UPDATE": nobody, "$O.revisions.x": nobody,
		"_INBOX.peel-a.x": nobody, "_INBOX.peel-b.x": nobody, "_INBOX_USER.ann.x": nobody, "_INBOX_MASTER.m2.x": masters,
		"elsewhere": nobody,
	}
	for _, verb := range []string{"list", "show", "status"} {
		for _, noun := range []string{"job", "peel", "sync", "target"} {
			p[wire.API(noun, verb, "eve")] = auditors
		}
	}
	for _, of := range senderSubjects() {
		p[of("peel-a")], p[of("peel-b")], p[of("peel-a.x")] = peels, masters, masters
	}
	for _, of := range []func(string) string{wire.Cmd, wire.Settings, wire.SettingsKey} {
		p[of("peel-a")], p[of("peel-b")] = masters, masters
	}
	for _, stream := range []string{"KV_settings", "KV_jobs", "KV_job-returns", "KV_leases", "KV_users", "KV_tokens", "job-events", "facts", "applied"} {
		for _, api := range []string{
			"STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.GET", "STREAM.MSG.DELETE",
			"STREAM.SNAPSHOT", "STREAM.RESTORE", "CONSUMER.CREATE", "CONSUMER.NAMES", "CONSUMER.LIST", "DIRECT.GET",
		} {
			if api != "DIRECT.GET" || stream != "facts" {
				p["$JS.API."+api+"."+stream] = masters
			}
		}
		p["$JS.API.CONSUMER.CREATE."+stream+".c.$KV.settings.peel-a"] = masters
		p["$JS.API.CONSUMER.DURABLE.CREATE."+stream+".c"] = masters
		p["$JS.API.CONSUMER.MSG.NEXT."+stream+".schedule-results"] = masters
		p["$JS.API.CONSUMER.DELETE."+stream+".schedule-results"] = masters
		p["$JS.API.DIRECT.GET."+stream+".$KV.settings.peel-b"] = masters
	}
	for _, api := range []string{"STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.DELETE"} {
		p["$JS.API."+api+".audit"] = nobody
	}
	p["$JS.API.STREAM.INFO.audit"], p["$JS.API.STREAM.MSG.GET.audit"], p["zester.audit.job.dispatch"] = masters, masters, masters
	p[wire.API("audit", "list", "ann")], p[wire.API("audit", "list", "eve")], p[wire.API("audit", "list", "lee")] = ann, auditors, limited
	for _, api := range []string{"INFO", "STREAM.NAMES", "STREAM.LIST", "ACCOUNT.PURGE.x", "META.LEADER.STEPDOWN"} {
		p["$JS.API."+api] = masters
	}
	return p
}

// senderSubjects are all on which a peel speaks.
func senderSubjects() []func(string) string {
	return []func(string) string{
		func(p string) string { return wire.AckOf(jid, p) },
		func(p string) string { return wire.ReturnOf(jid, p) },
		func(p string) string { return wire.ScheduledOf(jid, p) },
		wire.Fact, wire.Heartbeat, wire.SettingsApplied, wire.SettingsGet,
	}
}

func subscriptions() probes {
	p := probes{
		wire.CancelOf(jid): peels, wire.CancelOf("*"): peels,
		wire.Heartbeat("peel-a"): peels, wire.Heartbeat("peel-b"): masters,
		wire.Direct("peel-a", "*"): peels, wire.Direct("peel-a", "dan"): peels, wire.Direct("peel-b", "*"): masters, wire.Direct("*", "dan"): masters,
		wire.AckOf("*", "*"): hearers, wire.ReturnOf("*", "*"): hearers, wire.ScheduledOf(jid, "*"): hearers, wire.ScheduledOf("*", "*"): hearers,
		wire.StatusOf("*"): hearers, wire.DispatchOf("*"): masters,
		wire.ReturnOf("*", "peel-a"): hearers, wire.AckOf(jid, "peel-b"): hearers,
		"zester.job.>": masters, wire.AllDispatches: masters, wire.AllResolves: masters, "zester.api.>": masters,
		wire.AllFacts: masters, wire.AllHeartbeats: masters, wire.AllApplied: masters, wire.Fact("peel-a"): masters,
		"_INBOX.peel-a.>": {auth.RolePeel}, "_INBOX.peel-b.>": nobody, "_INBOX.peel-a": nobody, "_INBOX.>": nobody, "_INBOX.*.x": nobody,
		"_INBOX_USER.ann.>": {auth.RoleOperator}, "_INBOX_USER.dan.>": {auth.RoleDirect}, "_INBOX_USER.eve.>": {auth.RoleAuditor}, "_INBOX_USER.lee.>": {auth.RoleLimited}, "_INBOX_USER.bob.>": nobody, "_INBOX_USER.>": nobody,
		"_INBOX_MASTER.m1.>": masters, "_INBOX_MASTER.m2.>": nobody, "_INBOX_MASTER.>": nobody,
		">": nobody, "*": nobody, "*.>": nobody, "*.*.*": nobody, "zester.>": masters, "zester.*.peel-b": masters,
		"$KV.>": masters, "$KV.settings.>": masters, "$KV.jobs.>": masters, "$KV.settings.peel-a": masters, "$KV.settings.peel-b": masters,
		"$JS.>": masters, "$JS.EVENT.>": masters, "$JS.API.>": masters, "$SYS.>": nobody, "$SRV.PING": masters, "_R_.>": nobody,
	}
	for _, of := range []func(string) string{wire.Cmd, wire.Settings} {
		p[of("peel-a")], p[of("peel-b")], p[of("*")], p[of(">")] = peels, masters, masters, masters
	}
	return p
}

// party is a connection that counts its refusals.
type party struct {
	*nats.Conn

	mu      sync.Mutex
	refused int
}

func connect(t *testing.T, b *natstest.Bus, role auth.Role, name string) *party {
	p := &party{}
	p.Conn = b.Conn(t, role, name, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", name, err)
		}
		p.refused++
	}))
	return p
}

// allows reports whether the server let through what try sent.
func (p *party) allows(t *testing.T, try func() error) bool {
	t.Helper()
	p.mu.Lock()
	before := p.refused
	p.mu.Unlock()
	if err := try(); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused == before
}

func (p *party) allowsPublish(t *testing.T, subject string) bool {
	t.Helper()
	return p.allows(t, func() error { return p.PublishMsg(&nats.Msg{Subject: subject, Data: []byte("probe")}) })
}

func (p *party) allowsSubscribe(t *testing.T, subject, queue string) bool {
	t.Helper()
	return p.allows(t, func() error {
		sub, err := p.QueueSubscribeSync(subject, queue)
		if err == nil {
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
		return err
	})
}

func TestEveryRoleMayDoExactlyItsShare(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for role, name := range actors {
			p := connect(t, b, role, name)
			for subject, roles := range publishes() {
				if got, want := p.allowsPublish(t, subject), slices.Contains(roles, role); got != want {
					t.Errorf("%s publishes to %s: allowed %v, want %v", role, subject, got, want)
				}
			}
			for subject, roles := range subscriptions() {
				for _, queue := range []string{"", wire.MastersQueue} {
					if got, want := p.allowsSubscribe(t, subject, queue), slices.Contains(roles, role); got != want {
						t.Errorf("%s subscribes to %s (queue %q): allowed %v, want %v", role, subject, queue, got, want)
					}
				}
			}
		}
	})
}

// Whatever is in the table is probed above, so that no grant comes without a decision who else may not.
func TestEveryGrantIsProbed(t *testing.T) {
	for role, name := range actors {
		g := auth.Permissions(role)
		for kind, p := range map[string]struct {
			grants []string
			probes probes
		}{"publish": {g.Publish, publishes()}, "subscribe": {g.Subscribe, subscriptions()}} {
			if len(p.grants) == 0 {
				t.Errorf("%s: no grant to %s, which to the server means all", role, kind)
			}
			for _, grant := range p.grants {
				own := jwt.Subject(strings.ReplaceAll(grant, "{{name()}}", name))
				probed := false
				for subject, roles := range p.probes {
					probed = probed || slices.Contains(roles, role) && jwt.Subject(subject).IsContainedIn(own)
				}
				if !probed && !readVerb(grant) && grant != "_R_.>" {
					t.Errorf("%s: grant to %s %s is not probed", role, kind, grant)
				}
			}
		}
	}
}

// readVerb is true for an auditor's grants, which differ in the verb alone.
func readVerb(grant string) bool {
	return strings.HasPrefix(grant, "zester.api.*.") && !strings.HasPrefix(grant, "zester.api.*.*.")
}

func TestAGrantWithAnothersNameInItIsRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for role, name := range actors {
			if role == auth.RoleMaster {
				continue
			}
			p, g := connect(t, b, role, name), auth.Permissions(role)
			for _, other := range []string{"other", name + "x", name[:1], strings.ToUpper(name)} {
				for _, grant := range g.Publish {
					if s := instance(grant, other); s != instance(grant, name) && p.allowsPublish(t, s) {
						t.Errorf("%s may publish to %s", name, s)
					}
				}
			}
			for _, other := range []string{"other", name + "x", "*", ">"} {
				for _, grant := range g.Subscribe {
					s := strings.ReplaceAll(grant, "{{name()}}", other)
					s, _, wild := strings.Cut(s, ">.>")
					if wild {
						s += ">"
					}
					if strings.Contains(grant, "{{name()}}") && p.allowsSubscribe(t, s, "") {
						t.Errorf("%s may subscribe to %s", name, s)
					}
				}
			}
		}
	})
}

// instance is a subject that a grant covers for one name.
func instance(grant, name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(grant, "{{name()}}", name), "*", string(jid))
}

func TestWithoutACredentialOfThisBusNobodyConnects(t *testing.T) {
	other, err := auth.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.Creds(auth.RoleMaster, "m1", 0)
	if err != nil {
		t.Fatal(err)
	}
	b := natstest.Listen(t)
	for what, opt := range map[string]nats.Option{
		"no credential":          nats.Name("anybody"),
		"a password":             nats.UserInfo("zester", "zester"),
		"another bus's operator": nats.UserCredentialBytes(stranger),
	} {
		nc, err := nats.Connect(b.URL(), opt)
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			nc.Close()
		}
	}
}
