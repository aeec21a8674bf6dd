package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Commits are the newest commits of the config repo, and what became of them.
type Commits struct {
	Attempts []status.Attempt       `json:"attempts"`
	Sync     api.Extra[status.Sync] `json:"-"`
}

// CommitsOf returns the commits that the master that leads knows.
func CommitsOf(ctx context.Context, by api.Asker) (*Commits, error) {
	history, err := api.SyncHistory.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	attempts := history.Attempts[:min(Rows, len(history.Attempts))]
	return &Commits{Attempts: attempts, Sync: api.SyncStatus.Extra(ctx, by, api.None{})}, nil
}

// Commit is one commit, and how it goes out.
type Commit struct {
	Attempt status.Attempt  `json:"attempt"`
	InForce bool            `json:"in_force"`
	Rollout *status.Rollout `json:"rollout,omitempty"` // while it goes out in waves
	Waves   []status.Wave   `json:"waves,omitempty"`   // in which it goes out or went out, as far as they are known
	Counts  *status.Counts  `json:"counts,omitempty"`  // of the revision in force
	// Before is the revision that peels had before this one, if masters still have it; empty: there is none.
	Before settings.Commit `json:"before,omitempty"`
	// Back is how a person went back from this revision or a newer one to an older one; nil: nobody did.
	Back *Return `json:"back,omitempty"`
	// Problems are those that it explains, the worst first. Doubt is why they are not known; empty: they are.
	Problems []api.Problem `json:"problems,omitempty"`
	Doubt    string        `json:"doubt,omitempty"`
	// Behind are at most [Rows] peels that have not applied it, if it is in force and there are such peels.
	Behind api.Extra[status.SyncPeelsPage] `json:"behind,omitzero"`
	// Change is what it changed, and Runs are those of the entries that it changed, since the hour in which it came.
	Change api.Extra[status.CommitChange] `json:"change"`
	Runs   []api.CoverageRow              `json:"runs,omitempty"`
}

// CommitOf returns the newest attempt with a commit whose first digits are hash.
func CommitOf(ctx context.Context, by api.Asker, hash string) (*Commit, error) {
	all, err := CommitsOf(ctx, by)
	if err != nil {
		return nil, err
	}
	for i, a := range all.Attempts {
		if len(hash) < status.MinRevision || !strings.HasPrefix(string(a.Commit), hash) {
			continue
		}
		v := &Commit{Attempt: a, Waves: a.Steps, Back: all.Back(i)}
		if s := all.Sync.Value; s != nil {
			v.InForce = s.LastGood.Commit == a.Commit
			if s.Rollout != nil && s.Rollout.Commit == a.Commit {
				v.Rollout, v.Waves = s.Rollout, s.Rollout.Steps
			}
			if v.InForce {
				v.Counts = &s.Counts
			}
			if v.InForce || v.Rollout != nil {
				v.Before = before(a.Commit, all.Attempts[i+1:])
			}
		}
		return v, nil
	}
	return nil, &api.Error{Code: api.CodeNotFound, Msg: "no commit of the history begins with " + hash}
}

// A Return is an order of a person that put an earlier revision into force again.
type Return struct {
	By   string          `json:"by"`
	From settings.Commit `json:"from"`
	To   settings.Commit `json:"to"`
}

// Back returns how a person went back to a commit that is older than attempt i; nil: nobody did since the commit of
// this attempt was last tried.
func (v *Commits) Back(i int) *Return {
	for j := i - 1; j >= 0 && v.Attempts[j].Commit != v.Attempts[i].Commit; j-- {
		later := &v.Attempts[j]
		was := func(a status.Attempt) bool { return a.Commit == later.Commit }
		if later.By != "" && slices.ContainsFunc(v.Attempts[i+1:], was) {
			return &Return{later.By, v.Attempts[j+1].Commit, later.Commit}
		}
	}
	return nil
}

// Failed returns how many runs of the entries that it changed failed, see [Commit.AddChange].
func (v *Commit) Failed() (n uint64) {
	for i := range v.Runs {
		n += v.Runs[i].Failed
	}
	return n
}

// AddProblems adds what is wrong since the commit came.
func (v *Commit) AddProblems(ctx context.Context, by api.Asker) {
	all := api.ProblemList.Extra(ctx, by, api.ProblemsRequest{})
	if v.Doubt = all.Error; all.Value == nil {
		return
	}
	for _, p := range all.Value.Problems {
		if f := p.Finding; f != nil && f.Word != cause.None && f.Commit == v.Attempt.Commit {
			v.Problems = append(v.Problems, p)
		}
	}
}

// AddBehind adds the peels after a cursor that have not applied the commit.
func (v *Commit) AddBehind(ctx context.Context, by api.Asker, after target.PeelID) {
	if v.Counts == nil || v.Counts.Applied == v.Counts.Peels {
		return
	}
	v.Behind = api.SyncPeels.Extra(ctx, by, status.PeelsRequest{Cursor: after, Behind: true})
	if page := v.Behind.Value; page != nil && len(page.Peels) > Rows {
		page.Peels, page.Next = page.Peels[:Rows], page.Peels[Rows-1].Peel
	}
}

