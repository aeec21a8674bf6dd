package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// HeldHeader names the held action that a request carries out. The master that approves an action sends it; from
// anybody else it is worth what the record of the action says.
const HeldHeader = "Zester-Held"

// BeginWithin is how long there is for the beginning of an action that was approved just before it expired.
const BeginWithin = time.Minute

const holdWait = 10 * time.Second

// asks returns the verb that the rules about the caller have to allow. Who may do something may have it wait for a
// second person: [api.HoldAdd] itself is for what assistants ask for.
func (v *Verb) asks(c *Call) access.Verb {
	var q api.HoldAddRequest
	if v.noun == api.HoldAdd.Noun && v.verb == api.HoldAdd.Verb && canon.Unmarshal(c.Data, &q) == nil &&
		q.Kind == api.HoldSecond {
		return access.Verb(q.Verb)
	}
	return access.Verb(v.noun + "." + v.verb)
}

// NeedsSecond reports whether rules about two persons are about a caller: they are about people and tokens, but for who
// reads the data directory of a master.
func NeedsSecond(from grants.Caller) bool {
	_, isToken := credential.TokenNameOf(from.User)
	return isToken || from.Role.IsPerson() && from.User != credential.LocalUser
}

// second returns an error unless a request may be carried out now: it needs one person, or it is the request of an
// action that a second person has approved. Otherwise it is held as an action, and the error has [api.CodeWaits].
func (o *Options) second(ctx context.Context, v Verb, c *Call) error {
	verb := access.Verb(v.noun + "." + v.verb)
	if !access.IsHeld(verb) || !NeedsSecond(c.From) {
		return nil
	}
	if id := c.header.Get(HeldHeader); id != "" {
		if err := v.checkNamed(ctx, c); err != nil {
			return err
		}
		return o.people.begin(ctx, c, verb, id)
	}
	known, err := o.people.open(ctx)
	if err != nil {
		return err
	}
	rules, err := known.Users.Seconds(ctx, verb)
	switch {
	case err != nil, len(rules) == 0, v.noun == api.ScheduleAdd.Noun && isDry(c.Data):
		return err
	case !slices.ContainsFunc(rules, func(s access.Second) bool { return s.CoversFile("") }):
		c.wait = o.waitFor(c, verb, rules) // by the files, which are not known yet
		return nil
	}
	return o.waits(ctx, v, c, verb)
}

// waitFor returns what [Call.Wait] does: it has a request wait if a rule covers one of the files.
func (o *Options) waitFor(c *Call, verb access.Verb, rules []access.Second) func(context.Context, []string) error {
	return func(ctx context.Context, files []string) error {
		for i := range rules {
			if slices.ContainsFunc(files, rules[i].CoversFile) {
				return o.waits(ctx, Verb{}, c, verb)
			}
		}
		return nil
	}
}

// Wait returns an error with [api.CodeWaits] if a change of some files needs a second person. It has then stored the
// request as an action. Call it before the change is made.
func (c *Call) Wait(ctx context.Context, files ...string) error {
	if c.wait == nil {
		return nil
	}
	return c.wait(ctx, files)
}

// waits has a request wait as an action of its caller, and returns an error that says so.
func (o *Options) waits(ctx context.Context, v Verb, c *Call, verb access.Verb) error {
	if v.naming != nil {
		if err := v.naming(ctx, c); err != nil {
			return err
		}
	}
	a, err := o.hold(ctx, c, verb)
	if err != nil {
		return err
	}
	c.held = string(a.ID)
	return api.Waits(a.ID)
}

// checkNamed returns an error if a held request leaves open what it is about, or is about what there is no more. A
// program that stores the action by itself may have left it open.
func (v *Verb) checkNamed(ctx context.Context, c *Call) error {
	if v.naming == nil {
		return nil
	}
	named := *c
	if err := v.naming(ctx, &named); err != nil {
		return err
	}
	if !bytes.Equal(named.Data, c.Data) {
		return &api.Error{Code: api.CodeConflict, Msg: "the request leaves open what it is about: ask for it again"}
	}
	return nil
}

