package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// gatheringsAtOnce is how many requests a master answers at once that ask other services in the name of their caller.
// They have a lane of their own, so that they do not wait for requests that wait for them.
const gatheringsAtOnce = 4

// gatherVerbs are requests that ask other services. Each role that may send them may send those requests too.
func (s *Server) gatherVerbs() []service.Verb {
	return []service.Verb{
		handleFrom(api.NowShow, s.now).In(s.gatherings),
		handleFrom(api.ApprovalList, s.approvals).In(s.gatherings),
	}
}

// Now returns what is wrong and what waits, for the peels within the limits of the caller.
func (s *Server) Now(ctx context.Context, from grants.Caller) (reply *api.Now, err error) {
	waited := s.gatherings.Do(ctx, func() { reply, err = s.now(ctx, from, api.None{}) })
	return reply, cmp.Or(waited, err)
}

// now leaves out what cannot be read, which makes the state unknown.
func (s *Server) now(ctx context.Context, from grants.Caller, _ api.None) (*api.Now, error) {
	a := &api.Now{Problems: []api.Problem{}}
	problems, err := s.Problems(ctx, from, api.ProblemsRequest{})
	if err != nil {
		a.Doubt = err.Error()
	} else {
		a.Fleet = &problems.Tally
		a.Problems = append(a.Problems, problems.Problems...)
	}
	if day, err := s.Timeline(ctx, from, api.TimelineRequest{}); err != nil {
		a.Day.Error = err.Error()
	} else {
		a.Day.Value = day
	}
	// The others are asked after this work, which would take of the time that they have.
	var asking sync.WaitGroup
	asking.Go(func() { a.Alerts = api.AlertList.Extra(ctx, s.For(from), api.AlertsRequest{}) })
	waiting := s.waits(ctx, from)
	asking.Wait()
	if a.Sync = waiting.sync; a.Sync.Value != nil {
		a.Problems = append(a.Problems, ofSync(a.Sync.Value)...)
	} else {
		a.Doubt = cmp.Or(a.Doubt, a.Sync.Error)
	}
	sorting.Stable(a.Problems, func(a, b api.Problem) int {
		return cmp.Compare(verdict.Rank(a.Class, a.ByHand), verdict.Rank(b.Class, b.ByHand))
	})
	a.Waiting, a.Missing = waiting.list(), waiting.missing()
	a.State = stateOf(a.Problems, a.Doubt)
	return a, nil
}

// Approvals returns what waits for a person; a caller with limits sees the caller's own held actions and no hosts that
// ask to join.
func (s *Server) Approvals(ctx context.Context, from grants.Caller) (reply *api.Approvals, err error) {
	waited := s.gatherings.Do(ctx, func() { reply, err = s.approvals(ctx, from, api.None{}) })
	return reply, cmp.Or(waited, err)
}

func (s *Server) approvals(ctx context.Context, from grants.Caller, _ api.None) (*api.Approvals, error) {
	waiting := s.waits(ctx, from)
	a := &api.Approvals{Waiting: waiting.list(), Held: []api.HoldAction{}, Missing: waiting.missing()}
	if held := waiting.held.Value; held != nil {
		a.Held = append(a.Held, held.Actions...)
	}
	return a, nil
}

// waits are the answers about what waits for a person.
type waits struct {
	held     api.Extra[api.HoldPage]
	sync     api.Extra[status.Sync]
	enrolled api.Extra[api.EnrolledAnswer]
}

// waits asks for all of them at once.
func (s *Server) waits(ctx context.Context, from grants.Caller) (w waits) {
	by := s.For(from)
	var asking sync.WaitGroup
	asking.Go(func() { w.held = api.HoldList.Extra(ctx, by, api.HoldQuery{}) })
	asking.Go(func() { w.sync = api.SyncStatus.Extra(ctx, by, api.None{}) })
	asking.Go(func() { w.enrolled = s.pendingFor(ctx, from) })
	asking.Wait()
	return w
}

// missing returns the errors of what could not be read.
func (w *waits) missing() []string {
	return slices.DeleteFunc(
		[]string{w.held.Error, w.sync.Error, w.enrolled.Error}, func(text string) bool { return text == "" },
	)
}

// pendingFor returns the hosts that ask to join, with an error if they are more than fit into a reply. It is empty for
// callers who may not list them.
func (s *Server) pendingFor(ctx context.Context, from grants.Caller) api.Extra[api.EnrolledAnswer] {
	may, err := s.listsHosts(ctx, from)
	switch {
	case err != nil:
		return api.Extra[api.EnrolledAnswer]{Error: err.Error()}
	case !may:
		return api.Extra[api.EnrolledAnswer]{}
	}
	hosts := api.EnrollList.Extra(ctx, s.For(from), api.EnrollQuery{State: credential.Pending})
	if hosts.Value != nil && hosts.Value.Next != "" {
		const text = "more hosts ask to join than these %d: zester auth peel list --state pending shows all"
		hosts.Error = fmt.Sprintf(text, len(hosts.Value.Peels))
	}
	return hosts
}

