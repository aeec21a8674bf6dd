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

// siteConnections are the kinds of connection for which a credential of [RoleSite] is valid: a copy of it is of no use
// to an ordinary client. Tests of its grants are such clients, and change this.
var siteConnections = jwt.StringList{jwt.ConnectionTypeLeafnode}

// UserScope returns the permissions of all users whose JWT is signed with the signing key of a role, given by its
// public half.
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

// Digest returns a hash of all permissions of this version: the templates of all roles, and the exports between their
// accounts.
var Digest = sync.OnceValue(func() string {
	h := sha256.New()
	table := json.NewEncoder(h)
	for _, r := range append(slices.Clone(roles), RoleSite) {
		_ = table.Encode(UserScope(r, "").Template) // writing to a hash does not fail
	}
	for _, r := range roles {
		_ = table.Encode(Exports(r))
	}
	return hex.EncodeToString(h.Sum(nil))
})

// peelReplyTime is how long the server keeps the reply subject of a request of a peel, which takes about 700 bytes. A
// peel waits 5 s for a reply. With the default of two minutes one peel could fill the memory of the server.
const peelReplyTime = 10 * time.Second

// Exports returns the subjects on which other accounts may publish to a role's account and receive from it. Requests to
// masters are services: the server routes the reply back to the account of the request. All other subjects are streams,
// also direct requests to peels and their answers.
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
		if slices.Contains(publishedBy(RolePeel), s) {
			x.ResponseThreshold = peelReplyTime
		}
		e.Add(x)
	}
	for _, s := range widest(out) {
		e.Add(&jwt.Export{Name: string(s), Subject: s, Type: jwt.Stream})
	}
	return e
}

// Imports returns the subjects on which a role's account publishes to the accounts of other roles and receives from
// them. accounts has the public keys of all accounts.
func Imports(r Role, accounts map[Role]string) jwt.Imports {
	var i jwt.Imports
	for _, other := range roles {
		for _, s := range services(r, other) {
			// With Share the server adds the connection of the request, see [CallerOf].
			share := other == RoleMaster && r.IsPerson()
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: accounts[other], Type: jwt.Service, Share: share})
		}
		for _, s := range between(other, r) {
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: accounts[other], Type: jwt.Stream})
		}
	}
	return i
}

// between returns the subjects on which one role receives messages of another, in another account. Masters receive
// requests as services, and neither send nor receive direct requests.
func between(sender, receiver Role) []jwt.Subject {
	if sender == receiver || receiver == RoleMaster {
		return nil
	}
	sent := publishedBy(sender)
	return slices.DeleteFunc(streams(receiver), func(s jwt.Subject) bool {
		return sender == RoleMaster && isDirect(s) ||
			!slices.ContainsFunc(sent, func(p jwt.Subject) bool { return covers(p, s) })
	})
}

// services returns the subjects on which a role sends requests to masters, which are in another account.
func services(caller, server Role) []jwt.Subject {
	if caller == server || server != RoleMaster {
		return nil
	}
	return slices.DeleteFunc(publishedBy(caller), isDirect)
}

// isDirect reports whether a subject carries direct requests to peels, or the answers to them.
func isDirect(s jwt.Subject) bool {
	return s.IsContainedIn(jwt.Subject(wire.Direct("*", "*"))) ||
		s.IsContainedIn(jwt.Subject(wire.AnswerOf("*", "*", "*")))
}

// publishedBy returns the subjects on which a role publishes, with a wildcard for the name.
func publishedBy(r Role) []jwt.Subject { return slices.Clone(published()[r]) }

// published has the subjects on which each role publishes. It is computed once, because every account needs all roles.
var published = sync.OnceValue(func() map[Role][]jwt.Subject {
	all := map[Role][]jwt.Subject{}
	for _, r := range roles {
		all[r] = anyName(Permissions(r).Publish)
	}
	return all
})

// streams returns the subjects that a role receives from other accounts. Inboxes are left out: a reply comes back by
// the service of its request. So are subjects that the role itself publishes: it receives them in its own account.
func streams(r Role) []jwt.Subject {
	inbox, own := r.Inbox(self), publishedBy(r)
	received := slices.DeleteFunc(Permissions(r).Subscribe, func(s string) bool { return strings.HasPrefix(s, inbox) })
	return slices.DeleteFunc(anyName(received), func(s jwt.Subject) bool { return slices.Contains(own, s) })
}

// anyName replaces the name in grants by a wildcard.
func anyName(grants []string) []jwt.Subject {
	var subjects []jwt.Subject
	for _, g := range grants {
		subjects = append(subjects, jwt.Subject(strings.ReplaceAll(g, self, "*")))
	}
	return widest(subjects)
}

// widest drops subjects that another one covers, because the server refuses overlaps.
func widest(subjects []jwt.Subject) []jwt.Subject {
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	return slices.DeleteFunc(slices.Clone(subjects), func(s jwt.Subject) bool {
		return slices.ContainsFunc(subjects, func(other jwt.Subject) bool { return s != other && covers(other, s) })
	})
}

// covers reports whether every message on s is also on wide. It calls the library only for wildcards, because that is
// slow.
func covers(wide, s jwt.Subject) bool {
	return wide == s || strings.ContainsAny(string(wide), "*>") && s.IsContainedIn(wide)
}
