// Package grants says what each party may do: [Permissions] which subjects a [Role] may use on the bus, by the verbs of
// package access, and [Evaluate] which jobs a person may start. [CallerOf] names the sender of a request.
//
// The name in a credential is the identity: it is the last token of every subject on which its owner publishes. The
// server puts it into the grants, so [CheckName] refuses names that hold a wildcard or more than one token.
//
// A server checks the subject of a message, but not the reply subject to which the receiver is to answer. In one
// account with the streams, a peel could aim the server's answer to a bad request at an API and so delete a bucket.
// Therefore the streams are in the account of the masters alone. [Exports] and [Imports] pass exactly the subjects of
// the table between the accounts: as services to masters, as streams from them. People of [RoleDirect] send requests to
// peels by a service, too; a peel may answer there once, which is all that it may publish.
//
// Guarantees: the table is the only source of what the signing keys grant; a test tries every subject, bucket, stream
// and call as every role. Limits are checked by masters at each dispatch.
//
// Known gap: an answer to a direct request can be aimed at another party of the same account, whose decoder refuses it
// by its headers.
package grants

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A Role says what kind of party a credential belongs to.
type Role string

// The roles. Each has a signing key of its own.
const (
	RolePeel     Role = "peel"
	RoleOperator Role = "operator" // dispatches and reads, and hears all returns
	RoleDirect   Role = "direct"   // an operator who may also ask peels without a master
	RoleLimited  Role = "limited"  // an operator with [Limits]: dispatches and reads within them
	RoleAuditor  Role = "auditor"  // reads
	// RoleMember is a person for whom masters decide each request by the rules of the person's own roles and groups.
	RoleMember Role = "member"
	// RoleObserver inspects streams and consumers with the nats command. It reads no message, and asks no master.
	RoleObserver Role = "observer"
	RoleMaster   Role = "master" // masters and the reconciler
	// RoleSite is a server at a site that connects the peels of the site to the bus as a leaf node. Its credential
	// names the peels, is valid in their account, and grants exactly what they may publish and subscribe to.
	RoleSite Role = "site"
)

// Roles returns the roles that have an account of their own.
func Roles() []Role { return slices.Clone(roles) }

var roles = []Role{RolePeel, RoleOperator, RoleDirect, RoleLimited, RoleAuditor, RoleMember, RoleObserver, RoleMaster}

// Account returns the role whose account holds the credentials of r.
func (r Role) Account() Role {
	if r == RoleSite {
		return RolePeel
	}
	return r
}

// IsPerson reports whether credentials of the role belong to people. Their names are unique across these roles, because
// masters know a person by the name alone.
func (r Role) IsPerson() bool {
	return slices.Contains([]Role{RoleOperator, RoleDirect, RoleLimited, RoleAuditor, RoleMember, RoleObserver}, r)
}

// IsNarrow reports whether masters check more than the role: people of the role have limits or rules of their own. They
// see and end only what is theirs where there is no rule about it.
func (r Role) IsNarrow() bool { return r == RoleLimited || r == RoleMember }

// self stands in a grant for the name in the credential; the server puts it there when a connection is made.
const self = "{{name()}}"

// ofSite stands in a grant for each of the peels that a credential of [RoleSite] names in its tags.
const ofSite = "{{tag(peel)}}"

// MaxSitePeels bounds the peels that a credential of a site names. A server makes at most 4,096 permissions of each
// kind from a credential, and a peel has ten subjects of its own to publish on, beside one that all peels share.
const MaxSitePeels = 400

// Tags returns the tags of a credential, for [CallerOf], [PeelOf] and the permissions of a site: its role, and the
// names on the bus of the peels of a site.
func Tags(r Role, wireIDs ...string) []string {
	tags := []string{roleTag + string(r)}
	for _, id := range wireIDs {
		tags = append(tags, "peel:"+id)
	}
	return tags
}

// Grants are the subjects that a role may use. The server refuses all others. Both lists of every role are non-empty,
// because to NATS an empty list means everything. No role may publish to the reply subject of a message it receives
// ("allow_responses" in NATS): whoever can have a message sent to itself with a reply of its choice could then publish
// anywhere.
type Grants struct {
	Publish, Subscribe []string
	Except             []string // subjects that may not be published although Publish covers them
	// Subscriptions bounds how many subscriptions a connection may have at a time, 0: no limit. Each takes the server
	// about 1 KiB of memory.
	Subscriptions int64
}

const (
	peelSubscriptions   = 32 // a peel has five, and one for answers
	personSubscriptions = 1024
)

// Permissions returns the permissions of a role, with "{{name()}}" for the name in the credential, and "{{tag(peel)}}"
// for each peel of a site. It is the only such table: the templates of the signing keys, and the subjects that pass
// between accounts, are made from it. An unknown role gets no permissions.
func Permissions(r Role) Grants {
	switch r {
	case RolePeel:
		return peelGrants(self)
	case RoleSite:
		return siteGrants()
	case RoleOperator:
		return operatorGrants(r)
	case RoleDirect:
		g := operatorGrants(r)
		g.Publish = append(g.Publish, wire.Direct("*", self))
		g.Subscribe = append(g.Subscribe, wire.AnswerOf(self, "*", "*"))
		return g
	case RoleLimited, RoleAuditor, RoleMember:
		return askerGrants(r)
	case RoleObserver:
		return observerGrants()
	case RoleMaster:
		return masterGrants()
	}
	return Grants{Publish: []string{"_NONE"}, Subscribe: []string{"_NONE"}}
}

