package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	pageOfPeels     = 500
	duplicatesShown = 20          // peels that the status names as duplicates
	outdatedShown   = 20          // peels that the status names as outdated
	pausedShown     = 20          // peels that the status names for entries paused by failures
	forgetLimit     = time.Minute // for the fleet to notice that a peel has no facts
)

// A Snapshot is the state of the loop after its newest event. It is immutable.
type Snapshot struct {
	Sync     status.Sync      // without the fields that progress and the fleet fill in
	Attempts []status.Attempt // the newest first
	Judged   *Judged          // the plan that the guard judged last; nil if none
	Facts    *Judged          // what new facts would take and waits; nil if nothing does
	Order    Carried          // the last order that was carried out in this session; zero if none was
}

// Carried is an order that was carried out.
type Carried struct {
	Verb, By string
	Time     time.Time
}

// Status returns the present status.
func (s *Service) Status() *status.Sync {
	sync := s.Newest().Sync
	sync.Counts, sync.HostCounts = s.Progress.Counts(), s.Progress.HostCounts()
	sync.PausedErrors = s.Progress.PausedErrors(pausedShown)
	sync.Duplicates = s.Fleet.Duplicates()
	sync.Duplicates = sync.Duplicates[:min(len(sync.Duplicates), duplicatesShown)]
	sync.Outdated = s.Progress.Outdated(outdatedShown)
	return &sync
}

func (s *Service) status(ctx context.Context, c *service.Call, _ api.None) (*status.Sync, error) {
	peels, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	if peels.All {
		return s.Status(), nil
	}
	return partOf(s.Status(), peels, s.Progress.Peels(peels.IDs)), nil
}

func (s *Service) history(ctx context.Context, c *service.Call, _ api.None) (*status.History, error) {
	peels, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	all, err := s.Archive.List(ctx)
	if err != nil {
		return nil, err
	}
	stored := map[settings.Commit]bool{}
	for _, e := range all {
		stored[e.Commit] = true
	}
	h := &status.History{Attempts: []status.Attempt{}}
	for _, a := range s.Newest().Attempts {
		a.Stored = stored[a.Commit]
		if !peels.All {
			a = outlineOf(a)
		}
		h.Attempts = append(h.Attempts, a)
	}
	return h, nil
}

func (s *Service) peels(ctx context.Context, c *service.Call, q status.PeelsRequest) (*status.SyncPeelsPage, error) {
	if len(q.Peels) > status.MaxPeels {
		return nil, record.Refuse("%d peels, the limit is %d", len(q.Peels), status.MaxPeels)
	}
	within, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	if len(q.Peels) > 0 {
		return &status.SyncPeelsPage{Peels: s.Progress.Peels(of(within, q.Peels))}, nil
	}
	page := s.Progress.Page(within, q, pageOfPeels)
	return &page, nil
}

// of returns the peels of ids about which the caller may read, in the order of ids.
func of(within access.Peels, ids []target.PeelID) []target.PeelID {
	return slices.DeleteFunc(slices.Clone(ids), func(id target.PeelID) bool { return !within.Has(id) })
}

// maxStates bounds an answer of sync.states, in bytes: the bus takes 1 MiB, and one peel has at most 200 KiB.
const maxStates = 512 << 10

// states answers with as many peels as an answer has room for.
func (s *Service) states(ctx context.Context, c *service.Call, q status.PeelsRequest) (*status.SyncStatesPage, error) {
	if len(q.Peels) > status.MaxPeels {
		return nil, record.Refuse("%d peels, the limit is %d", len(q.Peels), status.MaxPeels)
	}
	within, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	var page status.SyncStatesPage
	var ok bool
	if len(q.Peels) > 0 {
		page.Peels, ok = s.Progress.StatesOf(of(within, q.Peels))
	} else {
		page, ok = s.Progress.States(within, q.Cursor, pageOfPeels)
	}
	if !ok && s.Newest().Sync.LastGood.Commit != "" {
		return nil, errStatesUnread
	}
	size := 0
	for i := range page.Peels {
		data, err := canon.Marshal(page.Peels[i])
		if err != nil {
			return nil, err
		}
		if size += len(data) + 1; size > maxStates && i > 0 {
			page.Peels = page.Peels[:i]
			page.Next = page.Peels[i-1].Peel
			break
		}
	}
	return &page, nil
}

// groups answers with the results of states that make hosts differ from Git.
func (s *Service) groups(ctx context.Context, c *service.Call, _ api.None) (*status.StateGroups, error) {
	within, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	groups, ok := s.Progress.StateGroups(within)
	if !ok && s.Newest().Sync.LastGood.Commit != "" {
		return nil, errStatesUnread
	}
	return &groups, nil
}

// plan compiles nothing: a revision that waits because of a pin or a pause has no plan yet.
func (s *Service) plan(_ context.Context, _ *service.Call, q status.PlanRequest) (*status.Plan, error) {
	newest := s.Newest()
	return planOf(*s.Status(), []*Judged{newest.Judged, newest.Facts}, q.Revision)
}