// listsHosts reports whether a caller may know which hosts ask to join: neither callers with limits may, nor tokens
// without the scope admin, as enroll.list has no route of REST.
func (s *Server) listsHosts(ctx context.Context, from grants.Caller) (bool, error) {
	isLimited, err := s.isLimited(ctx, from)
	if err != nil || isLimited {
		return false, err
	}
	token, isToken := credential.TokenNameOf(from.User)
	if !isToken {
		return true, nil
	}
	return s.o.Tokens.Has(ctx, token, credential.ScopeAdmin)
}

// stateOf returns the state of the fleet. Doubt never becomes a word of health.
func stateOf(problems []api.Problem, doubt string) api.FleetState {
	state := api.FleetOk
	if doubt != "" {
		state = api.FleetUnknown
	}
	if len(problems) == 0 {
		return state
	}
	switch p := problems[0]; p.Class {
	case verdict.Failed, verdict.Missed, verdict.Refused, verdict.Stalled, verdict.WaveFailed, verdict.StateFailed:
		return api.FleetFail
	case verdict.Held:
		return state
	}
	if problems[0].ByHand {
		return state
	}
	return api.FleetLate
}

// ofSync returns what is wrong with revisions and states.
func ofSync(s *status.Sync) (list []api.Problem) {
	for _, p := range verdict.OfRevision(s, time.Now()) {
		list = append(list, api.Problem{Class: p.Kind, Since: p.Since, Text: p.Text, Commit: p.Revision})
	}
	for state, kind := range map[status.HostState]verdict.Kind{
		status.HostFailed: verdict.StateFailed, status.HostDrifted: verdict.Drifted,
	} {
		if n := s.HostCounts[state]; n > 0 {
			list = append(list, api.Problem{Class: kind, Peels: n})
		}
	}
	return list
}

// list returns what waits for a person, the oldest first.
func (w *waits) list() []api.Waiting {
	list := []api.Waiting{}
	if held := w.held.Value; held != nil {
		for i := range held.Actions {
			list = append(list, ofHeld(&held.Actions[i]))
		}
	}
	if s := w.sync.Value; s != nil {
		list = append(list, ofHolds(s)...)
	}
	if enrolled := w.enrolled.Value; enrolled != nil {
		for i := range enrolled.Peels {
			if p := &enrolled.Peels[i]; p.State == credential.Pending { // an older master ignores the query
				list = append(list, ofEnrolled(p))
			}
		}
	}
	sorting.Stable(list, func(a, b api.Waiting) int { return a.Since.Compare(b.Since) })
	return list
}

// ofHeld returns an action of an assistant, or one that needs two persons.
func ofHeld(a *api.HoldAction) api.Waiting {
	if a.Kind == api.HoldSecond {
		w := api.Waiting{
			Kind: api.WaitingHeld, ID: string(a.ID), Since: a.Created, What: a.By + " needs a second person for ",
		}
		if w.More = "on " + a.Target; !a.IsJob() {
			w.More = ""
		}
		w.What += a.Spec().Function
		return w
	}
	return api.Waiting{
		Kind: api.WaitingHeld, ID: string(a.ID), Since: a.Created,
		What: "An assistant asks for " + cmp.Or(a.Module, "a pause of "+a.Entry),
		More: a.Agent + ", for " + a.By + ": " + a.Reason,
	}
}

// ofEnrolled returns a host that asks to join.
func ofEnrolled(p *credential.Enrolled) api.Waiting {
	w := api.Waiting{
		Kind: api.WaitingEnroll, ID: string(p.ID), What: string(p.ID) + " asks to join", More: "from " + p.From,
	}
	if n := len(p.History); n > 0 {
		w.Since = p.History[n-1].Time
	}
	return w
}

// ofHolds returns what revisions wait for. It is not known since when plans, facts and freezes wait: they come first.
func ofHolds(s *status.Sync) (list []api.Waiting) {
	if s.Blocked != "" {
		list = append(list, api.Waiting{
			Kind: api.WaitingPlan, ID: s.Blocked, Commit: s.LastAttempted,
			What: "The plan of a commit", More: string(s.LastAttempted),
		})
	}
	if s.Facts != nil {
		list = append(list, api.Waiting{
			Kind: api.WaitingFacts, ID: s.Facts.Hash, What: "New facts of peels", More: s.Facts.Reason,
		})
	}
	if r := s.Rollout; r != nil && r.State == "gate" {
		list = append(list, gateOf(r))
	}
	if s.Frozen != nil {
		list = append(list, api.Waiting{
			Kind: api.WaitingFreeze, Commit: s.Frozen.Commit, What: "A freeze holds a commit", More: s.Frozen.String(),
		})
	}
	if s.Adopt != nil {
		list = append(list, api.Waiting{
			Kind: api.WaitingAdopt, What: "The fleet follows another repo", More: s.Adopt.To,
		})
	}
	return list
}

// gateOf returns the gate that a rollout waits at, since its wave has passed.
func gateOf(r *status.Rollout) api.Waiting {
	w := api.Waiting{
		Kind: api.WaitingGate, ID: r.Name, Commit: r.Commit, Since: r.Started, What: "The gate after wave " + r.Name,
		More: fmt.Sprintf("%s runs on %d of the %d peels of the wave, %d failed", r.Commit.Short(), r.Applied, r.Peels,
			r.Failed),
	}
	if i := r.Wave - 1; i >= 0 && i < len(r.Steps) && !r.Steps[i].Passed.IsZero() {
		w.Since = r.Steps[i].Passed
	}
	return w
}
