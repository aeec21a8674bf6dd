package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// PeelShow returns what masters know about a peel. A caller with limits gets its entries only within them, and no
// settings.
func (s *Server) PeelShow(ctx context.Context, from grants.Caller,
	q api.PeelRequest,
) (reply *api.PeelDetail, err error) {
	waited := s.gatherings.Do(ctx, func() { reply, err = s.peelShow(ctx, from, q) })
	return reply, cmp.Or(waited, err)
}

// peelShow leaves out what cannot be read, and says why.
func (s *Server) peelShow(ctx context.Context, from grants.Caller, q api.PeelRequest) (*api.PeelDetail, error) {
	within, err := s.within(ctx, from)
	if err != nil {
		return nil, err
	}
	facts, ok := s.o.Fleet.Index().Get(q.Peel)
	if !ok || !within.Has(q.Peel) {
		return nil, fmt.Errorf("%w: %q has never told its facts", errNoPeel, q.Peel)
	}
	d := &api.PeelDetail{Peel: s.peel(q.Peel), Lacks: map[string]string{}, Jobs: []job.Job{}}
	d.Facts = facts
	d.Entries.Rows, d.Settings.Rows = []api.PeelEntry{}, []api.PeelSetting{}
	lacks := func(part string, err error) {
		if err != nil {
			d.Lacks[part] = err.Error()
		}
	}
	when, err := s.addSettings(ctx, from, d)
	lacks(api.PartSettings, err)
	lacks(api.PartReport, s.addReport(ctx, from, d))
	lacks(api.PartEntries, s.addEntries(ctx, from, d, when))
	lacks(api.PartStates, s.addPeelStates(ctx, from, d))
	lacks(api.PartCredential, s.addCredential(ctx, from, d))
	jobs := api.JobList.Extra(ctx, s.For(from), job.Query{Target: q.Peel, Limit: api.MaxPeelJobs})
	if jobs.Value != nil {
		d.Jobs = append(d.Jobs, jobs.Value.Jobs...)
	} else {
		d.Lacks[api.PartJobs] = jobs.Error
	}
	return d, nil
}

// addEntries adds the entries of a peel within the limits of the caller. when has their timing by name.
func (s *Server) addEntries(ctx context.Context, from grants.Caller, d *api.PeelDetail, when map[string]string) error {
	if s.o.Coverage == nil {
		return errNoCoverage
	}
	within, err := s.coveredFor(ctx, from, "")
	if err != nil {
		return err
	}
	if within != nil && !within[d.ID] {
		return fmt.Errorf("%w to know its entries", grants.ErrNotAllowed)
	}
	known, err := s.o.Coverage.Detail(d.ID, time.Now().Add(-coverageDefault))
	if err != nil {
		return err
	}
	rows := make([]api.PeelEntry, 0, len(known.Rows))
	for _, r := range known.Rows {
		rows = append(rows, api.PeelEntry{
			CoverageRow: coverageRow(r), When: when[r.Entry], Local: r.Local, Running: r.Running,
			Started: r.Started, Ended: r.Ended, Problem: worstWith(r.Entry, known.Problems),
		})
	}
	sorting.Stable(rows, func(a, b api.PeelEntry) int { return cmp.Compare(rankOf(&a), rankOf(&b)) })
	d.Entries.Total = len(rows)
	d.Entries.Rows = rows[:min(len(rows), api.MaxPeelRows)]
	if d.Report != nil {
		d.Report.Schedule, d.Report.ClockOffset = known.Reported, known.Offset
	}
	d.Worst = worstWith("", known.Problems)
	if len(rows) > 0 && (d.Worst == nil || rankOf(&rows[0]) < verdict.Rank(d.Worst.Class, false)) {
		d.Worst = rows[0].Problem
	}
	return nil
}

// worstWith returns the worst problem with an entry of a peel, or with the peel as a whole for the empty name; nil if
// there is none.
func worstWith(entry string, problems []verdict.Problem) (worst *api.PeelProblem) {
	for _, p := range problems {
		if p.Entry == entry && (worst == nil || verdict.Rank(p.Kind, false) < verdict.Rank(worst.Class, false)) {
			worst = &api.PeelProblem{Class: p.Kind, Entry: p.Entry, Since: p.Since, Text: p.Text}
		}
	}
	return worst
}

// rankOf orders entries by their problems, the worst first; entries without one are the last.
func rankOf(e *api.PeelEntry) int {
	if e.Problem == nil {
		return math.MaxInt
	}
	return verdict.Rank(e.Problem.Class, e.State == pausedByHand)
}

// pausedByHand is the state of an entry that a person has paused.
const pausedByHand = "paused_manual"

