package grants

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// AccountName returns the name of a role's account, for people.
func AccountName(r Role) string { return strings.ToUpper(string(r)) }

// siteConnections are the kinds of connection for which a credential of [RoleSite] is valid: a copy of it is of no use to an
// ordinary client. Tests of its grants are such clients, and change this.
var siteConnections = jwt.StringList{jwt.ConnectionTypeLeafnode}

// UserScope returns the permissions of all users whose JWT is signed with the signing key of a role, given by its public half.
func UserScope(r Role, signer string) *jwt.UserScope {
	grants := Permissions(r)
	scope := jwt.NewUserScope()
	scope.Key = signer
	scope.Role = string(r)
	scope.Template.Pub.Allow.Add(grants.Publish...)
	scope.Template.Sub.Allow.Add(grants.Subscribe...)
	scope.Template.Pub.Deny.Add(grants.Except...)
	if grants.Subscriptions > 0 {
		scope.Template.Limits.Subs = grants.Subscriptions
	}
	if r == RoleSite {
		scope.Template.AllowedConnectionTypes = siteConnections
	}
	return scope
}

// Digest identifies what this version grants: the templates of all roles, and what passes between their accounts.
var Digest = sync.OnceValue(func() string {
	h := sha256.New()
	table := json.NewEncoder(h)
	for _, r := range append(slices.Clone(roles), RoleSite) {
		_ = table.Encode(UserScope(r, "").Template) // a hash takes everything
	}
	for _, r := range roles {
		_ = table.Encode(Exports(r))
	}
	return hex.EncodeToString(h.Sum(nil))
})

// peelAnswerTime is how long the server keeps the reply subject of what a peel sends, about 700 bytes for each message. A
// peel waits 5 s for an answer. The server's default of two minutes lets one peel fill the memory of the bus.
const peelAnswerTime = 10 * time.Second

// Exports returns the subjects on which other accounts may publish to a role's account and receive from it. Requests to
// masters are services: the server routes the reply back to the account of the request. Everything else is a stream, direct
// requests to peels and their answers included.
func Exports(r Role) jwt.Exports {
	var in, out []jwt.Subject
	for _, other := range roles {
		in = append(in, services(other, r)...)
		out = append(out, between(r, other)...)
	}
	var e jwt.Exports
	for _, s := range widest(in) {
		x := &jwt.Export{Name: string(s), Subject: s, Type: jwt.Service}
		if s == factsGet {
			x.ResponseType = jwt.ResponseTypeStream
		}
		if slices.Contains(said(RolePeel), s) {
			x.ResponseThreshold = peelAnswerTime
		}
		e.Add(x)
	}
	for _, s := range widest(out) {
		e.Add(&jwt.Export{Name: string(s), Subject: s, Type: jwt.Stream})
	}
	return e
}

// Imports returns the subjects on which a role's account publishes to the accounts of other roles and receives from them.
// accounts has the public keys of all accounts.
func Imports(r Role, accounts map[Role]string) jwt.Imports {
	var i jwt.Imports
	for _, other := range roles {
		for _, s := range services(r, other) {
			// With Share the server tells masters the connection of the request, see [CallerOf].
			share := other == RoleMaster && r.IsPerson()
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: accounts[other], Type: jwt.Service, Share: share})
		}
		for _, s := range between(other, r) {
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: accounts[other], Type: jwt.Stream})
		}
	}
	return i
}

// between returns the subjects on which one role receives messages of another, in another account. Masters receive requests
// as services, and take no part in direct requests.
func between(speaker, listener Role) []jwt.Subject {
	if speaker == listener || listener == RoleMaster {
		return nil
	}
	said := said(speaker)
	return slices.DeleteFunc(streams(listener), func(s jwt.Subject) bool {
		return speaker == RoleMaster && isDirect(s) || !slices.ContainsFunc(said, func(p jwt.Subject) bool { return covers(p, s) })
	})
}

// services returns the subjects on which a role sends requests to masters, which are in another account.
func services(caller, server Role) []jwt.Subject {
	if caller == server || server != RoleMaster {
		return nil
	}
	return slices.DeleteFunc(said(caller), isDirect)
}

// isDirect reports whether a subject carries direct requests to peels, or the answers to them.
func isDirect(s jwt.Subject) bool {
	return s.IsContainedIn(jwt.Subject(wire.Direct("*", "*"))) || s.IsContainedIn(jwt.Subject(wire.AnswerOf("*", "*", "*")))
}

// said is what a role publishes, whatever its users' names.
func said(r Role) []jwt.Subject { return slices.Clone(published()[r]) }

// published is worked out once: all accounts are made of it, each from those of all others.
var published = sync.OnceValue(func() map[Role][]jwt.Subject {
	all := map[Role][]jwt.Subject{}
	for _, r := range roles {
		all[r] = anyName(Permissions(r).Publish)
	}
	return all
})

// streams returns the subjects that a role receives from other accounts. Inboxes are left out: a reply comes back by the
// service of its request. So are subjects that the role itself publishes: it receives them in its own account.
func streams(r Role) []jwt.Subject {
	inbox, own := r.Inbox(self), said(r)
	heard := slices.DeleteFunc(Permissions(r).Subscribe, func(s string) bool { return strings.HasPrefix(s, inbox) })
	return slices.DeleteFunc(anyName(heard), func(s jwt.Subject) bool { return slices.Contains(own, s) })
}

func anyName(grants []string) []jwt.Subject {
	var subjects []jwt.Subject
	for _, g := range grants {
		subjects = append(subjects, jwt.Subject(strings.ReplaceAll(g, self, "*")))
	}
	return widest(subjects)
}

// widest drops what another of the subjects covers, because the server refuses overlaps.
func widest(subjects []jwt.Subject) []jwt.Subject {
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	return slices.DeleteFunc(slices.Clone(subjects), func(s jwt.Subject) bool {
		return slices.ContainsFunc(subjects, func(other jwt.Subject) bool { return s != other && covers(other, s) })
	})
}

// covers asks the library only about wildcards, because it splits both subjects each time.
func covers(wide, s jwt.Subject) bool {
	return wide == s || strings.ContainsAny(string(wide), "*>") && s.IsContainedIn(wide)
}
