// Package reach says about which peels a caller may read: call [Reach.Of]. A [Selector] evaluates the targets of the
// rules, and all other expressions, on the live fleet.
//
// Guarantees: what [Reach.Of] returns follows from the rules and records at most half a second before, and from the
// facts and settings at the time of the call. It is an error if they cannot be read.
//
// Known gap: a target with facts trusts what each host says about itself.
package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A Reach knows the rules about all callers. All fields are required, but [Reach.CheckWhole] and
// [Reach.CheckKnown] need no Select.
type Reach struct {
	Users  *user.Store
	Tokens *token.Store
	Select grants.Selector
}

// Open opens the records of people and tokens, whose buckets have to exist. Without an index, the result has no Select.
func Open(ctx context.Context, js jetstream.JetStream, index *peelindex.Index) (r Reach, err error) {
	if r.Users, err = user.Open(ctx, js); err != nil {
		return r, err
	}
	if r.Tokens, err = token.Open(ctx, js); err != nil || index == nil {
		return r, err
	}
	selector := NewSelector(js, index)
	r.Select = func(ctx context.Context, expr string) ([]target.PeelID, error) {
		_, ids, err := selector.Select(ctx, expr)
		return ids, err
	}
	return r, nil
}

// A power is what rules say about one person or token.
type power struct {
	who   access.Who
	rules []access.Rule
}

// powers returns the rules that all have to allow what a caller does: the caller's own, and for a token also those of
// everybody who has had its secret. So a token can do no more than who made it.
func (r Reach) powers(ctx context.Context, from grants.Caller) (all []power, err error) {
	name, isToken := credential.TokenNameOf(from.User)
	if !isToken {
		who, rules, err := r.Users.Rules(ctx, from)
		return []power{{who, rules}}, err
	}
	limits, err := r.Tokens.Limits(ctx, name)
	if err != nil {
		return nil, err
	}
	all = []power{{access.Who{Name: from.User}, []access.Rule{limits.Rule(from.User)}}}
	makers, err := r.makersOf(ctx, name)
	return append(all, makers...), err
}

// CheckKnown returns [grants.ErrNotAllowed] if a caller may do nothing at all: a person or token that was revoked, or
// whose makers were, or a person with limits that are not known.
func (r Reach) CheckKnown(ctx context.Context, from grants.Caller) error {
	if _, isToken := credential.TokenNameOf(from.User); !isToken {
		return r.Users.CheckKnown(ctx, from)
	}
	_, err := r.powers(ctx, from)
	return err
}

// makersOf returns the rules of those who made a token.
func (r Reach) makersOf(ctx context.Context, token string) (all []power, err error) {
	names, err := r.Tokens.RecentMakers(ctx, token)
	for _, name := range names {
		who, rules, err := r.Users.RulesBehind(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("what %s may do, who made the token %s: %w", name, token, err)
		}
		all = append(all, power{who, rules})
	}
	return all, err
}

// Check returns [grants.ErrNotAllowed] with the reason if a caller may not send masters the request of a verb; see
// [user.Store.Check]. The scopes of a token are for who passes its requests on.
func (r Reach) Check(ctx context.Context, from grants.Caller, verb access.Verb) error {
	name, isToken := credential.TokenNameOf(from.User)
	if !isToken {
		return r.Users.Check(ctx, from, verb)
	}
	makers, err := r.makersOf(ctx, name)
	if err != nil {
		return err
	}
	for _, p := range makers {
		err := grants.Refusal(access.Decide(p.rules, p.who, verb, access.On{}), p.who, verb, access.On{})
		if err != nil {
			return p.behind(from, err)
		}
	}
	return nil
}

// behind says in an error whose rules refuse a request.
func (p *power) behind(from grants.Caller, err error) error {
	if p.who.Name == from.User {
		return err
	}
	return fmt.Errorf("%w (%s made the token, which may do no more)", err, p.who.Name)
}

// CheckFiles returns [grants.ErrNotAllowed] with the reason if a caller may not change or show files of the config repo
// by a request of a verb.
func (r Reach) CheckFiles(ctx context.Context, from grants.Caller, verb access.Verb, files ...string) error {
	_, isToken := credential.TokenNameOf(from.User)
	if !isToken && !from.Role.IsPerson() {
		return nil
	}
	all, err := r.powers(ctx, from)
	if err != nil {
		return err
	}
	if isToken {
		all = all[1:] // its own limits are about jobs
	}
	for _, p := range all {
		for _, file := range files {
			on := access.On{Path: file}
			if err := grants.Refusal(access.Decide(p.rules, p.who, verb, on), p.who, verb, on); err != nil {
				return p.behind(from, err)
			}
		}
	}
	return nil
}