func peelGrants(peel string) Grants {
	return Grants{
		Publish: []string{
			wire.AckOf("*", peel),
			wire.ReturnOf("*", peel),
			wire.ScheduledOf("*", peel),
			wire.Fact(peel),
			wire.Heartbeat(peel),
			wire.SettingsApplied(peel),
			wire.StateRunOf(peel),
			wire.ScheduleStateOf(peel),
			wire.SettingsGet(peel),
			wire.ContentGet("*.*"), // of any peel: contents are sealed, and only settings have the keys
			wire.AnswerOf("*", "*", peel),
		},
		Subscribe: []string{
			wire.Cmd(peel),
			wire.Settings(peel),
			wire.CancelOf("*"),
			wire.Direct(peel, "*"),
			RolePeel.Inbox(peel) + ".>",
		},
		Subscriptions: peelSubscriptions,
	}
}

func siteGrants() Grants {
	g := peelGrants(ofSite)
	g.Subscriptions = MaxSitePeels * peelSubscriptions
	return g
}

func operatorGrants(r Role) Grants {
	return Grants{
		Publish: append(asks(r), factsGet),
		Subscribe: []string{
			wire.AckOf("*", "*"),
			wire.ReturnOf("*", "*"),
			wire.StoredOf("*", "*"),
			wire.ScheduledOf("*", "*"),
			wire.StatusOf("*"),
			r.Inbox(self) + ".>",
		},
		Subscriptions: personSubscriptions,
	}
}

// asks returns the subjects on which people of a role send requests to masters.
func asks(r Role) (subjects []string) {
	for _, pattern := range access.Sent(string(r)) {
		switch noun, verb, _ := strings.Cut(pattern, "."); pattern {
		case string(access.Dispatch):
			subjects = append(subjects, wire.Dispatch(self))
		case "target.resolve":
			subjects = append(subjects, wire.Resolve(self))
		case "*":
			subjects = append(subjects, wire.Dispatch(self), wire.Resolve(self), wire.API("*", "*", self))
		default:
			subjects = append(subjects, wire.API(noun, verb, self))
		}
	}
	return subjects
}

// factsGet reads from the stream of facts, by sequence and in batches, so that a target resolves without a master.
const factsGet = "$JS.API.DIRECT.GET.facts"

// askerGrants are of people who receive nothing but replies.
func askerGrants(r Role) Grants {
	return Grants{Publish: asks(r), Subscribe: []string{r.Inbox(self) + ".>"}, Subscriptions: personSubscriptions}
}

// observerGrants have an account of their own, so that the server chooses the subjects of replies: in the account of
// the masters an observer could have the reply to its request stored as a record.
func observerGrants() Grants {
	return Grants{
		Publish: []string{
			"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.*",
			"$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.NAMES.*", "$JS.API.CONSUMER.INFO.*.*",
		},
		Subscribe:     []string{RoleObserver.Inbox(self) + ".>"},
		Subscriptions: personSubscriptions,
	}
}

// masterGrants are for the account in which all streams live. Answers to other roles go to names that the server
// makes up for each request and translates back ("_R_").
func masterGrants() Grants {
	return Grants{
		Publish: []string{
			"zester.>", "$KV.>", "$JS.>", "_R_.>",
			RoleMaster.Inbox("*") + ".>",
		},
		Subscribe: []string{
			"zester.>", "$KV.>", "$JS.>",
			"$SRV.>", // on which the service framework answers what runs where
			RoleMaster.Inbox(self) + ".>",
		},
		Except: exceptAudit,
	}
}

// exceptAudit are the requests that remove entries of the audit log, or change how long the bus keeps them. Masters may
// only create the stream and add entries.
var exceptAudit = []string{
	"$JS.API.STREAM.UPDATE.audit", "$JS.API.STREAM.DELETE.audit", "$JS.API.STREAM.PURGE.audit",
	"$JS.API.STREAM.MSG.DELETE.audit",
	"$JS.API.STREAM.RESTORE.audit", "$JS.API.STREAM.PEER.REMOVE.audit", "$JS.API.STREAM.LEADER.STEPDOWN.audit",
}

// AuditKeeper returns the permissions to change how long the bus keeps the audit log, and in how many copies. No
// signing key grants them: whoever has the keys of the accounts makes a credential that lasts for one request.
func AuditKeeper() Grants {
	return Grants{
		Publish:   []string{"$JS.API.STREAM.INFO.audit", "$JS.API.STREAM.UPDATE.audit"},
		Subscribe: []string{KeeperInbox + ".>"},
	}
}

// Archiver returns the permissions to read all streams as a whole, for a backup. No signing key grants them.
func Archiver() Grants {
	return Grants{
		Publish:   []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.SNAPSHOT.*", "$JS.SNAPSHOT.ACK.>"},
		Subscribe: []string{KeeperInbox + ".>"},
	}
}

// Restorer returns the permissions to make streams from a backup, also the audit log. The server refuses to replace
// a stream that exists. No signing key grants them.
func Restorer() Grants {
	return Grants{
		Publish:   []string{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.RESTORE.*", "$JS.SNAPSHOT.RESTORE.>"},
		Subscribe: []string{KeeperInbox + ".>"},
	}
}

// KeeperInbox begins the subjects on which a party with [AuditKeeper], [Archiver] or [Restorer] gets replies.
const KeeperInbox = "_INBOX_KEEPER"

// Inbox returns the prefix of the subjects on which a party gets answers, for [nats.CustomInboxPrefix].
func (r Role) Inbox(name string) string {
	switch r {
	case RolePeel:
		return wire.Inbox(name)
	case RoleMaster:
		return "_INBOX_MASTER." + name
	default:
		return wire.UserInbox(name)
	}
}
