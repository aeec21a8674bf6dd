package hold

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	inPage   = 100
	maxNames = 256 << 10 // bytes of the names of peels that are kept with an action
)

// add stores an action that waits for a person. A request that is repeated while its action is open gets that action.
func (s *Service) add(ctx context.Context, c *service.Call, q api.HoldAddRequest) (*api.HoldAction, error) {
	now := time.Now().UTC()
	a := api.HoldAction{
		HoldAddRequest: q,
		By:             c.From.User,
		ByRole:         c.From.Role,
		Created:        now,
		Expires:        now.Add(api.HoldLifetime),
		State:          api.HoldOpen,
	}
	c.About = about(&a, nil)
	peels, err := s.selected(ctx, c.From, &a)
	if err != nil {
		return nil, err
	}
	c.About = about(&a, peels)
	a.ID, a.Peels = api.HoldID(wire.NewJID()), len(peels)
	if err := s.allowed(ctx, c.From, &a, peels); err != nil {
		return nil, err
	}
	return s.store(ctx, c, a, peels)
}

// store stores a new action, or returns the open one that asks for the same.
func (s *Service) store(ctx context.Context, c *service.Call, a api.HoldAction,
	peels []target.PeelID,
) (*api.HoldAction, error) {
	now := a.Created
	names := peels
	if size(names) > maxNames {
		names = nil
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	all, err := s.actions.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].By == a.By && all[i].At(now).State == api.HoldOpen &&
			sameAdd(all[i].HoldAddRequest, a.HoldAddRequest) {
			c.About = about(&all[i], peels)
			return &all[i], nil
		}
	}
	if err := checkRoom(all, c.From.User, now); err != nil {
		return nil, err
	}
	if a.ID, err = s.claim(ctx, &a); err == nil {
		err = s.enter(ctx, &a)
	}
	if err != nil {
		return nil, err
	}
	// before the action, which is not without them then
	if err := s.peels.Create(ctx, string(a.ID), names); err != nil && !errors.Is(err, bucket.ErrPresent) {
		return nil, err
	}
	if err := s.actions.Create(ctx, string(a.ID), a); errors.Is(err, bucket.ErrPresent) {
		a, _, err = s.actions.Get(ctx, string(a.ID))
		c.About = about(&a, peels)
		return &a, err
	} else if err != nil {
		return nil, err
	}
	c.About = about(&a, peels)
	s.o.Log.Info("action waits for a person", "action", a.ID, "kind", a.Kind, "peels", a.Peels, "by", a.By,
		"agent", a.Agent)
	return &a, nil
}

// errClaimed ends a change that is not to be stored.
var errClaimed = errors.New("the request has an open action")

// enterWithin is how long an action counts as open that is to be stored and is not yet.
const enterWithin = time.Minute

// enter counts a new action among the open ones of its caller, or refuses it if there are too many.
func (s *Service) enter(ctx context.Context, a *api.HoldAction) error {
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(a.By)))
	if err := s.waiting.Create(ctx, name, []api.HoldID{a.ID}); !errors.Is(err, bucket.ErrPresent) {
		return err
	}
	_, err := s.waiting.Change(ctx, name, func(ids *[]api.HoldID) (err error) {
		if slices.Contains(*ids, a.ID) {
			return errClaimed
		}
		if len(*ids) >= api.HoldMaxOpenUser {
			if *ids, err = s.stillOpen(ctx, *ids, a.Created); err != nil {
				return err
			}
		}
		if len(*ids) >= api.HoldMaxOpenUser {
			return tooManyOpen(len(*ids), a.By)
		}
		*ids = append(*ids, a.ID)
		return nil
	})
	if errors.Is(err, errClaimed) {
		err = nil
	}
	return err
}

func tooManyOpen(n int, user string) error {
	return refuse(api.CodeConflict, "%d actions of %s wait for a person, and no more may; zester approve lists them", n,
		user)
}

// stillOpen returns the actions that are open, and those that are about to be stored.
func (s *Service) stillOpen(ctx context.Context, ids []api.HoldID, now time.Time) (open []api.HoldID, err error) {
	for _, id := range ids {
		a, _, err := s.actions.Get(ctx, string(id))
		isOpen := err == nil && a.At(now).State == api.HoldOpen
		switch {
		case errors.Is(err, bucket.ErrAbsent):
			isOpen = now.Sub(wire.JID(id).Time()) < enterWithin
		case errors.Is(err, bucket.ErrUnreadable):
			isOpen = true
		case err != nil:
			return nil, err
		}
		if isOpen {
			open = append(open, id)
		}
	}
	return open, nil
}

