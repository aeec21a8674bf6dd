package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// endOfTime is what no credential is issued after.
var endOfTime = time.Unix(1<<40, 0)

// sign makes the JWTs of the operator and the accounts anew: they hold the table of this build.
func (k *Keys) sign(operator nkeys.KeyPair, system string) (Trust, error) {
	public, err := operator.PublicKey()
	if err != nil {
		return Trust{}, err
	}
	oc := jwt.NewOperatorClaims(public)
	oc.Name = "zester"
	oc.SystemAccount = system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	t := Trust{SystemAccount: system, Accounts: map[string]string{}}
	if t.Operator, err = oc.Encode(operator); err != nil {
		return Trust{}, err
	}
	if t.Accounts[system], err = sc.Encode(operator); err != nil {
		return Trust{}, err
	}
	for _, r := range roles {
		ac, err := k.claims(r)
		if err != nil {
			return Trust{}, err
		}
		if t.Accounts[ac.Subject], err = ac.Encode(operator); err != nil {
			return Trust{}, err
		}
	}
	return t, nil
}

// claims describe the account of a role: what its users may do in it, and what passes between it and the masters'.
func (k *Keys) claims(r Role) (*jwt.AccountClaims, error) {
	ac := jwt.NewAccountClaims(k.accounts[r])
	ac.Name = accountName(r)
	ac.Limits.DisallowBearer = true
	for signs, key := range k.signers {
		if signs.account() != r {
			continue
		}
		signer, err := key.PublicKey()
		if err != nil {
			return nil, err
		}
		ac.SigningKeys.AddScopedSigner(scope(signs, signer))
		if former := k.rotation.Former[signs]; former != "" && former != signer {
			ac.SigningKeys.AddScopedSigner(scope(signs, former))
		}
	}
	if r == RoleMaster {
		ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	}
	ac.Exports = exports(r)
	ac.Imports = k.imports(r)
	for public := range k.revoked[r] {
		ac.RevokeAt(public, endOfTime) // a revoked key is never signed for again, but by a master whose clock or word was late
	}
	return ac, nil
}

func accountName(r Role) string { return strings.ToUpper(string(r)) }

// siteConnections are the kinds of connection for which a credential of [RoleSite] is valid: a copy of it is of no use to an
// ordinary client. Tests of its grants are such clients, and change this.
var siteConnections = jwt.StringList{jwt.ConnectionTypeLeafnode}

// scope is what a signing key of a role gives whom it signs.
func scope(r Role, signer string) *jwt.UserScope {
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

// grantsDigest identifies what this version grants: the templates of all roles, and what passes between their accounts.
var grantsDigest = sync.OnceValue(func() string {
	h := sha256.New()
	table := json.NewEncoder(h)
	for _, r := range append(slices.Clone(roles), RoleSite) {
		_ = table.Encode(scope(r, "").Template) // a hash takes everything
	}
	for _, r := range roles {
		_ = table.Encode(exports(r))
	}
	return hex.EncodeToString(h.Sum(nil))
})

// peelAnswerTime is how long the server keeps the reply subject of what a peel sends, about 700 bytes for each message. A
// peel waits 5 s for an answer. The server's default of two minutes lets one peel fill the memory of the bus.
const peelAnswerTime = 10 * time.Second

// exports returns the subjects on which other accounts may publish to a role's account and receive from it. Requests to
// masters are services: the server routes the reply back to the account of the request. Everything else is a stream, direct
// requests to peels and their answers included.
func exports(r Role) jwt.Exports {
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

func (k *Keys) imports(r Role) jwt.Imports {
	var i jwt.Imports
	for _, other := range roles {
		for _, s := range services(r, other) {
			// With Share the server tells masters of whom a request is, see [AskerOf].
			share := other == RoleMaster && slices.Contains(people, r)
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: k.accounts[other], Type: jwt.Service, Share: share})
		}
		for _, s := range between(other, r) {
			i.Add(&jwt.Import{Name: string(s), Subject: s, Account: k.accounts[other], Type: jwt.Stream})
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
func services(asker, asked Role) []jwt.Subject {
	if asker == asked || asked != RoleMaster {
		return nil
	}
	return slices.DeleteFunc(said(asker), isDirect)
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
