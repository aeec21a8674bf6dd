package diff_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var (
	tree, edit, fleet = plantest.Tree, plantest.Edit, plantest.Fleet
	compile           = plantest.Compile
)

const shop = `
-- top.yaml --
base:
  '*': [common]
  'web-*': [web]
-- settings/common.yaml --
note: common
schedule:
  a: {module: test.ping, interval: 1h}
  b: {module: test.ping, interval: 1h}
  c: {module: test.ping, interval: 1h}
-- settings/web.yaml --
schedule:
  w: {module: test.ping, interval: 1h}
`

var errDamaged = errors.New("damaged")

// steps compiles trees one after the other for a fleet.
type steps struct {
	t     *testing.T
	c     *plan.Compiler
	fleet *peelindex.Index
}

func begin(t *testing.T, peels ...string) steps {
	return steps{t, plan.NewCompiler(), fleet(peels...)}
}

func (s steps) compile(m fstest.MapFS) *plan.Plan { return compile(s.t, s.c, m, s.fleet) }

func (s steps) diff(base diff.Base, p *plan.Plan) *diff.Difference {
	s.t.Helper()
	d, err := diff.Make(base, p)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// describe writes groups as "peels: +added -removed ~retimed =swapped".
func describe(d *diff.Difference) string {
	var lines []string
	for _, g := range d.Groups {
		var words []string
		for sign, names := range map[string][]string{"+": g.Entries.Added, "-": g.Entries.Removed, "~": g.Entries.Retimed, "=": g.Entries.Swapped} {
			for _, n := range names {
				words = append(words, sign+n)
			}
		}
		slices.Sort(words)
		lines = append(lines, fmt.Sprintf("%v %v", g.Peels, words))
	}
	return strings.Join(lines, "; ")
}

func TestDiffGroupsPeelsByTheirChange(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	base := diff.Of(s.compile(tree(shop)))
	if d := s.diff(base, s.compile(tree(shop))); d.Writes() != 0 || d.Counts != (diff.Counts{Before: 11}) {
		t.Errorf("the same revision: %+v", d)
	}
	web := s.diff(base, s.compile(edit(tree(shop), `
-- settings/web.yaml --
schedule:
  a: {interval: 2h}
  b: {args: {x: 1}}
  c: null
  x: {module: test.ping, interval: 1h}
  w: {every: 1h, module: test.ping}
`)))
	if got := describe(web); got != "[web-01 web-02] [+x -c =b ~a]" || web.Writes() != 2 {
		t.Error(got)
	}
	if web.Counts != (diff.Counts{Before: 11, Added: 2, Changed: 4, Removed: 2}) {
		t.Errorf("%+v", web.Counts)
	}
	all := s.diff(base, s.compile(edit(tree(shop), "-- settings/common.yaml --\nnote: without a schedule\n")))
	if got := describe(all); got != "[db-01] [-a -b -c]; [web-01 web-02] [-a -b -c]" {
		t.Error(got)
	}
	settingsOnly := s.diff(base, s.compile(edit(tree(shop), "-- settings/web.yaml --\nport: 80\nschedule: {w: {module: test.ping, interval: 1h}}\n")))
	if got := describe(settingsOnly); got != "[web-01 web-02] []" {
		t.Error(got)
	}
}

func TestNewPeelsAreAddedAndUnknownOnesLeftAlone(t *testing.T) {
	s := begin(t, "web-01", "gone")
	base := diff.Of(s.compile(tree(shop)))
	s.fleet.Remove("gone")
	s.fleet.Put("new", nil)
	d := s.diff(base, s.compile(tree(shop)))
	if got := describe(d); got != "[new] [+a +b +c]" || d.Groups[0].Old != "" {
		t.Error(got)
	}
	if d.Counts != (diff.Counts{Before: 4, Added: 3}) {
		t.Errorf("%+v", d.Counts)
	}
}

func TestDiffWorksFromPublishedBytes(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	p := s.compile(tree(shop))
	next := s.compile(edit(tree(shop), "-- settings/web.yaml --\nschedule: {w: {module: test.ping, interval: 2h}}\n"))
	asked := map[settings.Digest]int{}
	from := diff.Of(p)
	published := diff.Base{Digests: from.Digests, Settings: func(d settings.Digest) (canon.Raw, error) {
		asked[d]++
		return from.Settings(d)
	}}
	d := s.diff(published, next)
	if got := describe(d); got != "[web-01 web-02] [~w]" || d.Counts.Before != 11 {
		t.Errorf("%s %+v", got, d.Counts)
	}
	if len(asked) != 1 || asked[p.Peels["web-01"].Digest] != 1 {
		t.Errorf("asked for %v", asked)
	}
	published.Settings = func(settings.Digest) (canon.Raw, error) { return nil, errDamaged }
	if _, err := diff.Make(published, next); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
	published.Settings = func(settings.Digest) (canon.Raw, error) { return canon.Raw{0xc1}, nil }
	if _, err := diff.Make(published, next); err == nil {
		t.Error("settings that cannot be decoded passed for empty ones")
	}
}

func TestPublishedEntriesThatThisBuildCannotReadCount(t *testing.T) {
	s := begin(t, "web-01")
	raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{
		"a": map[string]any{"module": "test.ping", "interval": "1h", "from_the_future": true},
		"z": map[string]any{"from_the_future": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	digest := settings.DigestOf(raw)
	base := diff.Base{
		Digests:  map[target.PeelID]settings.Digest{"web-01": digest},
		Settings: func(settings.Digest) (canon.Raw, error) { return raw, nil },
	}
	d := s.diff(base, s.compile(tree(shop)))
	if d.Counts != (diff.Counts{Before: 2, Added: 3, Changed: 1, Removed: 1}) {
		t.Errorf("%+v", d.Counts)
	}
}

func TestTheHashOfADifferenceDependsOnTheChangeOnly(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	base := diff.Of(s.compile(tree(shop)))
	change := edit(tree(shop), "-- settings/web.yaml --\nx: 1\n")
	one := s.diff(base, s.compile(change))
	again := begin(t, "db-01", "web-02", "web-01")
	if two := again.diff(base, again.compile(edit(change, "-- settings/unused.yaml --\na: 1\n"))); two.Hash != one.Hash || len(one.Hash) != 64 {
		t.Errorf("%s, then %s", one.Hash, two.Hash)
	}
	for name, other := range map[string]*diff.Difference{
		"other settings": s.diff(base, s.compile(edit(change, "-- settings/web.yaml --\nx: 2\n"))),
		"other base":     s.diff(diff.Of(s.compile(edit(change, "-- settings/web.yaml --\nx: 3\n"))), s.compile(change)),
		"nothing":        s.diff(base, s.compile(tree(shop))),
	} {
		if other.Hash == one.Hash {
			t.Errorf("%s: the same hash", name)
		}
	}
	s.fleet.Put("web-03", nil)
	if other := s.diff(base, s.compile(change)); other.Hash == one.Hash {
		t.Error("one more peel: the same hash")
	}
}

func TestGuardBlocksChangesThatAreRarelyIntended(t *testing.T) {
	many := []string{"db-01", "db-02", "db-03", "db-04", "db-05", "db-06", "db-07", "web-01", "web-02", "web-03"} // with 43 settings
	for _, c := range []struct {
		name  string
		peels []string
		edit  string
		want  string // in the reason, "" if it goes out
	}{
		{"nothing", many, "", ""},
		{"an entry that changes on a group", many, "-- settings/web.yaml --\nschedule: {a: null, w: {module: test.ping, interval: 3h}}\n", ""},
		{"two that go from a group", many, "-- settings/web.yaml --\nschedule: {a: null, b: null, w: {module: test.ping, interval: 1h}}\n", "6 of 43 settings over all peels would go with nothing in their place, more than remove: 10%"},
		{"an entry that leaves its last peel", many, "-- settings/web.yaml --\nschedule: {}\n", "no peel would have schedule.w any longer"},
		{"a value that leaves its last peel", many, strings.Replace(common, "note: common\n", "", 1), "no peel would have note any longer"},
		{"a value in the place of another", many, strings.Replace(common, "note: common\n", "note: other\n", 1), ""},
		{"most values", many, strings.ReplaceAll(common, "1h", "2h"), "30 of 43 settings over all peels would change or go, more than change: 50%"},
		{"an entry with another name", many, "-- settings/web.yaml --\nschedule: {x: {module: test.ping, interval: 2h}}\n", ""},
		{"an entry with another name and function", many, "-- settings/web.yaml --\nschedule: {x: {module: cmd.run, args: {command: x}, interval: 2h}}\n", "no peel would have schedule.w any longer"},
		{"a value of another key", many, strings.Replace(common, "note: common\n", "notes: common\n", 1), "no peel would have note any longer"},
		{"additions only", many, "-- settings/web.yaml --\nport: 80\nschedule: {w: {module: test.ping, interval: 1h}, x: {module: test.ping, interval: 1h}, y: {module: test.ping, interval: 1h}, z: {module: test.ping, interval: 1h}}\n", ""},
		{"everything of one peel", many, "-- top.yaml --\nbase: {'not web-03': [common], 'web-*': [web]}\n" + "-- settings/web.yaml --\nschedule: {w: null}\n", "would go from web-03"},
		{"a peel that nothing matches", many, "-- top.yaml --\nbase: {'not db-07': [common], 'web-*': [web]}\n", "would go from db-07"},
		{"all entries of one peel", many, "-- top.yaml --\nbase: {'*': [common], 'web-*': [web], 'web-03': [bare]}\n-- settings/bare.yaml --\nschedule: {a: null, b: null, c: null, w: null}\n", "all settings, all schedule entries or all states would go from web-03"},
		{"a fleet of ten settings", []string{"web-01", "web-02"}, "-- settings/web.yaml --\nschedule: {a: null, w: {module: test.ping, interval: 1h}}\n", "2 of 10 settings"},
		{"a small fleet", []string{"web-01"}, "-- settings/web.yaml --\nschedule: {a: null}\n", ""},
		{"empty top file", []string{"web-01"}, "-- top.yaml --\n#\n", "the top file is empty"},
		{"top file that matches nothing", []string{"web-01"}, "-- top.yaml --\nbase: {'nobody': [common]}\n", "nothing matches any peel"},
	} {
		s := begin(t, c.peels...)
		base := diff.Of(s.compile(tree(shop)))
		d := s.diff(base, s.compile(edit(tree(shop), c.edit)))
		err := d.Guard(policy.DefaultLimits)
		blocked, ok := errors.AsType[*diff.BlockedError](err)
		switch {
		case (c.want != "") != ok:
			t.Errorf("%s: %v (%+v)", c.name, err, d.Counts)
		case ok && (!strings.Contains(blocked.Reason, c.want) || blocked.Hash != d.Hash):
			t.Errorf("%s: %+v", c.name, blocked)
		}
	}
}

const roles = `
-- top.yaml --
base:
  '*': [common]
  'web-*': [watch]
  'db-01': [watch, primary]
  'db-02': [primary]
-- settings/common.yaml --
note: common
schedule:
  a: {module: test.ping, interval: 1h}
  b: {module: test.ping, interval: 1h}
-- settings/watch.yaml --
watch: {port: 80, host: x}
schedule:
  a: {interval: 2h}
  w: {module: test.ping, interval: 1h}
-- settings/primary.yaml --
primary: true
`

// TestATargetWhosePeelsLoseAllOfItWaits has a group of two peels in a fleet of 24, so that no limit in percent is exceeded.
func TestATargetWhosePeelsLoseAllOfItWaits(t *testing.T) {
	peels := []string{"web-01", "web-02", "db-01", "db-02"}
	for i := range 20 {
		peels = append(peels, fmt.Sprintf("app-%02d", i))
	}
	const web = "all peels of a target would lose everything that it gives them: web-* (peels: 2)"
	topFile := func(rules ...string) string {
		return "-- top.yaml --\nbase:\n  '*': [common]\n  " + strings.Join(rules, "\n  ") + "\n"
	}
	const db1, db2 = "'db-01': [watch, primary]", "'db-02': [primary]"
	for _, c := range []struct{ name, edit, want string }{
		{"its line is removed", topFile(db1, db2), web},
		{"its expression has a typing error", topFile("'wbe-*': [watch]", db1, db2), web},
		{"its list is empty", topFile("'web-*': []", db1, db2), web},
		{"it gives something else", topFile("'web-*': [other]", db1, db2) + "-- settings/other.yaml --\nb: 1\n", web},
		{"all that it gives is null", topFile("'web-*': [watch, no]", db1, db2) + "-- settings/no.yaml --\nwatch: null\nschedule: {w: null, a: {interval: 2h}}\n", web},
		{"a setting of several goes", topFile("'web-*': [watch, no]", db1, db2) + "-- settings/no.yaml --\nschedule: {w: null}\n", ""},
		{"it has another name", topFile("'E@web-.*': [watch]", db1, db2), ""},
		{"it is split in two", topFile("'web-01': [watch]", "'web-02': [watch]", db1, db2), ""},
		{"it is narrowed", topFile("'web-01': [watch]", db1, db2), ""},
		{"its file is split", topFile("'web-*': [host, port]", db1, db2) +
			"-- settings/host.yaml --\nwatch: {host: x}\nschedule: {a: {interval: 2h}}\n-- settings/port.yaml --\nwatch: {port: 80}\nschedule: {w: {module: test.ping, interval: 1h}}\n", ""},
		{"its values change", "-- settings/watch.yaml --\nwatch: {port: 81, host: y}\nschedule: {a: {interval: 3h}, w: {module: test.ping, interval: 2h}}\n", ""},
		{"its role moves to another peel", topFile("'web-*': [watch]", db1, "'app-00': [primary]"), ""},
		{"what it gives comes from another target", topFile("'web-*': [watch]", "'db-*': [watch, primary]"), ""},
		{"another peel loses it", topFile("'web-*': [watch]", db1), "gives them: db-02 (peels: 1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, peels...)
			base := diff.Of(s.compile(tree(roles)))
			err := s.diff(base, s.compile(edit(tree(roles), c.edit))).Guard(policy.DefaultLimits)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A peel that had nothing before does not show that the settings of a target live on: a host of that name may have joined by
// chance, or to let the change pass.
func TestWhatATargetGivesMovesOnlyToPeelsThatHadSettings(t *testing.T) {
	peels := []string{"web-01", "web-02", "db-01", "db-02"}
	for i := range 20 {
		peels = append(peels, fmt.Sprintf("app-%02d", i))
	}
	s := begin(t, peels...)
	base := diff.Of(s.compile(tree(roles)))
	s.fleet.Put("new-01", nil)
	moved := edit(tree(roles), "-- top.yaml --\nbase:\n  '*': [common]\n  'new-01': [watch]\n  'db-01': [watch, primary]\n  'db-02': [primary]\n")
	err := s.diff(base, s.compile(moved)).Guard(policy.DefaultLimits)
	if err == nil || !strings.Contains(err.Error(), "gives them: web-* (peels: 2)") {
		t.Errorf("%v", err)
	}
}

// common is the file of shop for all peels.
var common = "-- settings/common.yaml --\n" + strings.SplitN(strings.SplitN(shop, "-- settings/common.yaml --\n", 2)[1], "-- ", 2)[0]

// entriesOf makes a settings file with entries of those names.
func entriesOf(names ...string) string {
	var text strings.Builder
	text.WriteString("-- settings/all.yaml --\nschedule:\n")
	for _, name := range names {
		text.WriteString("  " + name + ": {module: cmd.run, args: {command: run " + name + "}, interval: 1h}\n")
	}
	return text.String()
}

// TestAnOrdinaryReplacementGoesOutAndTheLossOfAllBackupsWaits has the two changes that the guard once took for each other.
func TestAnOrdinaryReplacementGoesOutAndTheLossOfAllBackupsWaits(t *testing.T) {
	var before, after []string
	for i := range 19 {
		before = append(before, fmt.Sprint("e", i))
		after = append(after, fmt.Sprint("e", i))
		if i < 9 {
			after[i] = fmt.Sprint("renamed", i)
		}
	}
	const rules = "-- top.yaml --\nbase: {'*': [all], 'db-*': [db]}\n-- settings/db.yaml --\n"
	const backups = "schedule: {nightly: {module: cmd.run, args: {command: backup}, interval: 1h}, weekly: {module: cmd.run, args: {command: backup}, interval: 1h}}\n"
	const nothing = "schedule: {one: {module: test.ping, interval: 1h}, two: {module: test.ping, interval: 1h}}\n"
	for _, c := range []struct {
		name          string
		peels         []string
		before, after string
		want          string
	}{
		{"9 of 19 entries under other names", []string{"web-01"}, rules + "{}\n" + entriesOf(before...), rules + "{}\n" + entriesOf(after...), ""},
		{"all backups, 4 of 15 entries", []string{"db-01", "db-02", "web-01"}, rules + backups + entriesOf(before[:3]...) + "", rules + "{}\n" + entriesOf(before[:3]...), "no peel would have schedule.nightly, schedule.weekly any longer"},
		{"all backups, and as many that do nothing", []string{"db-01", "db-02", "web-01"}, rules + backups + entriesOf(before[:3]...), rules + nothing + entriesOf(before[:3]...), "no peel would have schedule.nightly, schedule.weekly any longer"},
		{"all backups under other names", []string{"db-01", "db-02", "web-01"}, rules + backups + entriesOf(before[:3]...), rules + strings.NewReplacer("nightly", "night", "weekly", "week").Replace(backups) + entriesOf(before[:3]...), ""},
	} {
		s := begin(t, c.peels...)
		base := diff.Of(s.compile(tree(c.before)))
		err := s.diff(base, s.compile(tree(c.after))).Guard(policy.DefaultLimits)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What was taken within a day before counts: settings, and peels that lose none now.
func TestEarlierLossesCountForTheLimits(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	s := begin(t, "a", "b")
	m := tree("-- top.yaml --\nbase: {'*': [all], 'a': [more]}\n-- settings/more.yaml --\n{}\n" + entriesOf(names...))
	fewer := edit(m, "-- settings/more.yaml --\nschedule: {a: null}\n")
	d := s.diff(diff.Of(s.compile(m)), s.compile(fewer)) // takes 1 of 20 settings, from 1 of 2 peels
	for _, c := range []struct {
		limits  policy.Limits
		earlier diff.Taking
		peels   int
		holds   bool
	}{
		{policy.Limits{Change: policy.Off, Remove: policy.Off, Peels: 50}, diff.Taking{}, 0, false},
		{policy.Limits{Change: policy.Off, Remove: policy.Off, Peels: 50}, diff.Taking{}, 1, true},
		{policy.Limits{Change: policy.Off, Remove: 10, Peels: policy.Off}, diff.Taking{Touched: 1, Removed: 1}, 0, false},
		{policy.Limits{Change: policy.Off, Remove: 10, Peels: policy.Off}, diff.Taking{Touched: 2, Removed: 2}, 0, true},
		{policy.Limits{Change: 10, Remove: policy.Off, Peels: policy.Off}, diff.Taking{Touched: 2}, 0, true},
		{policy.Limits{Change: 10, Remove: policy.Off, Peels: policy.Off}, diff.Taking{Touched: 1}, 0, false},
		{policy.Limits{Change: 10, Remove: policy.Off, Peels: policy.Off}, diff.Taking{Touched: 1, Removed: 1}, 0, false},
		{policy.Limits{Change: policy.Off, Remove: 14, Peels: policy.Off}, diff.Taking{Touched: 2, Removed: 2}, 0, false},
	} {
		if err := d.GuardAfter(c.limits, c.earlier, c.peels); (err != nil) != c.holds {
			t.Errorf("%+v after %+v and %d peels: %v", c.limits, c.earlier, c.peels, err)
		}
	}
}

// TestLimitsHoldAboveThemAndNotAtThem changes so many of 20 entries on one peel, or takes them from it.
func TestLimitsHoldAboveThemAndNotAtThem(t *testing.T) {
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("e%02d", i)
	}
	const rules = "-- top.yaml --\nbase: {'*': [all], 'a': [more]}\n-- settings/more.yaml --\n"
	off := policy.Limits{Change: policy.Off, Remove: policy.Off, Peels: policy.Off}
	for _, c := range []struct {
		name   string
		limits policy.Limits
		n      int // of 40 settings, on one of two peels
		edit   func(name string) string
		holds  []string
	}{
		{"changed, at the limit", policy.Limits{Change: 30, Remove: policy.Off, Peels: policy.Off}, 12, retimed, nil},
		{"changed, above it", policy.Limits{Change: 30, Remove: policy.Off, Peels: policy.Off}, 13, retimed, []string{"change"}},
		{"removed, at the limit", policy.Limits{Change: policy.Off, Remove: 10, Peels: policy.Off}, 4, removed, nil},
		{"removed, above it", policy.Limits{Change: policy.Off, Remove: 10, Peels: policy.Off}, 5, removed, []string{"remove"}},
		{"peels, at the limit", policy.Limits{Change: policy.Off, Remove: policy.Off, Peels: 50}, 1, removed, nil},
		{"peels, above it", policy.Limits{Change: policy.Off, Remove: policy.Off, Peels: 49}, 1, removed, []string{"peels"}},
		{"none may change", policy.Limits{Remove: policy.Off, Peels: policy.Off}, 1, retimed, []string{"change"}},
		{"over all of them", policy.Limits{}, 1, removed, []string{"change", "remove", "peels"}},
		{"everything of one peel, off", off, 20, removed, nil},
	} {
		s := begin(t, "a", "b")
		m := tree(rules + "{}\n" + entriesOf(names...))
		base := diff.Of(s.compile(m))
		var over strings.Builder
		over.WriteString("schedule:\n")
		for _, name := range names[:c.n] {
			over.WriteString("  " + name + ": " + c.edit(name) + "\n")
		}
		err := s.diff(base, s.compile(edit(m, "-- settings/more.yaml --\n"+over.String()))).Guard(c.limits)
		blocked, _ := errors.AsType[*diff.BlockedError](err)
		if blocked == nil {
			blocked = &diff.BlockedError{}
		}
		if !slices.Equal(blocked.Limits, c.holds) {
			t.Errorf("%s: %v, want %v", c.name, err, c.holds)
		}
	}
}

func retimed(string) string { return "{interval: 5h}" }

func removed(string) string { return "null" }

func TestATrailerNamesTheLimitsThatItAllows(t *testing.T) {
	blocked := &diff.BlockedError{Limits: []string{"change", "remove"}}
	for message, want := range map[string]bool{
		"x\n\n" + blocked.Trailer():                                 true,
		"x\n\ny\n\nZester-Allow: remove,change, peels\n":            true,
		"x\r\n\r\nZester-Allow: remove\r\nZester-Allow: change\r\n": true,
		"x\n\nZester-Allow: remove":                                 false,
		"x\n\nZester-Allow: delete>30%":                             false,
		"x\n\nZester-Allow: change, remove\n\nmore":                 false,
		"Zester-Allow: change, remove":                              false,
		"x\n\n  Zester-Allow: change, remove":                       false,
		"":                                                          false,
	} {
		if got := blocked.AllowedBy(message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	if all := (&diff.BlockedError{RemovesAll: true}); all.AllowedBy("x\n\nZester-Allow: change, remove, peels") {
		t.Error("a commit allows itself to leave nothing")
	}
}

func TestFirstRevisionIsNeverBlocked(t *testing.T) {
	for name, m := range map[string]fstest.MapFS{"full": tree(shop), "empty": tree("-- top.yaml --\n")} {
		s := begin(t, "web-01", "web-02", "db-01")
		d := s.diff(diff.Base{}, s.compile(m))
		if err := d.Guard(policy.Limits{}); err != nil || d.Writes() != 3 {
			t.Errorf("%s: %v, %d writes", name, err, d.Writes())
		}
	}
}

// FuzzAllowedBy has any message of a commit, in which only the last paragraph can allow a change.
func FuzzAllowedBy(f *testing.F) {
	f.Add("subject\n\nZester-Allow: change, remove", "and more")
	f.Add("subject\r\n\r\nbody\r\n\r\nZester-Allow: change\r\nZester-Allow: remove\r\n", "")
	f.Fuzz(func(t *testing.T, message, more string) {
		blocked := &diff.BlockedError{Limits: []string{"change", "remove"}}
		allowed := blocked.AllowedBy(message)
		if allowed && (!strings.Contains(message, "change") || !strings.Contains(message, "remove")) {
			t.Errorf("%q allows a limit that it does not name", message)
		}
		if lf := strings.ReplaceAll(message, "\r\n", "\n"); blocked.AllowedBy(lf) != allowed {
			t.Errorf("%q allows it with other ends of lines", message)
		}
		more = strings.TrimSpace(more)
		if more != "" && !strings.Contains(more, "Zester-Allow:") && blocked.AllowedBy(message+"\n\n"+more) {
			t.Errorf("%q allows it by a paragraph before the last one", message+"\n\n"+more)
		}
		if (&diff.BlockedError{RemovesAll: true}).AllowedBy(message) {
			t.Errorf("%q allows that nothing is left", message)
		}
		if signed := message + "\n\n" + blocked.Trailer(); strings.TrimSpace(message) != "" && !blocked.AllowedBy(signed) {
			t.Errorf("%q does not allow it", signed)
		}
	})
}
