package page

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A kindLook is how a class of problems is shown.
type kindLook struct {
	tone Tone
	word string // on its chip
	one  string // what an entry does on peels
}

var kindLooks = map[verdict.Kind]kindLook{
	verdict.Failed:       {Fail, "failing", "fails on"},
	verdict.Missed:       {Late, "missed", "did not run on"},
	verdict.Refused:      {Fail, "refused", ""},
	verdict.Stalled:      {Fail, "stalled", ""},
	verdict.WaveFailed:   {Fail, "rolled back", ""},
	verdict.Paused:       {Pause, "paused", "is paused on"},
	verdict.Late:         {Late, "late", "started late on"},
	verdict.Overran:      {Late, "overran", "overran on"},
	verdict.StateFailed:  {Fail, "states fail", ""},
	verdict.Drifted:      {Drift, "by hand", ""},
	verdict.Disagrees:    {Late, "disagrees", "disagrees on"},
	verdict.NotReporting: {Silent, "not reporting", ""},
	verdict.Held:         {Wait, "waits", ""},
}

// ProblemTone returns the colour of a class of problems.
func ProblemTone(k verdict.Kind) Tone { return kindLooks[k].tone }

// problemWord returns the word of a class of problems.
func problemWord(k verdict.Kind) string { return kindLooks[k].word }

// problemTail says what is wrong, after the name of the entry if there is one.
func problemTail(p *api.Problem) string {
	if p.Entry != "" {
		return " " + kindLooks[p.Class].one + " " + Plural(p.Peels, "peel")
	}
	switch p.Class {
	case verdict.NotReporting:
		return Counted(p.Peels, "peel does not report", "peels do not report")
	case verdict.Disagrees:
		return Counted(p.Peels, "peel is not as masters expect", "peels are not as masters expect")
	case verdict.StateFailed:
		return Counted(p.Peels, "host has states that fail", "hosts have states that fail")
	case verdict.Drifted:
		return Counted(p.Peels, "host was changed by hand", "hosts were changed by hand")
	case verdict.Refused:
		return aboutCommit(p) + " is refused"
	case verdict.Stalled:
		return "No commit can go out"
	case verdict.WaveFailed:
		return aboutCommit(p) + " was rolled back"
	case verdict.Held:
		return aboutCommit(p) + " waits for a person"
	}
	return string(p.Class)
}

// pinOf returns the pin of the fleet if a problem is that new commits wait for its end; else nil.
func pinOf(v *view.Now, p *api.Problem) *status.Pin {
	s := v.Sync.Value
	if p.Class != verdict.Held || s == nil || s.Pinned == nil {
		return nil
	}
	for _, c := range s.Conditions {
		if c.Type == status.Suspended && c.Status && strings.HasSuffix(p.Text, c.Message) {
			return s.Pinned
		}
	}
	return nil
}

// aboutCommit names the commit that a problem is about, as the first words of a sentence.
func aboutCommit(p *api.Problem) string {
	if p.Commit == "" {
		return "The newest commit"
	}
	return "Commit " + Short(string(p.Commit))
}

// problemHref leads to what a problem without an entry is about.
func problemHref(p *api.Problem) string {
	switch {
	case p.Commit != "":
		return "/commits/" + url.PathEscape(string(p.Commit))
	case p.Class == verdict.StateFailed || p.Class == verdict.Drifted:
		return "/states"
	case p.Class == verdict.NotReporting || p.Class == verdict.Disagrees:
		return "/peels?class=" + url.QueryEscape(string(p.Class))
	}
	return "/commits"
}

// certainty says how certain the cause of a problem is.
func certainty(p *api.Problem) string {
	f := p.Finding
	switch {
	case p.Class == verdict.Drifted:
		return "A hand, not a commit"
	case p.Commit != "":
		return "The commit itself"
	}
	if f == nil || f.Word == cause.None || f.Commit == "" {
		return "No commit explains it"
	}
	if f.Word == cause.Likely {
		return "Likely cause: "
	}
	return "Possible cause: "
}

func hasCommit(f *cause.Finding) bool { return f != nil && f.Word != cause.None && f.Commit != "" }