// document answers with the stored document of a peel.
func (s *Service) document(ctx context.Context, c *service.Call, q status.DocumentRequest) (*status.Document, error) {
	id, err := target.ParsePeelID(string(q.Peel))
	if err != nil {
		return nil, record.Refuse("%v", err)
	}
	within, err := s.Within(ctx, c.From)
	if err != nil {
		return nil, err
	}
	doc, _, err := s.Settings.Get(ctx, id)
	if err == nil && (doc == nil || !within.Has(id)) {
		err = record.Refuse("no settings were given to %s", id)
	}
	if err != nil {
		return nil, err
	}
	values, err := doc.Values()
	if err != nil {
		return nil, err
	}
	return &status.Document{
		Peel: s.Progress.Peel(id), Commit: doc.Commit, Digest: doc.Digest, Settings: values, Origins: doc.Origins,
	}, nil
}

// now has the branch read at once.
func (s *Service) now(ctx context.Context, c *service.Call, _ api.None) (*status.Sync, error) {
	return s.do(ctx, NewOrder("now", c.From.User, true, nil), nowLimit)
}

func (s *Service) pause(ctx context.Context, c *service.Call, _ api.None) (*status.Sync, error) {
	return s.order(ctx, c, "pause", false, Pause(c.From.User))
}

func (s *Service) resume(ctx context.Context, c *service.Call, q status.ReleaseRequest) (*status.Sync, error) {
	return s.order(ctx, c, "resume", true, Resume(q.Since))
}

func (s *Service) unpin(ctx context.Context, c *service.Call, q status.ReleaseRequest) (*status.Sync, error) {
	return s.order(ctx, c, "unpin", true, Unpin(q.Since))
}

func (s *Service) order(ctx context.Context, c *service.Call, verb string, read bool,
	change Change,
) (*status.Sync, error) {
	return s.do(ctx, NewOrder(verb, c.From.User, read, change), orderLimit)
}

func (s *Service) approve(ctx context.Context, c *service.Call, q status.ApproveRequest) (*status.Sync, error) {
	by := c.From.User
	switch {
	case q.Wave != "":
		c.About.Target = "gate " + q.Wave + reasonOf(q)
		var of settings.Commit
		sync, err := s.order(ctx, c, "approve", false, func(r record.Record, seen Seen) (record.Record, error) {
			next, err := OpenGate(q, by)(r, seen)
			if err == nil {
				of = next.Rollout.Commit
			}
			return next, err
		})
		if err == nil {
			c.About.Target = "gate " + q.Wave + " of " + string(of) + reasonOf(q)
		}
		return sync, err
	case q.Override:
		c.About.Target = "freeze " + q.Hash + reasonOf(q)
		return s.order(ctx, c, "approve", false, OverrideFreeze(q, by))
	}
	c.About.Target = q.Hash
	var given record.Approval
	facts := false
	sync, err := s.order(ctx, c, "approve", false, func(r record.Record, seen Seen) (record.Record, error) {
		next, err := Approve(q, by)(r, seen)
		switch {
		case err != nil:
		case next.Approved != nil && next.Approved != r.Approved:
			given = *next.Approved
		default:
			given, facts = *next.Facts.Approved, true
		}
		return next, err
	})
	switch {
	case err != nil:
		return sync, err
	case facts:
		c.About.Target = given.Hash + " of facts"
		return sync, nil
	case sync.Blocked != "":
		return sync, record.Refuse(
			"cannot approve plan %.64s: the fleet changed at the same time, and the plan of %s that waits is now %s",
			q.Hash, sync.LastAttempted.Short(), sync.Blocked,
		)
	}
	c.About.Target = given.Hash + " of " + string(given.Commit)
	return sync, nil
}

// reasonOf returns the reason of a person for the audit log.
func reasonOf(q status.ApproveRequest) string {
	if q.Reason == "" {
		return ""
	}
	return ": " + q.Reason
}

func (s *Service) retry(ctx context.Context, c *service.Call, q status.RetryRequest) (*status.Sync, error) {
	c.About.Target = q.Revision
	var commit settings.Commit
	sync, err := s.order(ctx, c, "retry", false, func(r record.Record, seen Seen) (next record.Record, err error) {
		if next, err = Retry(q.Revision, c.From.User)(r, seen); err == nil {
			commit = seen.Head
		}
		return next, err
	})
	if err == nil {
		c.About.Target = string(commit)
	}
	return sync, err
}

// pin finds the revision before it gives the order to the loop. It reads the files only if the archive does not have
// them.
func (s *Service) pin(ctx context.Context, c *service.Call, q status.PinRequest) (out *status.Sync, err error) {
	c.About.Target = q.Revision
	commit, err := s.stored(ctx, q.Revision)
	if err != nil {
		return out, err
	}
	revision, err := s.Archive.Header(ctx, commit)
	if err == nil && (revision == nil || revision.Safety == nil) {
		revision, err = s.loadSafety(ctx, commit)
	}
	if err != nil {
		return out, err
	}
	if revision == nil {
		return out, record.Refuse("cannot pin %s: it is no longer stored", commit)
	}
	return s.order(ctx, c, "pin", false, Pin(revision, c.From.User, q.UntilNewer))
}

