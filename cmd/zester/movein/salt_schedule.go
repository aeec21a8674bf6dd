package movein

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const scheduleKey = "schedule"

// provenTimes is how many times of an entry are compared with the times in Salt.
const provenTimes = 100

// A job is a job of Salt's schedule on its way to an entry.
type job struct {
	left  map[string]any
	entry map[string]any
	rule  func(at time.Time) (time.Time, bool) // the next time after at, by Salt's rule
}

// entryOf returns the entry of a job of Salt. refs returns the settings files of an .sls file.
func entryOf(name string, raw map[string]any, refs func(sls string) []string, now time.Time) (map[string]any, error) {
	j := job{left: maps.Clone(raw), entry: map[string]any{}}
	for _, read := range []func() error{
		func() error { return j.function(refs) }, j.timing, j.splay, j.between, j.switches,
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(j.left)) {
		return nil, refuse("schedule: key %s", key)
	}
	return j.entry, j.prove(name, now)
}

func (j *job) take(key string) (any, bool) {
	v, ok := j.left[key]
	delete(j.left, key)
	return v, ok && v != nil
}

// function reads what the job runs.
func (j *job) function(refs func(sls string) []string) error {
	value, _ := j.take("function")
	args, _ := j.take("args")
	words, ok := texts(args)
	if args != nil && !ok {
		return refuse("schedule: args of another form")
	}
	kwargs, _ := j.take("kwargs")
	named, _ := kwargs.(map[string]any)
	out := map[string]any{}
	maps.Copy(out, named)
	switch name := plain(value); name {
	case "test.ping", "state.highstate":
		j.entry["module"] = name
	case "state.apply", "state.sls":
		j.entry["module"] = "state.apply"
		var all []string
		for _, word := range words {
			for sls := range strings.SplitSeq(word, ",") {
				of := refs(strings.TrimSpace(sls))
				if len(of) == 0 {
					return refuse("schedule: an .sls file that is not in the lowstate")
				}
				all = append(all, of...)
			}
		}
		if len(all) > 0 {
			out["refs"] = all
		}
		words = nil
	case "cmd.run":
		j.entry["module"] = name
		if len(words) != 1 {
			return refuse("schedule: cmd.run with other args than one command")
		}
		out["command"] = words[0]
		words = nil
		if user, ok := out["runas"]; ok {
			delete(out, "runas")
			out["user"] = user
		}
	default:
		return refuse("schedule: the function %s", name)
	}
	if len(words) > 0 {
		return refuse("schedule: args of %s", j.entry["module"])
	}
	if len(out) > 0 {
		j.entry["args"] = out
	}
	return nil
}

// timing reads when the job runs. A job that counts from the start of the minion runs at its start, unless it says
// otherwise.
func (j *job) timing() error {
	var interval time.Duration
	for _, unit := range []struct {
		key string
		of  time.Duration
	}{{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}, {"days", 24 * time.Hour}} {
		if v, ok := j.take(unit.key); ok {
			n, err := strconv.Atoi(plain(v))
			if err != nil || n < 0 {
				return refuse("schedule: %s of another form", unit.key)
			}
			interval += time.Duration(n) * unit.of
		}
	}
	expr, hasCron := j.take("cron")
	when, hasWhen := j.take("when")
	onStart, hasOnStart := j.take("run_on_start")
	switch {
	case interval > 0 && !hasCron && !hasWhen:
		j.entry["interval"], j.entry["interval_from"] = strictyaml.FormatDuration(interval), "start"
		if !hasOnStart || onStart == true {
			j.entry["run_on_start"] = true
		}
		j.rule = func(at time.Time) (time.Time, bool) { return at.Add(interval), true }
		return nil
	case hasCron && !hasWhen && interval == 0:
		return j.cron(plain(expr))
	case hasWhen && interval == 0:
		return j.when(when)
	}
	return refuse("schedule: no time, or several")
}

func (j *job) cron(expr string) error {
	if len(strings.Fields(expr)) != 5 {
		return refuse("schedule: a cron expression without 5 fields")
	}
	jobs, bad, err := crontab.Parse(expr+" true\n", "root")
	if err != nil || len(bad) > 0 || len(jobs) != 1 {
		return refuse("schedule: a cron expression that cron refuses")
	}
	j.entry["cron"] = expr
	j.rule = func(at time.Time) (time.Time, bool) {
		fires := crontab.Daemon{Host: time.UTC}.Fires(jobs[0].Times, at, at.AddDate(5, 0, 0), 1)
		if len(fires) == 0 {
			return time.Time{}, false
		}
		return fires[0], true
	}
	return nil
}