// claim returns the ID under which a new action is to be stored: the ID of an open action with the same request, if
// there is one. A list may lack that action: it is of an earlier moment, or of a copy of the bucket that lags.
func (s *Service) claim(ctx context.Context, a *api.HoldAction) (api.HoldID, error) {
	data, err := canon.Marshal(api.HoldAction{By: a.By, HoldAddRequest: a.HoldAddRequest})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%x", sha256.Sum256(data))
	if err := s.same.Create(ctx, name, a.ID); !errors.Is(err, bucket.ErrPresent) {
		return a.ID, err
	}
	id, err := s.same.Change(ctx, name, func(id *api.HoldID) error {
		claimed, _, err := s.actions.Get(ctx, string(*id))
		switch {
		case errors.Is(err, bucket.ErrAbsent), err == nil && claimed.At(a.Created).State == api.HoldOpen:
			return errClaimed
		case err != nil:
			return err
		}
		*id = a.ID
		return nil
	})
	if errors.Is(err, errClaimed) {
		err = nil
	}
	return id, err
}

func size(peels []target.PeelID) (bytes int) {
	for _, id := range peels {
		bytes += len(id) + 1
	}
	return bytes
}

// selected returns the peels of an action, if its target selects the same as before. What is no job has none.
func (s *Service) selected(ctx context.Context, from grants.Caller, a *api.HoldAction) ([]target.PeelID, error) {
	if !a.IsJob() {
		return nil, nil
	}
	peels, err := s.o.Select(ctx, from, a.Target)
	switch {
	case err != nil:
		return nil, err
	case len(peels) == 0:
		return nil, refuse(api.CodeConflict, "the target selects no peel now")
	case audit.PeelsHash(peels) != a.Hash:
		return nil, refuse(api.CodeConflict,
			"the target selects other peels than it did before: %d now; look at them again", len(peels))
	}
	return peels, nil
}

// allowed returns an error if a caller may not run an action himself.
func (s *Service) allowed(ctx context.Context, from grants.Caller, a *api.HoldAction, peels []target.PeelID) error {
	if !a.IsJob() {
		return s.o.Check(ctx, from, access.Verb(a.Verb))
	}
	spec := a.Spec()
	spec.JID, spec.Targets = wire.NewJID(), peels
	if err := spec.Normalize(time.Now()); err != nil {
		return refuse(api.CodeInvalid, "%v", err)
	}
	return s.o.Allow(ctx, from, &spec)
}

