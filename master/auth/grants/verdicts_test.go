package grants_test

import (
	"slices"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// What each role may do is decided here once more, by hand, beside the table that grants it. Masters may publish and hear
// whatever is of zester, the buckets and the streams; what is said of them here is where that ends.
type roles = []grants.Role

var (
	nobody   = roles{}
	hosts    = roles{grants.RolePeel, grants.RoleSite}       // a site speaks and hears for its peels
	chiefs   = roles{grants.RoleOperator, grants.RoleDirect} // who dispatch without limits
	doers    = roles{grants.RoleOperator, grants.RoleDirect, grants.RoleLimited}
	readers  = roles{grants.RoleOperator, grants.RoleDirect, grants.RoleLimited, grants.RoleAuditor}
	directly = roles{grants.RoleDirect}
)

// withMember returns roles and that of members, who may ask for everything: masters decide what they are answered.
func withMember(may roles) roles { return append(slices.Clone(may), grants.RoleMember) }

// A kind is of subjects that differ in the name of who speaks or hears, and perhaps in the job.
type kind struct {
	of    func(jid wire.JID, name string) string
	speak roles // under their own name
	own   roles // hear what has their own name
	all   roles // hear what has any name
}

func named(of func(name string) string) func(wire.JID, string) string {
	return func(_ wire.JID, name string) string { return of(name) }
}

func job(of func(jid wire.JID) string) func(wire.JID, string) string {
	return func(jid wire.JID, _ string) string { return of(jid) }
}

func only(subject string) func(wire.JID, string) string {
	return func(wire.JID, string) string { return subject }
}

// subjects has every function and constant of peel/wire that names subjects, by its name there.
var subjects = map[string][]kind{
	"Cmd":             {{of: named(wire.Cmd), own: hosts}},
	"Fact":            {{of: named(wire.Fact), speak: hosts}},
	"Heartbeat":       {{of: named(wire.Heartbeat), speak: hosts}},
	"Settings":        {{of: named(wire.Settings), own: hosts}},
	"SettingsApplied": {{of: named(wire.SettingsApplied), speak: hosts}},
	"StateRunOf":      {{of: named(wire.StateRunOf), speak: hosts}},
	"ScheduleStateOf": {{of: named(wire.ScheduleStateOf), speak: hosts}},
	"SettingsKey":     {{of: named(wire.SettingsKey)}},
	"SettingsGet":     {{of: named(wire.SettingsGet), speak: hosts}},
	"ContentGet":      nil, // has no name; decided in stores
	"Inbox":           {{of: answersOf(wire.Inbox), own: hosts}},
	"UserInbox":       {{of: answersOf(wire.UserInbox), own: append(slices.Clone(readers), grants.RoleMember, grants.RoleObserver)}},
	"AckOf":           {{of: wire.AckOf, speak: hosts, all: chiefs}},
	"ReturnOf":        {{of: wire.ReturnOf, speak: hosts, all: chiefs}},
	"StoredOf":        {{of: wire.StoredOf, all: chiefs}},
	"ScheduledOf":     {{of: wire.ScheduledOf, speak: hosts, all: chiefs}},
	"DispatchOf":      {{of: job(wire.DispatchOf)}},
	"StatusOf":        {{of: job(wire.StatusOf), all: chiefs}},
	"CancelOf":        {{of: job(wire.CancelOf), all: hosts}},
	"AllOf":           {{of: job(wire.AllOf)}},
	"SaidBy":          {{of: named(wire.SaidBy)}},
	"Dispatch":        {{of: named(wire.Dispatch), speak: withMember(doers)}},
	"Resolve":         {{of: named(wire.Resolve), speak: withMember(doers)}},
	"API":             {{of: named(func(name string) string { return wire.API("nothing", "such", name) }), speak: withMember(chiefs)}},
	"Direct": {
		{of: named(func(name string) string { return wire.Direct("peel-a", name) }), speak: directly, all: roles{grants.RolePeel}}, // peel-a is the peel that tries
		{of: named(func(name string) string { return wire.Direct("other", name) }), speak: directly},
		{of: named(func(name string) string { return wire.Direct(name, "other") }), own: hosts},
	},
	"AnswerOf": {
		{of: named(func(name string) string { return wire.AnswerOf("other", "id", name) }), speak: hosts},
		{of: named(func(name string) string { return wire.AnswerOf("dan", "id", name) }), speak: hosts, all: directly}, // dan is the person who tries
		{of: named(func(name string) string { return wire.AnswerOf(name, "id", "other") }), own: directly},
	},

	"AllFacts":          {{of: only(wire.AllFacts)}},
	"AllHeartbeats":     {{of: only(wire.AllHeartbeats)}},
	"AllApplied":        {{of: only(wire.AllApplied)}},
	"AllStateRuns":      {{of: only(wire.AllStateRuns)}},
	"AllScheduleStates": {{of: only(wire.AllScheduleStates)}},
	"AllScheduled":      {{of: only(wire.AllScheduled), all: chiefs}},
	"AllDispatches":     {{of: only(wire.AllDispatches)}},
	"AllResolves":       {{of: only(wire.AllResolves)}},
	"AllCancels":        {{of: only(wire.AllCancels), all: hosts}},
	"BranchMoved":       {{of: only(wire.BranchMoved)}},

	"Sender": nil, // names a sender, no subject

	"NewInstance": nil, // names a process, no subject

	"KV":        nil, // names a stream; decided in stores
	"KVSubject": nil, // decided in stores
}

func answersOf(inbox func(string) string) func(wire.JID, string) string {
	return func(_ wire.JID, name string) string { return inbox(name) + ".x" }
}

// beyond are subjects that are named elsewhere.
var beyond = []kind{
	{of: only("zester.audit.job.dispatch")},
	{of: only("zester.audit.>")},
	{of: only("zester.coverage.*")},
	{of: named(func(name string) string { return "zester.coverage." + name })},
	{of: named(func(name string) string { return "zester.audit." + name })},
	{of: only("zester.nothing")},
	{of: only("zester.master.released")},
	{of: only("zester.>")},
	{of: only("zester.job.>")},
	{of: only("zester.stored.>")},
	{of: only("zester.api.>")},
	{of: only(wire.API("*", "*", "*"))}, // where the server itself listens for each account that imports it
	{of: named(func(name string) string { return "zester.*." + name })},
	{of: only("$KV.>")},
	{of: only("$JS.>")},
	{of: only("$JS.API.>")},
	{of: only("$JS.EVENT.>")},
}

// publishBeyond and hearBeyond end what masters may, or are of none of their subjects: here they are in the lists, too.
var (
	masters       = roles{grants.RoleMaster}
	publishBeyond = map[string]roles{
		"_INBOX_MASTER.other.x": masters, "_INBOX_MASTER.m1.x": masters, "_R_.x.y": masters,
		"$SRV.PING": nobody, "$SRV.INFO.zester-api": nobody, "$SYS.REQ.SERVER.PING": nobody, "$SYS.REQ.CLAIMS.UPDATE": nobody,
		"$O.revisions.x": nobody, "elsewhere": nobody, "Zester.dispatch.ann": nobody,
	}
	hearBeyond = map[string]roles{
		"_INBOX_MASTER.m1.>": masters, "_INBOX_MASTER.other.>": nobody, "_INBOX_MASTER.>": nobody, "_R_.>": nobody,
		"_INBOX.>": nobody, "_INBOX.*.x": nobody, "_INBOX.peel-a": nobody, "_INBOX_USER.>": nobody, "_INBOX_USER.*.x": nobody,
		"$SRV.PING": masters, "$SRV.>": masters, "$SYS.>": nobody, "$O.>": nobody,
		">": nobody, "*": nobody, "*.>": nobody, "*.*": nobody, "*.*.*": nobody, "elsewhere": nobody,
	}
)

// inspectsAll are the requests about all streams, and inspects those about one, with * for the consumer. Their replies
// have no message, and they change nothing.
var (
	inspectsAll = []string{"INFO", "STREAM.LIST", "STREAM.NAMES"}
	inspects    = []string{"STREAM.INFO.%s", "CONSUMER.LIST.%s", "CONSUMER.NAMES.%s", "CONSUMER.INFO.%s.c"}
	observers   = roles{grants.RoleObserver}
)

// stores says of every stream, and so of every bucket, what beside masters' share is allowed of it, or is not even
// theirs: by the subject below $JS.API, who may.
var stores = map[string]map[string]roles{
	"KV_settings": {"DIRECT.GET.KV_settings.$KV.settings.peel-a": {grants.RolePeel, grants.RoleMaster}}, // peel-a is the peel that tries
	"KV_files": { // every peel reads what is sealed, and the server takes a literal * as a pattern
		"DIRECT.GET.KV_files.$KV.files.blob.0": {grants.RolePeel, grants.RoleSite, grants.RoleMaster},
		"DIRECT.GET.KV_files.$KV.files.*.*":    {grants.RolePeel, grants.RoleSite, grants.RoleMaster},
		"DIRECT.GET.KV_files.$KV.files.blob":   {grants.RoleMaster}, "DIRECT.GET.KV_files.$KV.files.>": {grants.RoleMaster}, "DIRECT.GET.KV_files": {grants.RoleMaster},
		"DIRECT.GET.KV_files.$KV.settings.other.0": {grants.RoleMaster},
	},
	"KV_active":      {},
	"KV_jobs":        {},
	"KV_job-returns": {},
	"KV_masters":     {},
	"KV_leases":      {},
	"KV_rollout":     {},
	"KV_revisions":   {},
	"KV_alerts":      {},
	"KV_users":       {},
	"KV_roles":       {},
	"KV_enroll":      {},
	"KV_identities":  {},
	"KV_tokens":      {},
	"KV_sessions":    {},
	"KV_schedules":   {},
	"KV_held":        {},
	"job-events":     {},
	"facts":          {"DIRECT.GET.facts": {grants.RoleOperator, grants.RoleDirect, grants.RoleMaster}},
	"applied":        {},
	"states":         {},
	"schedule-state": {}, "coverage": {},
	"audit": {
		"STREAM.UPDATE.audit": nobody, "STREAM.DELETE.audit": nobody, "STREAM.PURGE.audit": nobody, "STREAM.MSG.DELETE.audit": nobody,
		"STREAM.RESTORE.audit": nobody, "STREAM.PEER.REMOVE.audit": nobody, "STREAM.LEADER.STEPDOWN.audit": nobody,
	},
}

// calls says of everything that masters serve who may ask it, under his own name, which ends the subject.
var calls = map[string]roles{
	"zester.dispatch": doers, "zester.target.resolve": doers,
	"zester.api.target.explain":   readers,
	"zester.api.coverage.explain": readers,
	"zester.api.job.list":         readers, "zester.api.job.show": readers, "zester.api.job.returns": readers, "zester.api.job.active": readers,
	"zester.api.job.groups": readers,
	"zester.api.job.cancel": doers, // masters let who has limits cancel his own alone
	"zester.api.peel.list":  readers, "zester.api.peel.show": readers, "zester.api.peel.rekey": chiefs,
	"zester.api.coverage.list": readers, "zester.api.coverage.show": readers, "zester.api.coverage.status": readers,
	"zester.api.problem.list": readers, "zester.api.timeline.show": readers, "zester.api.load.show": readers,
	"zester.api.now.show": readers, "zester.api.approval.list": readers,
	"zester.api.master.show": readers, "zester.api.entry.show": readers, "zester.api.audit.list": readers,
	"zester.api.agent.record":  readers, // what an assistant does in their own names
	"zester.api.schedule.list": readers, "zester.api.schedule.add": chiefs, "zester.api.schedule.remove": chiefs, "zester.api.schedule.enable": chiefs, "zester.api.schedule.disable": chiefs,
	"zester.api.schedule.file": chiefs, "zester.api.schedule.replace": chiefs,
	"zester.api.alert.list": readers, "zester.api.alert.status": readers, "zester.api.alert.silence": chiefs, "zester.api.alert.unsilence": chiefs, "zester.api.alert.test": chiefs,
	"zester.api.hold.list": readers, "zester.api.hold.show": readers, // masters show who has limits his own alone
	"zester.api.hold.add": doers, "zester.api.hold.reject": doers, "zester.api.hold.approve": chiefs,
	"zester.api.credential.list": readers,
	"zester.api.token.list":      readers, "zester.api.token.create": chiefs, "zester.api.token.rotate": chiefs, "zester.api.token.revoke": chiefs,
	"zester.api.session.list": readers, "zester.api.session.create": readers, "zester.api.session.end": readers, "zester.api.user.renew": readers,
	"zester.api.user.login":  readers, // masters refuse it from the bus
	"zester.api.user.logout": readers,
	"zester.api.user.list":   readers, "zester.api.user.explain": readers, "zester.api.user.add": chiefs, "zester.api.user.revoke": chiefs,
	"zester.api.access.list": readers, // masters show it to nobody with limits
	"zester.api.role.list":   readers, "zester.api.role.set": chiefs, "zester.api.role.remove": chiefs,
	"zester.api.enroll.list": readers, "zester.api.enroll.approve": chiefs, "zester.api.enroll.reject": chiefs, "zester.api.enroll.revoke": chiefs,
	"zester.api.join.list": readers, "zester.api.join.create": chiefs, "zester.api.join.revoke": chiefs,
	"zester.api.site.revoke": chiefs, "zester.api.master.revoke": chiefs,
	"zester.api.master.renew": chiefs, // a reply is of use to the holder of the key alone, who proves that
	"zester.api.auth.rotate":  chiefs, "zester.api.auth.retire": chiefs,
	"zester.api.bus.show": readers, "zester.api.bus.set": chiefs,
	"zester.api.sync.status": readers, "zester.api.sync.history": readers, "zester.api.sync.peels": readers, "zester.api.sync.states": readers, "zester.api.sync.groups": readers, "zester.api.sync.plan": readers, "zester.api.sync.diff": {grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor}, "zester.api.sync.commit": {grants.RoleOperator, grants.RoleDirect, grants.RoleAuditor},
	"zester.api.sync.now": chiefs, "zester.api.sync.approve": chiefs, "zester.api.sync.pause": chiefs, "zester.api.sync.resume": chiefs,
	"zester.api.sync.pin": chiefs, "zester.api.sync.unpin": chiefs, "zester.api.sync.retry": chiefs, "zester.api.sync.adopt": chiefs, "zester.api.sync.remove": chiefs,
}