var (
	clockTime = regexp.MustCompile(`(?i)^(?:([a-z]+) )?(\d{1,2})(?::(\d{2}))?(?::00)? ?([ap]m)?$`)
	weekdays  = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
)

// A moment is a time of a day, or of a weekday.
type moment struct{ minute, hour, weekday int } // weekday -1: each day

// momentOf reads 5:00pm, 17:00 or Monday 9:00am.
func momentOf(text string) (moment, bool) {
	m := clockTime.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || m[3] == "" && m[4] == "" {
		return moment{}, false
	}
	hour, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(cmp.Or(m[3], "0"))
	if half := strings.ToLower(m[4]); half != "" {
		if hour < 1 || hour > 12 {
			return moment{}, false
		}
		hour %= 12
		if half == "pm" {
			hour += 12
		}
	}
	day := -1
	if m[1] != "" {
		day = slices.IndexFunc(weekdays, func(name string) bool {
			return len(m[1]) >= 3 && strings.HasPrefix(name, strings.ToLower(m[1]))
		})
		if day < 0 {
			return moment{}, false
		}
	}
	return moment{minute, hour, day}, hour < 24 && minute < 60
}

func (m moment) cron() string {
	day := "*"
	if m.weekday >= 0 {
		day = strconv.Itoa(m.weekday)
	}
	return fmt.Sprintf("%d %d * * %s", m.minute, m.hour, day)
}

// next returns the next time in UTC.
func (m moment) next(at time.Time) time.Time {
	at = at.UTC()
	for day := range 8 {
		t := time.Date(at.Year(), at.Month(), at.Day()+day, m.hour, m.minute, 0, 0, time.UTC)
		if t.After(at) && (m.weekday < 0 || int(t.Weekday()) == m.weekday) {
			return t
		}
	}
	panic("a week has each weekday")
}

// when reads one time or several. Salt reads each of them anew for each day, so that they repeat.
func (j *job) when(value any) error {
	words, ok := texts(value)
	if !ok || len(words) == 0 {
		return refuse("schedule: when of another form")
	}
	var moments []moment
	var exprs []string
	for _, word := range words {
		m, ok := momentOf(word)
		if !ok {
			return refuse("schedule: when that is no time of a day, such as 5:00pm or Monday 9:00am")
		}
		moments, exprs = append(moments, m), append(exprs, m.cron())
	}
	j.entry["cron"] = exprs
	if len(exprs) == 1 {
		j.entry["cron"] = exprs[0]
	}
	j.rule = func(at time.Time) (time.Time, bool) {
		first := moments[0].next(at)
		for _, m := range moments[1:] {
			if t := m.next(at); t.Before(first) {
				first = t
			}
		}
		return first, true
	}
	return nil
}

func (j *job) splay() error {
	value, ok := j.take("splay")
	if !ok {
		return nil
	}
	limits, isMap := value.(map[string]any)
	if !isMap {
		j.entry["splay"] = plain(value) + "s"
		return nil
	}
	j.entry["splay"] = map[string]any{
		"min": number(limits["start"], "0") + "s",
		"max": number(limits["end"], "0") + "s",
	}
	return nil
}

func (j *job) between() error {
	value, ok := j.take("range")
	if !ok {
		return nil
	}
	limits, _ := value.(map[string]any)
	start, isStart := momentOf(fmt.Sprint(limits["start"]))
	end, isEnd := momentOf(fmt.Sprint(limits["end"]))
	if !isStart || !isEnd || start.weekday >= 0 || end.weekday >= 0 {
		return refuse("schedule: a range that has no two times of a day")
	}
	if limits["invert"] == true {
		start, end = end, start
	}
	j.entry["only_between"] = fmt.Sprintf("%02d:%02d-%02d:%02d", start.hour, start.minute, end.hour, end.minute)
	return nil
}

func (j *job) switches() error {
	j.entry["return_job"] = true // as Salt does unless the job says otherwise
	for _, key := range []string{"enabled", "return_job"} {
		value, ok := j.take(key)
		if !ok {
			continue
		}
		on, isBool := value.(bool)
		switch {
		case !isBool:
			return refuse("schedule: %s of another form", key)
		case key == "return_job" && !on:
			delete(j.entry, key)
		case key == "enabled" && !on:
			j.entry[key] = false
		}
	}
	if value, ok := j.take("maxrunning"); ok {
		n, err := strconv.Atoi(plain(value))
		if err != nil {
			return refuse("schedule: maxrunning of another form")
		}
		j.entry["maxrunning"] = n
	}
	delete(j.left, "jid_include") // jobs here always have an ID
	return nil
}