// isDry reports whether a request about schedules only checks a change.
func isDry(data []byte) bool {
	var q api.ScheduleChange
	return canon.Unmarshal(data, &q) == nil && q.Dry
}

// hold has any master store a request as an action of its caller.
func (o *Options) hold(ctx context.Context, c *Call, verb access.Verb) (*api.HoldAction, error) {
	data, err := canon.Marshal(api.HoldAddRequest{Kind: api.HoldSecond, Verb: string(verb), Data: c.Data})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, holdWait)
	defer cancel()
	subject := api.Subject(api.HoldAdd.Noun, api.HoldAdd.Verb, c.From.User)
	msg, err := o.Conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: c.From.Header(), Data: data})
	if err == nil {
		err = api.ReplyError(msg)
	}
	a := &api.HoldAction{}
	if err == nil {
		err = canon.Unmarshal(msg.Data, a)
	}
	if err != nil {
		return nil, fmt.Errorf("%s needs a second person, and cannot wait for one: %w", verb, err)
	}
	return a, nil
}

// begin notes in the record of an approved action that its request is carried out now. Of several masters one does. All
// that was checked at the approval is checked again.
func (p *people) begin(ctx context.Context, c *Call, verb access.Verb, id string) error {
	known, err := p.open(ctx)
	if err != nil {
		return err
	}
	js, err := jetstream.New(p.conn)
	if err != nil {
		return err
	}
	actions, err := bucket.OpenRecords[api.HoldAction](ctx, js, wire.BucketHeld, "action.", "the held action")
	if err != nil {
		return err
	}
	action, err := api.ParseHoldID(id)
	if err != nil {
		return fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	}
	check := func(a *api.HoldAction) error { return checkApproved(a, c, verb) }
	a, _, err := actions.Get(ctx, string(action))
	if errors.Is(err, bucket.ErrAbsent) {
		return fmt.Errorf("%w: there is no held action %s", grants.ErrNotAllowed, action)
	}
	if err == nil {
		err = check(&a)
	}
	if err == nil {
		err = known.CheckCurrent(ctx, a.By)
	}
	if err == nil {
		err = known.Check(ctx, a.Asker(), verb)
	}
	if err == nil {
		err = known.CheckApart(ctx, a.By, c.From.User)
	}
	if err != nil {
		return fmt.Errorf("action %s of %s: %w", action, a.By, err)
	}
	_, err = actions.Change(ctx, string(action), func(a *api.HoldAction) error {
		if err := check(a); err != nil {
			return err
		}
		a.Begun = time.Now().UTC()
		return nil
	})
	if err == nil {
		asker := a.Asker()
		c.held, c.asker = id, &asker
	}
	return err
}

// checkApproved returns an error unless a caller has approved an action as exactly this request, and nobody has begun
// it.
func checkApproved(a *api.HoldAction, c *Call, verb access.Verb) error {
	switch now := time.Now(); {
	case a.Kind != api.HoldSecond, a.Verb != string(verb), !bytes.Equal(a.Data, c.Data):
		return fmt.Errorf("%w: it asks for something else", grants.ErrNotAllowed)
	case a.State != api.HoldApproved || a.DecidedBy != c.From.User:
		return fmt.Errorf("%w: %s has not approved it", grants.ErrNotAllowed, c.From.User)
	case !a.Begun.IsZero():
		msg := "it was begun at " + a.Begun.Format(time.RFC3339) + ", and is not carried out twice"
		return &api.Error{Code: api.CodeConflict, Msg: msg}
	case now.After(a.Expires) && now.After(a.DecidedAt.Add(BeginWithin)):
		return fmt.Errorf("%w: it has expired at %s", grants.ErrNotAllowed, a.Expires.Format(time.RFC3339))
	}
	return nil
}