// Allow returns [grants.ErrNotAllowed] with the reason if a caller may not dispatch a job; see [user.Store.Allow].
func (r Reach) Allow(ctx context.Context, from grants.Caller, on access.On) error {
	name, isToken := credential.TokenNameOf(from.User)
	if !isToken {
		return r.Users.Allow(ctx, from, on, r.Select)
	}
	if err := r.Tokens.Allow(ctx, name, on.Function, on.Peels, r.Select); err != nil {
		return err
	}
	makers, err := r.makersOf(ctx, name)
	if err != nil {
		return err
	}
	for _, p := range makers {
		if err := grants.Evaluate(ctx, p.rules, p.who, on, r.Select); err != nil {
			return p.behind(from, err)
		}
	}
	return nil
}

// Of returns the peels about which a caller may read.
func (r Reach) Of(ctx context.Context, from grants.Caller) (p access.Peels, err error) {
	all, err := r.powers(ctx, from)
	if err != nil {
		return p, err
	}
	p = access.Peels{All: true}
	for _, one := range all {
		its, err := r.of(ctx, from, one)
		if err != nil {
			return access.Peels{}, err
		}
		if p.All {
			p = its
		} else {
			p.IDs = its.Only(p.IDs)
		}
	}
	return p, nil
}

// of returns the peels about which rules permit to read.
func (r Reach) of(ctx context.Context, from grants.Caller, p power) (peels access.Peels, err error) {
	if access.ReachesAll(p.rules, p.who) {
		return access.Peels{All: true}, nil
	}
	selected := map[string][]target.PeelID{}
	for _, expr := range access.Targets(p.rules, p.who) {
		if selected[expr], err = r.Select(ctx, expr); err != nil {
			return peels, fmt.Errorf("the limits of %s cannot be checked: %w", from.User, err)
		}
	}
	return access.Reach(p.rules, p.who, selected), nil
}

// NamesFunctions reports whether a rule about a caller names functions or arguments.
func (r Reach) NamesFunctions(ctx context.Context, from grants.Caller) (bool, error) {
	all, err := r.powers(ctx, from)
	return err == nil && slices.ContainsFunc(all, func(p power) bool {
		return access.NamesFunctions(p.rules, p.who)
	}), err
}

// CheckApart returns [grants.ErrNotAllowed] if two people may be one: who made a person may have kept the credential.
// The person behind a token is who made it. It reads the records themselves.
//
// Known gap: two people whom a third one made may both be that one, if it kept their credentials. So user.add needs two
// persons, too, once there is a rule.
func (r Reach) CheckApart(ctx context.Context, first, second string) error {
	for _, one := range [][2]string{{first, second}, {second, first}} {
		behind, err := r.behind(ctx, one[0])
		if err != nil {
			return err
		}
		made, err := user.Line(one[1], func(of string) ([]string, error) { return r.makers(ctx, of) })
		if err != nil {
			return err
		}
		for _, name := range behind {
			if slices.Contains(made, name) {
				return fmt.Errorf("%w: it needs two persons, and %s and %s may be one: %s", grants.ErrNotAllowed, first,
					second, why(name, one[1]))
			}
		}
	}
	return nil
}

// why says why a person may be another one.
func why(name, other string) string {
	if name == other {
		return "they are the same"
	}
	return name + " made " + other
}

// behind returns a person, or the people behind a token.
func (r Reach) behind(ctx context.Context, name string) ([]string, error) {
	if _, isToken := credential.TokenNameOf(name); !isToken {
		return []string{name}, nil
	}
	return r.makers(ctx, name)
}

func (r Reach) makers(ctx context.Context, name string) ([]string, error) {
	if token, ok := credential.TokenNameOf(name); ok {
		return r.Tokens.Makers(ctx, token)
	}
	return r.Users.Makers(ctx, name)
}

// CheckCurrent returns [grants.ErrNotAllowed] if a person or a token was revoked, or who made it was with all that they
// made. It reads the records themselves.
func (r Reach) CheckCurrent(ctx context.Context, name string) error {
	token, ok := credential.TokenNameOf(name)
	if !ok {
		return r.Users.CheckNotRevoked(ctx, name)
	}
	if err := r.Tokens.CheckNotRevoked(ctx, token); err != nil {
		return err
	}
	makers, err := r.Tokens.Makers(ctx, token)
	for _, by := range makers {
		err = errors.Join(err, r.Users.CheckMaker(ctx, by))
	}
	return err
}

// CheckWhole returns [grants.ErrNotAllowed] if a caller may not read about all peels. The reply to a request with the
// verb is about all.
func (r Reach) CheckWhole(ctx context.Context, from grants.Caller, verb access.Verb) error {
	all, err := r.powers(ctx, from)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := Whole(p.rules, p.who, verb); err != nil {
			return p.behind(from, err)
		}
	}
	return nil
}

// Whole is [Reach.CheckWhole] by the rules about a person.
func Whole(rules []access.Rule, who access.Who, verb access.Verb) error {
	if access.ReachesAll(rules, who) {
		return nil
	}
	return fmt.Errorf("%w: %s is about the whole fleet, and %s may read about some peels alone", grants.ErrNotAllowed,
		verb, who.Name)
}