// schedules returns a file for each group of hosts with equal entries.
func schedules(files []*slsFile, hosts []minion, hidden secrets, in SaltInput, report *tally) ([]*slsFile, error) {
	t := minionTargets(hosts, in.Target)
	groups := map[string]*slsFile{}
	var out []*slsFile
	for i, h := range hosts {
		refs := func(sls string) (all []string) {
			for _, f := range files {
				if f.sls == sls && f.hosts[i] {
					all = append(all, f.ref)
				}
			}
			return all
		}
		entries, err := entriesOf(h, refs, hidden, in.Now, report)
		if err != nil {
			return nil, err
		}
		if len(entries.Content) == 0 && entries.FootComment == "" {
			continue
		}
		text, err := encode(scheduleKey, entries)
		if err != nil {
			return nil, err
		}
		if groups[string(text)] == nil {
			f := &slsFile{hosts: map[int]bool{}, entries: entries}
			groups[string(text)] = f
			out = append(out, f)
		}
		groups[string(text)].hosts[i] = true
	}
	taken := map[string]bool{}
	for _, f := range files {
		taken[f.ref] = true
	}
	for _, f := range out {
		expr, hint := t.Of(f.hosts)
		f.expr, f.ref = expr, "salt-schedule"
		if len(out) > 1 {
			f.ref += "-" + hint
		}
		f.ref = claim(f.ref, taken)
	}
	return append(files, out...), nil
}

// entriesOf returns the entries of a host. Jobs that have no counterpart are in a comment.
func entriesOf(
	h minion, refs func(string) []string, hidden secrets, now time.Time, report *tally,
) (*yaml.Node, error) {
	entries := &yaml.Node{Kind: yaml.MappingNode}
	jobs, _ := h.Pillar[scheduleKey].(map[string]any)
	taken := map[string]bool{}
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		raw, isMap := jobs[name].(map[string]any)
		if !isMap {
			continue // such as enabled
		}
		base := strings.Trim(notInNames.ReplaceAllString(hidden.mask(name), "-"), "-.")
		d := Declaration{State: scheduleKey, Fun: "present", ID: name, args: raw, place: "the pillar: schedule." + base}
		key := identity(d)
		isNew := !report.seen[key]
		report.seen[key] = true
		entry, err := entryOf(base, raw, refs, now)
		if err == nil && hidden.in(entry) {
			err = refuse("schedule: a secret in an entry")
		}
		if reason, isRefusal := errors.AsType[*refusal](err); isRefusal {
			why := hidden.cover(reason.reason)
			report.add("refused", d, why, h.ID, isNew)
			if isNew {
				report.refused++
			}
			refused = append(refused, "not converted: "+hidden.mask(name)+": "+why)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("host %s, job %s: %w", h.ID, name, err)
		}
		label := valueNode(claim(base, taken))
		switch note := noteOn(entry); {
		case jobs["enabled"] == false || entry["enabled"] == false: // the whole schedule, or the job
			entry["enabled"] = false
		case note != "":
			report.add("note", d, note, h.ID, isNew)
			label.HeadComment = commentOn([]string{"note: " + note})
			if entry["module"] != "cmd.run" {
				entry["enabled"] = false
			}
		}
		entries.Content = append(entries.Content, label, valueNode(entry))
	}
	entries.FootComment = commentOn(refused)
	return entries, nil
}

// noteOn says what an entry does beside Salt, which goes on with its job until a person takes it out.
func noteOn(entry map[string]any) string {
	args, _ := entry["args"].(map[string]any)
	switch module := entry["module"]; {
	case module == "cmd.run":
		return "Salt's job goes on, and its command would run twice: remove it"
	case module != "test.ping" && args["test"] != true:
		return "it applies states, so it is off: take out enabled: false when zester import check '*' says that 0 " +
			"would change"
	}
	return ""
}

// prove reads the entry as a peel reads it, and compares its next times with those by Salt's rule. Splay and range
// move or skip these times in both programs.
func (j *job) prove(name string, now time.Time) error {
	text, err := encode(scheduleKey, valueNode(map[string]any{name: j.entry}))
	if err != nil {
		return err
	}
	doc, err := strictyaml.Parse(name, text)
	if err != nil {
		return err
	}
	set, err := schedule.ParseSet(doc.Get(scheduleKey))
	if err != nil {
		return refuse("schedule: %v", err)
	}
	timing, err := set[name].Timing(time.UTC)
	if err != nil {
		return err
	}
	at := now
	for range provenTimes {
		theirs, isDue := j.rule(at)
		ours, ok := timing.Next(at)
		if ok != isDue || ok && !ours.Equal(theirs) {
			return refuse("schedule: Salt runs it at %s, and an entry would run at %s", theirs.Format(time.RFC3339),
				ours.Format(time.RFC3339))
		}
		if !ok {
			return nil
		}
		at = theirs
	}
	return nil
}