// loadSafety returns a revision with the Safety of its zester.yaml, nil if neither the repo nor the archive has it.
func (s *Service) loadSafety(ctx context.Context, commit settings.Commit) (*archive.Revision, error) {
	revision, err := s.Read(ctx, commit)
	if err != nil || revision == nil {
		return nil, err
	}
	safety, err := plan.ReadSafety(revision.Tree)
	if err != nil {
		return nil, record.Refuse("cannot pin %s: %v", commit.Short(), err)
	}
	revision.Safety = &safety
	return revision, nil
}

// stored returns the revision whose commit begins with digits: a stored one, or else one that was in force by the
// history, as the copy of the repo may still have it. It is an error if there are several.
func (s *Service) stored(ctx context.Context, digits string) (settings.Commit, error) {
	if len(digits) < status.MinRevision {
		return "", record.Refuse("cannot pin %q: name %d digits of a commit at least", digits, status.MinRevision)
	}
	found, err := s.Archive.Find(ctx, digits)
	for _, a := range s.Newest().Attempts {
		was := a.Outcome == status.OutcomeApplied && strings.HasPrefix(string(a.Commit), digits)
		if was && !slices.Contains(found, a.Commit) {
			found = append(found, a.Commit)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", record.Refuse("cannot pin %.64s: no such revision is stored; zester sync history shows which are",
			digits)
	case len(found) > 1:
		return "", record.Refuse("cannot pin %.64s: %d stored revisions begin with it; give more digits", digits,
			len(found))
	}
	return found[0], nil
}

// remove deletes the data of a peel: first its facts, so that it gets no settings again, then its settings and its
// report. After an error the same command removes the rest.
func (s *Service) remove(ctx context.Context, c *service.Call,
	q status.RemoveRequest,
) (out *status.Removed, err error) {
	c.About.Target = string(q.Peel)
	id, err := target.ParsePeelID(string(q.Peel))
	if err != nil {
		return out, record.Refuse("%v", err)
	}
	if a := s.Newest().Sync.Adopt; a != nil {
		return out, record.Refuse("cannot remove %s: the fleet follows %s, and this master follows %s", id, a.From,
			a.To)
	}
	if seen, online := s.Fleet.Presence(id); online && !q.Force {
		return out, record.Refuse("cannot remove %s: it is online, last heard at %s; stop it first", id,
			seen.UTC().Format(time.RFC3339))
	}
	_, known := s.Fleet.Index().Get(id)
	if known {
		if err := s.forgetFacts(ctx, id); err != nil {
			return out, err
		}
	}
	held, err := s.Remove(ctx, id)
	switch {
	case err != nil:
		return out, err
	case !held && !known:
		return out, fmt.Errorf("cannot remove %s: %w", id, errNoPeel)
	}
	for stream, subject := range map[string]string{
		"applied":        wire.SettingsApplied(id.Wire()),
		"states":         wire.StateRunOf(id.Wire()),
		"schedule-state": wire.ScheduleStateOf(id.Wire()),
	} {
		if err := s.purge(ctx, stream, subject); err != nil {
			return out, err
		}
	}
	if err := s.Fleet.Unbind(ctx, id); err != nil {
		return out, err
	}
	s.Progress.Forget(id)
	s.Log.Info("peel removed", "peel", id, "by", c.From.User, "force", q.Force)
	sync, err := s.order(ctx, c, "remove", false, nil)
	if err != nil {
		return nil, err
	}
	out = &status.Removed{Sync: *sync}
	if out.Places, err = s.naming(ctx, sync.LastGood.Commit, id); err != nil {
		out.Unread = err.Error()
	}
	return out, nil
}

// naming returns the places of a revision that name a peel.
func (s *Service) naming(ctx context.Context, commit settings.Commit, id target.PeelID) ([]string, error) {
	if commit == "" {
		return nil, nil // no revision is in force
	}
	revision, err := s.Read(ctx, commit)
	switch {
	case err != nil:
		return nil, err
	case revision == nil:
		return nil, fmt.Errorf("neither the repo nor the archive has %s", commit.Short())
	}
	return plan.Naming(revision.Tree, id)
}

// forgetFacts removes the facts of a peel and waits until it has left the fleet's index.
func (s *Service) forgetFacts(ctx context.Context, id target.PeelID) error {
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	changed := s.Fleet.Watch(ctx)
	if err := s.purge(ctx, "facts", wire.Fact(id.Wire())); err != nil {
		return err
	}
	for {
		if _, known := s.Fleet.Index().Get(id); !known {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot remove %s: its facts come back", id)
		case <-changed:
		}
	}
}

func (s *Service) purge(ctx context.Context, stream, subject string) error {
	st, err := s.JS.Stream(ctx, stream)
	if err == nil {
		err = st.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("cannot remove %s from the stream %s: %w", subject, stream, err)
	}
	return nil
}