// AddChange adds what the commit changed, and the first runs of that.
func (v *Commit) AddChange(ctx context.Context, by api.Asker) {
	q := status.CommitRequest{Revision: string(v.Attempt.Commit)}
	v.Change = api.SyncCommit.ExtraWithin(ctx, by, q, changeTime)
	if v.Change.Value == nil || v.Change.Value.Change == nil || time.Since(v.Attempt.Began) > runsKnown {
		return
	}
	touched := map[string]bool{}
	for _, g := range v.Change.Value.Change.Groups {
		for _, name := range slices.Concat(g.Added, g.Changed) {
			touched[name] = true
		}
	}
	all := api.CoverageList.Extra(ctx, by, api.CoverageRequest{Since: v.Attempt.Began}).Value
	if all == nil {
		return
	}
	for i := range all.Rows {
		if touched[all.Rows[i].Entry] && len(v.Runs) < mostRuns {
			v.Runs = append(v.Runs, all.Rows[i])
		}
	}
}

const (
	// changeTime is how long the page of a commit waits for what the commit changed. The reconciler compiles two
	// revisions for the first request, which takes half a second at 10,000 peels. Later requests get the kept result.
	changeTime = 3 * time.Second

	runsKnown = 35 * 24 * time.Hour // for which masters know what became of runs
	mostRuns  = 20                  // entries of a commit whose runs are counted
)

// before returns the newest of older attempts whose commit was in force, is another one and can be pinned; empty: none.
func before(commit settings.Commit, older []status.Attempt) settings.Commit {
	for _, a := range older {
		if a.Commit != commit && a.Outcome == status.OutcomeApplied && a.Stored {
			return a.Commit
		}
	}
	return ""
}

// System is the state of the masters and of their bus.
type System struct {
	Health  api.Health             `json:"health"`
	Sync    api.Extra[status.Sync] `json:"sync"`
	Problem string                 `json:"problem,omitempty"` // the worst; empty: none is known
}

// SystemOf returns it.
func SystemOf(ctx context.Context, by api.Asker) (*System, error) {
	h, err := api.MasterShow.Ask(ctx, by, api.None{})
	if err != nil {
		return nil, err
	}
	v := &System{Health: *h, Sync: api.SyncStatus.Extra(ctx, by, api.None{})}
	switch {
	case h.Storage != "":
		v.Problem = "The bus stores nothing: " + h.Storage
	case len(h.Unreadable) > 0:
		v.Problem = "Records of people or tokens cannot be read"
	case !h.Led:
		v.Problem = "No master leads the config repo"
	}
	for _, s := range h.Streams {
		if v.Problem == "" && s.Full() > 0.9 {
			v.Problem = "The stream " + s.Name + " is almost full"
		}
	}
	return v, nil
}

// Access is who may do what.
type Access struct {
	Users    api.Extra[api.UsersAnswer]      `json:"users"`
	Roles    api.Extra[api.RolesAnswer]      `json:"roles"`
	Tokens   api.Extra[api.TokensAnswer]     `json:"tokens"`
	Join     api.Extra[api.JoinTokensAnswer] `json:"join"`
	Sessions api.Extra[api.SessionsAnswer]   `json:"sessions"`
	Role     string                          `json:"role,omitempty"` // whose rules are shown as written
	May      May                             `json:"may"`
}

// A May is a question about who may send a request, and its answer.
type May struct {
	// Name is the person; if empty, the question is who may.
	Name, Verb, On, Function, Args string // as they were typed

	Person  *api.Access     `json:"person,omitempty"`
	People  *api.AccessPage `json:"people,omitempty"`
	Problem string          `json:"problem,omitempty"` // why there is no answer
}

// Ask asks the masters. An error is about the question and goes into the answer.
func (m *May) Ask(ctx context.Context, by api.Asker, q api.AccessRequest) {
	var err error
	if m.Name == "" {
		m.People, err = api.AccessList.Ask(ctx, by, q)
	} else {
		m.Person, err = api.UserExplain.Ask(ctx, by, q)
	}
	if err != nil {
		m.Problem = err.Error()
	}
}

// AccessOf returns people and tokens after a name of each, roles and sessions, each without the others if it cannot be
// read.
func AccessOf(ctx context.Context, by api.Asker, people, tokens string) *Access {
	v := &Access{
		Users:    api.UserList.Extra(ctx, by, api.NamesRequest{After: people}),
		Roles:    api.RoleList.Extra(ctx, by, api.None{}),
		Tokens:   api.TokenList.Extra(ctx, by, api.NamesRequest{After: tokens}),
		Join:     api.JoinList.Extra(ctx, by, api.None{}),
		Sessions: api.SessionList.Extra(ctx, by, api.None{}),
	}
	if u := v.Users.Value; u != nil && len(u.Users) > Rows {
		u.Users, u.Next = u.Users[:Rows], u.Users[Rows-1].Name
	}
	if t := v.Tokens.Value; t != nil && len(t.Tokens) > Rows {
		t.Tokens, t.Next = t.Tokens[:Rows], t.Tokens[Rows-1].Name
	}
	return v
}

// Audit is a page of the audit log.
type Audit struct {
	Query audit.Query `json:"query"`
	Page  audit.Page  `json:"page"`
}

// AuditOf returns the entries of a query.
func AuditOf(ctx context.Context, by api.Asker, q audit.Query) (*Audit, error) {
	q.Limit = Rows
	page, err := api.AuditList.Ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	return &Audit{Query: q, Page: *page}, nil
}