// causeWords is the text of a cause without what stands before it on the page: that no commit explains the problem, or
// which may.
func causeWords(f *cause.Finding) string {
	text := f.Text
	before, after, found := strings.Cut(text, ": ")
	if found && (!hasCommit(f) || strings.Contains(before, f.Commit.Short())) {
		text = after
	}
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// causeWord is the value of data-cause.
func causeWord(f *cause.Finding) string {
	if f == nil {
		return string(cause.None)
	}
	return string(f.Word)
}

// leadTone returns the shape beside the verdict.
func leadTone(s api.FleetState) Tone {
	switch s {
	case api.FleetOk:
		return Ok
	case api.FleetFail:
		return Fail
	case api.FleetLate:
		return Late
	}
	return Silent
}

// calm is the verdict without a problem.
func calm(v *view.Now) string {
	switch {
	case v.State == api.FleetUnknown:
		return "It is not known whether the fleet is well"
	case v.Fleet == nil || v.Fleet.Peels == 0:
		return "No peel has a schedule yet"
	}
	if v.Fleet.Peels == 1 {
		return "The only peel does what Git says"
	}
	return "All " + Plural(v.Fleet.Peels, "peel") + " do what Git says"
}

// DayOf returns the day of the fleet as a picture.
func DayOf(ctx context.Context, v *view.Now) *Day {
	d := &Day{Zone: env(ctx).Zone}
	if v.Day.Value == nil {
		return d
	}
	d.Now = v.Day.Value.Now
	d.Hours = hoursOf(v.Day.Value.Hours)
	for _, h := range v.Day.Value.Ahead {
		d.Ahead = append(d.Ahead, Ahead{At: h.At, Expected: h.Expected})
	}
	if v.History.Value == nil {
		return d
	}
	suspect := v.Suspect()
	for i := len(v.History.Value.Attempts) - 1; i >= 0; i-- {
		a := &v.History.Value.Attempts[i]
		k := DayCommit{Name: Visible(Short(string(a.Commit))), Steps: stepsOf(a)}
		switch {
		case suspect != nil && suspect.Commit == a.Commit:
			k.State = Suspect
		case a.Outcome == status.OutcomeRejected:
			k.State = Refused
		}
		d.Commits = append(d.Commits, k)
	}
	return d
}

// stepsOf returns which share of its peels a commit had reached over time. Without waves all peels get it at once.
func stepsOf(a *status.Attempt) (list []Step) {
	for i := range a.Steps {
		w := &a.Steps[i]
		if w.Began.IsZero() || w.Changes == 0 {
			continue
		}
		list = append(list, Step{At: w.Began, Share: float64(w.Peels) / float64(w.Changes)})
		if i == len(a.Steps)-1 && !w.Passed.IsZero() {
			list = append(list, Step{At: w.Passed, Share: 1})
		}
	}
	if len(list) == 0 {
		list = append(list, Step{At: a.Began, Share: 1})
	}
	if a.Outcome == status.OutcomeRolledBack {
		list = append(list, Step{At: a.Ended})
	}
	return list
}

func hoursOf(hours []api.TimelineHour) (list []Hour) {
	for _, h := range hours {
		list = append(list, Hour{
			At: h.At, Expected: h.Expected, Ran: h.Ran, Failed: h.Failed, Missed: h.Missed, Unknown: h.Unknown,
		})
	}
	return list
}

// tallyOrder is the order of the classes of peels.
var tallyOrder = []verdict.Kind{
	verdict.Failed, verdict.Missed, verdict.Paused, verdict.Late, verdict.Overran,
	verdict.Disagrees, verdict.NotReporting,
}

// peelsMeter returns the peels by their worst problem.
func peelsMeter(p *api.Tally) (m Meter) {
	for _, kind := range tallyOrder {
		m = append(m, Piece{Class: "f-" + meterTone(kind), Word: problemWord(kind), N: p.By[kind]})
	}
	return append(m, Piece{Class: "m-ok", Word: "well", N: p.Well})
}

// meterTone returns the class of a piece of a meter.
func meterTone(k verdict.Kind) string {
	switch t := ProblemTone(k); t {
	case Pause, Wait:
		return string(Silent)
	default:
		return string(t)
	}
}

func entryHref(name string) string { return "/entries/" + url.PathEscape(name) }

// laneOf returns the lane of an entry.
func laneOf(v *api.Timeline, row *api.CoverageRow) *Lane {
	l := &Lane{Now: v.Now, Hours: hoursOf(v.Entries[row.Entry])}
	l.Until = v.Now.Add(v.Now.Sub(v.From) / 8)
	if row.Finding != nil && hasCommit(row.Finding) {
		l.Words = Visible(row.Entry + ": " + row.Finding.Text)
		return l
	}
	l.Words = fmt.Sprintf("%s: %s of %s ran, %s failed, %s missed, %s unknown",
		Visible(row.Entry), thousands(row.Ran), thousands(row.Expected),
		thousands(row.Failed), thousands(row.Missed), thousands(row.Unknown))
	return l
}

// rowTrouble says what is wrong with an entry, and its colour; empty if nothing is.
func rowTrouble(r *api.CoverageRow) (Tone, string) {
	switch {
	case r.Failed > 0:
		return Fail, thousands(r.Failed) + " failed"
	case r.Missed > 0:
		return Late, thousands(r.Missed) + " missed"
	case r.Unknown > 0:
		return Silent, thousands(r.Unknown) + " unknown"
	}
	return Ok, ""
}

// timelineAnswer is the headline of the timeline.
func timelineAnswer(v *view.Timeline) string {
	var failed, missed, unknown int
	for i := range v.All.Rows {
		switch t, _ := rowTrouble(&v.All.Rows[i]); t {
		case Fail:
			failed++
		case Late:
			missed++
		case Silent:
			unknown++
		}
	}
	if failed+missed+unknown == 0 {
		return "All that should have run did"
	}
	var words []string
	if failed > 0 {
		words = append(words, Counted(failed, "entry failed", "entries failed"))
	}
	if missed > 0 {
		words = append(words, Counted(missed, "entry missed runs", "entries missed runs"))
	}
	if unknown > 0 {
		words = append(words, Counted(unknown, "entry is partly unknown", "entries are partly unknown"))
	}
	return strings.Join(words, ", ")
}

// timelineHref returns the address of a timeline with another order, span or page.
func timelineHref(q view.TimelineQuery, span, sort string, skip int) string {
	values := url.Values{}
	for key, value := range map[string]string{"target": q.Target, "entry": q.Entry, "span": span, "sort": sort} {
		if value != "" {
			values.Set(key, value)
		}
	}
	if skip > 0 {
		values.Set("cursor", strconv.Itoa(skip))
	}
	if len(values) == 0 {
		return "/timeline"
	}
	return "/timeline?" + values.Encode()
}

// whyHref returns the address of the page about one fire.
func whyHref(entry, peel string) string {
	return entryHref(entry) + "/why?peel=" + url.QueryEscape(peel)
}

// entryTone returns how an entry is on a peel.
func entryTone(r *api.CoverageRow) (Tone, string) {
	if r.NotReporting {
		return Silent, "not reporting"
	}
	if tone, word := rowTrouble(r); word != "" {
		return tone, word
	}
	if r.State != "" && r.State != "active" {
		return Pause, r.State
	}
	return Ok, "ran"
}

// alertTone returns how an alert is shown.
func alertTone(state string) Tone {
	switch state {
	case api.AlertFiring:
		return Fail
	case api.AlertWaiting:
		return Wait
	}
	return Ok
}

func alertsAnswer(v *view.Alerts) string {
	n := 0
	for i := range v.Alerts {
		if v.Alerts[i].State == api.AlertFiring {
			n++
		}
	}
	if n == 0 {
		return "No alert is firing"
	}
	return Counted(n, "alert is firing", "alerts are firing")
}

func approvalsAnswer(v *api.Approvals) string {
	if len(v.Waiting) == 0 {
		return "Nothing waits for a person"
	}
	return Counted(len(v.Waiting), "thing waits for a person", "things wait for a person")
}

// A decision is where a person decides about something that waits, and the request that this sends.
type decision struct {
	noun, verb string
	href       func(api.Waiting) string
}

var decisions = map[api.WaitingKind]decision{
	api.WaitingHeld: {"hold", "approve", func(w api.Waiting) string {
		return "/approvals/held/" + url.PathEscape(w.ID) + "/approve"
	}},
	api.WaitingEnroll: {"enroll", "approve", func(w api.Waiting) string {
		return "/approvals/enroll/" + url.PathEscape(w.ID) + "/approve"
	}},
	api.WaitingPlan:   {"sync", "approve", func(w api.Waiting) string { return commitHref(w) + "/approve" }},
	api.WaitingGate:   {"sync", "approve", func(w api.Waiting) string { return commitHref(w) + "/gate" }},
	api.WaitingFreeze: {"sync", "approve", func(w api.Waiting) string { return commitHref(w) + "/freeze" }},
	api.WaitingFacts:  {"sync", "approve", func(api.Waiting) string { return "/sync/facts" }},
	api.WaitingAdopt:  {"sync", "adopt", func(api.Waiting) string { return "/sync/adopt" }},
}

func commitHref(w api.Waiting) string { return "/commits/" + url.PathEscape(string(w.Commit)) }

// HeatOf returns the load of the days to come as a table.
func HeatOf(ctx context.Context, l *api.Load) *Heat {
	runs := make([]float64, 0, len(l.Hours))
	for _, h := range l.Hours {
		runs = append(runs, h.Runs)
	}
	h := heatOf(l.From.In(env(ctx).Zone), runs)
	h.Words = heatUnit(h.Unit) + " that start in each hour of the next 7 days"
	return h
}

// heatUnit names what a cell counts.
func heatUnit(unit int) string {
	switch unit {
	case 1:
		return "Runs"
	case 1000:
		return "Thousands of runs"
	}
	return "Runs, in units of " + Number(unit) + ","
}

func loadPart(ctx context.Context, v *view.Timeline, request string) Part {
	p := Part{Name: "load", Heading: "Load of the next 7 days", Error: v.Load.Error, Request: request}
	l := v.Load.Value
	switch {
	case l == nil:
	case l.Worst.Runs == 0:
		p.Empty = "No schedule is due within 7 days."
	default:
		p.Note = heatUnit(HeatOf(ctx, l).Unit) + " an hour. " + worstMinute(ctx, &l.Worst)
	}
	return p
}

// worstMinute says when the most runs start, and names the entry with the largest share.
func worstMinute(ctx context.Context, m *api.LoadMinute) string {
	runs := Plural(int(math.Ceil(m.Runs)), "run")
	text := "Worst minute: " + m.At.In(env(ctx).Zone).Format("Mon 15:04") + ", " + runs
	if len(m.Entries) > 0 {
		text += ", mostly " + Visible(m.Entries[0].Entry)
	}
	return text + "."
}

// Counts are what stands beside the words of the navigation; active is nil if it is not known.
func Counts(n *api.Now, active *api.ActiveJobs) map[string]Count {
	counts := map[string]Count{}
	put := func(word string, number int, noun, kind string) {
		if number > 0 {
			counts[word] = Count{Text: Number(number) + noun, Kind: kind}
		}
	}
	if n.Fleet != nil {
		put("peels", n.Fleet.Peels, "", "")
	}
	if s := n.Sync.Value; s != nil {
		put("states", s.HostCounts[status.HostFailed]+s.HostCounts[status.HostDrifted], " differ", "")
		if s.Rollout != nil {
			put("commits", 1, " goes out", "")
		}
	}
	if a := n.Alerts.Value; a != nil {
		firing := 0
		for i := range a.Alerts {
			if a.Alerts[i].State == api.AlertFiring {
				firing++
			}
		}
		put("alerts", firing, " firing", "bad")
	}
	put("approvals", len(n.Waiting), " wait", "due")
	if active != nil {
		put("jobs", active.Total, " run", "")
	}
	return counts
}