// sameAdd reports whether two requests ask for the same, by the same reason and assistant.
func sameAdd(a, b api.HoldAddRequest) bool {
	x, errX := canon.Marshal(a)
	y, errY := canon.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// checkRoom refuses a further action of a user if there are too many.
func checkRoom(all []api.HoldAction, user string, now time.Time) error {
	open, openUser, keptUser := 0, 0, 0
	for _, a := range all {
		isOpen := a.At(now).State == api.HoldOpen
		if isOpen {
			open++
		}
		if a.By == user {
			keptUser++
			if isOpen {
				openUser++
			}
		}
	}
	switch {
	case openUser >= api.HoldMaxOpenUser:
		return tooManyOpen(openUser, user)
	case keptUser >= api.HoldMaxKeptUser:
		return refuse(api.CodeConflict,
			"%d actions were asked for in the name of %s in the last 7 days, and no more may be", keptUser, user)
	case open >= api.HoldMaxOpen:
		return refuse(api.CodeConflict, "%d actions wait for a person, and no more may; zester approve lists them",
			open)
	}
	return nil
}

// list returns a page of actions, newest first.
func (s *Service) list(ctx context.Context, c *service.Call, q api.HoldQuery) (*api.HoldPage, error) {
	all, err := s.actions.List(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	all = slices.DeleteFunc(all, func(a api.HoldAction) bool {
		return a.By != c.From.User && !seesAll(c.From) || !q.All && a.At(now).State != api.HoldOpen ||
			q.Cursor != "" && a.ID >= q.Cursor
	})
	sorting.Func(all, func(a, b api.HoldAction) int { return cmp.Compare(b.ID, a.ID) })
	p := &api.HoldPage{Actions: all}
	if len(all) > inPage {
		p.Actions = all[:inPage]
		p.Next = all[inPage-1].ID
	}
	for i := range p.Actions {
		if p.Actions[i], err = s.now(ctx, p.Actions[i]); err != nil {
			return nil, err
		}
		p.Actions[i].Args, p.Actions[i].StateID = nil, ""
		if a := &p.Actions[i]; a.Kind == api.HoldSecond {
			a.Module, a.Data, a.Answer = a.Spec().Function, nil, nil
		}
	}
	return p, nil
}

// now returns an action with its state now, and whether its job was dispatched.
func (s *Service) now(ctx context.Context, a api.HoldAction) (api.HoldAction, error) {
	a = a.At(time.Now())
	if a.State != api.HoldApproved {
		return a, nil
	}
	if !a.IsJob() {
		a.Dispatched = !a.Begun.IsZero()
		return a, nil
	}
	_, err := s.o.Jobs.GetRecord(ctx, a.JID)
	if a.Dispatched = err == nil; errors.Is(err, job.ErrNotFound) {
		err = nil
	}
	return a, err
}

// show returns one action with its peels.
func (s *Service) show(ctx context.Context, c *service.Call, q api.HoldRequest) (*api.HoldShown, error) {
	a, err := s.find(ctx, c.From, q.ID)
	if err != nil {
		return nil, err
	}
	if a, err = s.now(ctx, a); err != nil {
		return nil, err
	}
	if a.By != c.From.User {
		a.Answer = nil
	}
	if c.From.Role == grants.RoleAuditor && !a.IsJob() {
		a.Data = nil // it may have what stands in files of the config repo
	}
	names, _, err := s.peels.Get(ctx, string(q.ID))
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return nil, err
	}
	return &api.HoldShown{HoldAction: a, Names: names}, nil
}

// approve gives an open action to the caller, who is to dispatch its job. The request of one that is no job is carried
// out.
func (s *Service) approve(ctx context.Context, c *service.Call, q api.HoldRequest) (*api.HoldAction, error) {
	id, from := q.ID, c.From
	if _, isToken := credential.TokenNameOf(from.User); isToken {
		return nil, refuse(api.CodeForbidden, "a token approves nothing: a person does, with zester approve %s", id)
	}
	a, err := s.find(ctx, from, id)
	if err != nil {
		return nil, err
	}
	c.About = about(&a, nil)
	if a, err = s.now(ctx, a); err != nil {
		return nil, err
	}
	again := a.State == api.HoldApproved && !a.Dispatched && a.DecidedBy == from.User && time.Now().Before(a.Expires)
	if !again {
		if err := undecided(&a); err != nil {
			return nil, err
		}
	}
	if err := s.o.CheckNotRevoked(ctx, a.By); err != nil {
		return nil, fmt.Errorf("action %s was asked for in the name of %s: %w", id, a.By, err)
	}
	peels, err := s.selected(ctx, from, &a)
	if err != nil {
		return nil, err
	}
	c.About = about(&a, peels)
	if err := s.allowed(ctx, from, &a, peels); err != nil {
		return nil, err
	}
	if err := s.checkPersons(ctx, from, &a, peels); err != nil {
		return nil, err
	}
	if !again {
		if a, err = s.decide(ctx, from, id, api.HoldApproved); err != nil {
			return nil, err
		}
	}
	c.About = about(&a, peels)
	if !a.IsJob() {
		return s.send(ctx, from, &a)
	}
	return &a, nil
}

// Approved returns the metadata of the job that a user approved as an action, or [grants.ErrNotAllowed] if the user has
// not approved the action of that ID as this job: under its ID, with its function and arguments, on its peels.
func (s *Service) Approved(ctx context.Context, user string, spec *job.Spec, id string) (map[string]string, error) {
	action, err := api.ParseHoldID(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	}
	actions, err := bucket.OpenRecords[api.HoldAction](ctx, s.o.JetStream, wire.BucketHeld, "action.",
		"the held action")
	if err != nil {
		return nil, err
	}
	a, _, err := actions.Get(ctx, string(action))
	switch {
	case errors.Is(err, bucket.ErrAbsent),
		err == nil && (a.State != api.HoldApproved || a.DecidedBy != user || a.JID != spec.JID):
		return nil, fmt.Errorf("%w: %s has not approved the action %s as this job", grants.ErrNotAllowed, user, id)
	case err != nil:
		return nil, err
	case !asksFor(&a, spec):
		return nil, fmt.Errorf("%w: the action %s asks for another function, other arguments or other peels",
			grants.ErrNotAllowed, id)
	}
	return a.Spec().Metadata, s.checkCurrent(ctx, &a)
}

// checkCurrent returns [grants.ErrNotAllowed] if an approval came to nothing until the action expired, or if the user
// who asked for the action was revoked since. A job that was dispatched stays so: its request may be repeated.
func (s *Service) checkCurrent(ctx context.Context, a *api.HoldAction) error {
	var err error
	if now := time.Now(); now.After(a.Expires) && now.After(a.DecidedAt.Add(service.BeginWithin)) {
		err = fmt.Errorf("%w: the action %s has expired at %s, and its job was not dispatched before",
			grants.ErrNotAllowed, a.ID, a.Expires.Format(time.RFC3339))
	} else if err = s.o.CheckNotRevoked(ctx, a.By); err != nil {
		err = fmt.Errorf("action %s was asked for in the name of %s: %w", a.ID, a.By, err)
	}
	if err == nil {
		return nil
	}
	switch _, found := s.o.Jobs.GetRecord(ctx, a.JID); {
	case found == nil:
		return nil
	case errors.Is(found, job.ErrNotFound):
		return err
	default:
		return found
	}
}

// asksFor reports whether a job is what an action asks for.
func asksFor(a *api.HoldAction, spec *job.Spec) bool {
	want := a.Spec()
	if a.Kind == api.HoldSecond && !asksForSame(want, *spec) ||
		spec.Function != want.Function || spec.StateID != want.StateID ||
		audit.PeelsHash(slices.Sorted(slices.Values(spec.Targets))) != a.Hash {
		return false
	}
	if len(spec.Args) == 0 && len(want.Args) == 0 {
		return true
	}
	x, errX := canon.Marshal(spec.Args)
	y, errY := canon.Marshal(want.Args)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// asksForSame reports whether two jobs are the same but for ID, targets, and the expression that selects them.
func asksForSame(want, got job.Spec) bool {
	got.Targets = slices.Clone(got.Targets)
	want.JID, want.TargetExpr, want.Targets = got.JID, got.TargetExpr, got.Targets
	got.Metadata = job.OwnMetadata(got.Metadata)
	want.Metadata = job.OwnMetadata(want.Metadata)
	return want.Normalize(time.Now()) == nil && got.Normalize(time.Now()) == nil && want.SameIntent(&got)
}

// reject closes an open action.
func (s *Service) reject(ctx context.Context, c *service.Call, q api.HoldRequest) (*api.HoldAction, error) {
	a, err := s.find(ctx, c.From, q.ID)
	if err != nil {
		return nil, err
	}
	c.About = about(&a, nil)
	if a, err = s.decide(ctx, c.From, q.ID, api.HoldRejected); err != nil {
		return nil, err
	}
	c.About = about(&a, nil)
	return &a, nil
}

// decide changes the state of an open action. Of several callers one succeeds.
func (s *Service) decide(ctx context.Context, from grants.Caller, id api.HoldID,
	state api.HoldState,
) (api.HoldAction, error) {
	a, err := s.actions.Change(ctx, string(id), func(a *api.HoldAction) error {
		now := *a
		now = now.At(time.Now())
		if err := undecided(&now); err != nil {
			return err
		}
		a.State, a.DecidedBy, a.DecidedAt = state, from.User, time.Now().UTC()
		if state == api.HoldApproved {
			a.JID = wire.NewJID()
		}
		return nil
	})
	if err == nil {
		s.o.Log.Info("action decided", "action", id, "state", a.State, "by", a.DecidedBy)
	}
	return a, err
}

// undecided returns an error that says who decided an action, if it is not open.
func undecided(a *api.HoldAction) error {
	switch a.State {
	case api.HoldOpen:
		return nil
	case api.HoldExpired:
		return refuse(api.CodeConflict, "action %s has expired at %s: have the assistant ask again", a.ID,
			a.Expires.Format(time.RFC3339))
	}
	return refuse(api.CodeConflict, "action %s was %s by %s at %s", a.ID, a.State, a.DecidedBy,
		a.DecidedAt.Format(time.RFC3339))
}