// addSettings adds the settings that were last written for a peel. It returns the timing of its entries in English.
func (s *Server) addSettings(ctx context.Context, from grants.Caller, d *api.PeelDetail) (map[string]string, error) {
	isLimited, err := s.isLimited(ctx, from)
	if err == nil && isLimited {
		err = fmt.Errorf("%w to read settings: a caller with limits reads none", grants.ErrNotAllowed)
	}
	if err == nil && s.o.Readable != nil {
		_, err = s.o.Readable(ctx, from, []target.PeelID{d.ID})
	}
	if err != nil {
		return nil, err
	}
	doc, _, err := s.documents.Get(ctx, d.ID)
	if err != nil || doc == nil {
		return nil, err
	}
	values, err := doc.Values()
	if err != nil {
		return nil, err
	}
	all, err := settingsOf(values, doc.Origins)
	d.Settings = api.PeelSettings{
		Commit: doc.Commit, Generation: doc.Generation, Total: len(all), Rows: all[:min(len(all), api.MaxPeelRows)],
	}
	return timings(d.ID, values), err
}

// settingsOf returns settings by key: each schedule entry and each state is a row.
func settingsOf(values map[string]any, origins map[string]settings.Origin) (rows []api.PeelSetting, err error) {
	add := func(key, origin string, value any) {
		row := api.PeelSetting{Key: key}
		if o, ok := origins[origin]; ok && origin != "" {
			row.Origin = &o
		}
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err = enc.Encode(value); err != nil {
			return
		}
		row.Value = head(strings.TrimSuffix(text.String(), "\n"))
		rows = append(rows, row)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		named, isMap := values[key].(map[string]any)
		switch {
		case key == state.CompiledKey: // is of the peel alone
		case isMap && key == scheduleKey:
			for _, name := range slices.Sorted(maps.Keys(named)) {
				add(key+":"+name, name, named[name])
			}
		case isMap && key == state.Key:
			for _, name := range slices.Sorted(maps.Keys(named)) {
				add(key+":"+name, settings.StateOrigin+name, named[name])
			}
		default:
			add(key, "", values[key])
		}
		if err != nil {
			return rows, fmt.Errorf("cannot write the setting %s as JSON: %w", key, err)
		}
	}
	return rows, nil
}

// scheduleKey is the key of settings with the schedule entries.
const scheduleKey = "schedule"

// head returns the first characters of a value.
func head(text string) string {
	if len(text) <= api.MaxPeelValue {
		return text
	}
	runes := []rune(text)
	if len(runes) <= api.MaxPeelValue {
		return text
	}
	return string(runes[:api.MaxPeelValue-1]) + "…"
}

// timings returns the timing of each entry of settings in English. A refused entry has none.
func timings(id target.PeelID, values map[string]any) map[string]string {
	when := map[string]string{}
	if entries, ok := values[scheduleKey]; ok {
		set, _ := schedule.ParseSet(strictyaml.FromValue("the settings of "+string(id), entries))
		for name, e := range set {
			when[name] = e.Explain()
		}
	}
	return when
}

// addReport adds what a peel runs, as the master that leads knows it.
func (s *Server) addReport(ctx context.Context, from grants.Caller, d *api.PeelDetail) error {
	ctx, cancel := context.WithTimeout(ctx, statesTime)
	defer cancel()
	page, err := api.SyncPeels.Ask(ctx, s.For(from), status.PeelsRequest{Peels: []target.PeelID{d.ID}})
	if err != nil {
		return err
	}
	for _, p := range page.Peels {
		if p.Peel == d.ID {
			d.State, d.Commit = p.State, p.Commit
			d.Report = &api.PeelReport{Peel: p}
		}
	}
	return nil
}

// addPeelStates adds the newest run of the states of a peel.
func (s *Server) addPeelStates(ctx context.Context, from grants.Caller, d *api.PeelDetail) error {
	ctx, cancel := context.WithTimeout(ctx, statesTime)
	defer cancel()
	page, err := api.SyncStates.Ask(ctx, s.For(from), status.PeelsRequest{Peels: []target.PeelID{d.ID}})
	if err != nil {
		return err
	}
	for i := range page.Peels {
		if page.Peels[i].Peel == d.ID { // an older master ignores which peels are requested
			d.States = &page.Peels[i]
		}
	}
	return nil
}

// joined returns when a peel was accepted last; zero: never, or that is no longer known.
func joined(history []credential.Step) (at time.Time) {
	for _, step := range history {
		if step.State == credential.Accepted {
			at = step.Time
		}
	}
	return at
}

// addCredential adds when a peel joined and when its credential ends, for callers who may list hosts.
func (s *Server) addCredential(ctx context.Context, from grants.Caller, d *api.PeelDetail) error {
	may, err := s.listsHosts(ctx, from)
	if err != nil || !may {
		return err
	}
	page, err := api.EnrollList.Ask(ctx, s.For(from), api.EnrollQuery{ID: d.ID})
	if err != nil {
		return err
	}
	for i := range page.Peels {
		if page.Peels[i].ID == d.ID {
			d.Ends, d.Joined = page.Peels[i].Expires, joined(page.Peels[i].History)
		}
	}
	return nil
}
