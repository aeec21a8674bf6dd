package view

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A FleetState is the state of the fleet in one word.
type FleetState string

// The states of the fleet.
const (
	FleetOk      FleetState = "ok"
	FleetFail    FleetState = "fail"
	FleetLate    FleetState = "late"
	FleetUnknown FleetState = "unknown" // what is behind the verdict is old, or cannot be read
)

// Now is whether anything is wrong, since when, and which commit it followed.
type Now struct {
	State    FleetState                `json:"state"`
	Doubt    string                    `json:"doubt,omitempty"` // why the state is unknown
	Problems []api.Problem             `json:"problems"`        // the worst first
	Fleet    *api.Problems             `json:"fleet,omitempty"` // nil: not known
	Sync     Extra[status.Sync]        `json:"sync"`
	Day      Extra[api.Timeline]       `json:"day"`
	History  Extra[status.History]     `json:"-"`
	Alerts   Extra[api.AlertsAnswer]   `json:"alerts"`
	Waiting  []Waiting                 `json:"waiting"`
	Active   Extra[api.ActiveJobs]     `json:"-"`
	Audit    Extra[audit.Page]         `json:"-"`
	Held     Extra[api.HoldPage]       `json:"-"`
	Enrolled Extra[api.EnrolledAnswer] `json:"-"`
}

// auditTail is how many entries of the audit log Now shows.
const auditTail = 5

// NowOf returns what is wrong now. A source that cannot be read makes the state unknown, and is no error of the page.
func NowOf(ctx context.Context, by api.Asker) *Now {
	v := &Now{Problems: []api.Problem{}, Waiting: []Waiting{}}
	problems, err := api.ProblemList.Ask(ctx, by, api.ProblemsRequest{})
	if err != nil {
		v.Doubt = err.Error()
	} else {
		v.Fleet = problems
		v.Problems = append(v.Problems, problems.Problems...)
	}
	v.Sync = ask(ctx, by, api.SyncStatus, api.None{})
	v.Day = ask(ctx, by, api.TimelineShow, api.TimelineRequest{})
	v.History = ask(ctx, by, api.SyncHistory, api.None{})
	v.Alerts = ask(ctx, by, api.AlertList, api.AlertsRequest{})
	v.Held = ask(ctx, by, api.HoldList, api.HoldQuery{})
	v.Enrolled = ask(ctx, by, api.EnrollList, api.None{})
	v.Active = ask(ctx, by, api.JobActive, api.None{})
	v.Audit = ask(ctx, by, api.AuditList, audit.Query{Limit: auditTail})
	if v.Sync.Value != nil {
		v.Problems = append(v.Problems, ofSync(v.Sync.Value)...)
	} else {
		v.Doubt = cmp.Or(v.Doubt, v.Sync.Error)
	}
	sorting.Stable(v.Problems, func(a, b api.Problem) int {
		return cmp.Compare(verdict.Rank(a.Class, a.ByHand), verdict.Rank(b.Class, b.ByHand))
	})
	v.Waiting = waitingOf(v.Sync.Value, v.Held.Value, v.Enrolled.Value)
	v.State = stateOf(v.Problems, v.Doubt)
	return v
}

// Worst is the worst problem; nil: there is none.
func (v *Now) Worst() *api.Problem {
	if len(v.Problems) == 0 {
		return nil
	}
	return &v.Problems[0]
}

// Suspect is the commit that the worst problem followed; nil: none explains it.
func (v *Now) Suspect() *cause.Finding {
	if w := v.Worst(); w != nil && w.Finding != nil && w.Finding.Word != cause.None {
		return w.Finding
	}
	return nil
}

// stateOf returns the state of the fleet. Doubt never becomes a word of health.
func stateOf(problems []api.Problem, doubt string) FleetState {
	state := FleetOk
	if doubt != "" {
		state = FleetUnknown
	}
	if len(problems) == 0 {
		return state
	}
	switch p := problems[0]; p.Class {
	case verdict.Failed, verdict.Missed, verdict.Refused, verdict.Stalled, verdict.WaveFailed, verdict.StateFailed:
		return FleetFail
	case verdict.Held:
		return state
	}
	if problems[0].ByHand {
		return state
	}
	return FleetLate
}

// ofSync returns what is wrong with revisions and states.
func ofSync(s *status.Sync) (list []api.Problem) {
	for _, p := range verdict.OfRevision(s) {
		list = append(list, api.Problem{Class: p.Kind, Since: p.Since, Text: p.Text})
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

// A Waiting is something that waits for a person.
type Waiting struct {
	Kind  string    `json:"kind"` // held, plan, gate, freeze, facts, adopt or enroll
	ID    string    `json:"id,omitempty"`
	What  string    `json:"what"`
	More  string    `json:"more,omitempty"`
	Href  string    `json:"-"`
	Since time.Time `json:"since,omitzero"`
}

// waitingOf returns what waits for a person, the oldest first.
func waitingOf(s *status.Sync, held *api.HoldPage, enrolled *api.EnrolledAnswer) []Waiting {
	list := []Waiting{}
	if held != nil {
		for _, a := range held.Actions {
			w := Waiting{Kind: "held", ID: string(a.ID), Since: a.Created}
			w.Href = "/approvals/held/" + w.ID + "/approve"
			w.What = "An assistant asks for " + cmp.Or(a.Module, "a pause of "+a.Entry)
			w.More = a.Agent + ", for " + a.By + ": " + a.Reason
			list = append(list, w)
		}
	}
	if s != nil {
		list = append(list, ofHolds(s)...)
	}
	if enrolled != nil {
		for _, p := range enrolled.Peels {
			if p.State == "pending" {
				w := Waiting{Kind: "enroll", ID: string(p.ID)}
				w.Href = "/approvals/enroll/" + url.PathEscape(w.ID) + "/approve"
				w.What, w.More = string(p.ID)+" asks to join", "from "+p.From
				list = append(list, w)
			}
		}
	}
	sorting.Stable(list, func(a, b Waiting) int { return a.Since.Compare(b.Since) })
	return list
}

// ofHolds returns what revisions wait for.
func ofHolds(s *status.Sync) (list []Waiting) {
	commit := "/commits/" + string(s.LastAttempted)
	add := func(w Waiting, what, more, href string) {
		w.What, w.More, w.Href = what, more, href
		list = append(list, w)
	}
	if s.Blocked != "" {
		add(Waiting{Kind: "plan", ID: s.Blocked}, "The plan of a commit", string(s.LastAttempted), commit+"/approve")
	}
	if s.Facts != nil {
		add(Waiting{Kind: "facts", ID: s.Facts.Hash}, "New facts of peels", s.Facts.Reason, "/sync/facts")
	}
	if r := s.Rollout; r != nil && r.State == "gate" {
		gate := Waiting{Kind: "gate", ID: r.Name, Since: r.Started}
		add(gate, "The gate after wave "+r.Name, r.Reason, "/commits/"+string(r.Commit)+"/gate")
	}
	if s.Frozen != nil {
		held := "/commits/" + string(s.Frozen.Commit) + "/freeze"
		add(Waiting{Kind: "freeze"}, "A freeze holds a commit", s.Frozen.String(), held)
	}
	if s.Adopt != nil {
		add(Waiting{Kind: "adopt"}, "The fleet follows another repo", s.Adopt.To, "/sync/adopt")
	}
	return list
}
