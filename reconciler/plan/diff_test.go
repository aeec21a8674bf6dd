package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
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

// steps compiles trees one after the other for a fleet.
type steps struct {
	t     *testing.T
	c     *plan.Compiler
	fleet *target.Index
}

func begin(t *testing.T, peels ...string) steps {
	return steps{t, plan.NewCompiler(), fleet(peels...)}
}

func (s steps) compile(m fstest.MapFS) *plan.Plan { return compile(s.t, s.c, m, s.fleet) }

func (s steps) diff(base plan.Base, p *plan.Plan) *plan.Difference {
	s.t.Helper()
	d, err := plan.Diff(base, p)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// describe writes groups as "peels: +added -removed ~retimed =swapped".
func describe(d *plan.Difference) string {
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

func TestDiffGroupsPeelsByWhatChangesForThem(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	base := s.compile(tree(shop)).Base()
	if d := s.diff(base, s.compile(tree(shop))); d.Writes() != 0 || d.Counts != (plan.Counts{Before: 11}) {
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
	if web.Counts != (plan.Counts{Before: 11, Added: 2, Changed: 4, Removed: 2}) {
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
	base := s.compile(tree(shop)).Base()
	s.fleet.Remove("gone")
	s.fleet.Put("new", nil)
	d := s.diff(base, s.compile(tree(shop)))
	if got := describe(d); got != "[new] [+a +b +c]" || d.Groups[0].Old != "" {
		t.Error(got)
	}
	if d.Counts != (plan.Counts{Before: 4, Added: 3}) {
		t.Errorf("%+v", d.Counts)
	}
}

func TestDiffWorksFromPublishedBytes(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	p := s.compile(tree(shop))
	next := s.compile(edit(tree(shop), "-- settings/web.yaml --\nschedule: {w: {module: test.ping, interval: 2h}}\n"))
	asked := map[settings.Digest]int{}
	from := p.Base()
	published := plan.Base{Digests: from.Digests, Settings: func(d settings.Digest) (canon.Raw, error) {
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
	if _, err := plan.Diff(published, next); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
	published.Settings = func(settings.Digest) (canon.Raw, error) { return canon.Raw{0xc1}, nil }
	if _, err := plan.Diff(published, next); err == nil {
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
	base := plan.Base{
		Digests:  map[target.PeelID]settings.Digest{"web-01": digest},
		Settings: func(settings.Digest) (canon.Raw, error) { return raw, nil },
	}
	d := s.diff(base, s.compile(tree(shop)))
	if d.Counts != (plan.Counts{Before: 2, Added: 3, Changed: 1, Removed: 1}) {
		t.Errorf("%+v", d.Counts)
	}
}

func TestHashOfADifferenceIsThatOfTheChangeItself(t *testing.T) {
	s := begin(t, "web-01", "web-02", "db-01")
	base := s.compile(tree(shop)).Base()
	change := edit(tree(shop), "-- settings/web.yaml --\nx: 1\n")
	one := s.diff(base, s.compile(change))
	again := begin(t, "db-01", "web-02", "web-01")
	if two := again.diff(base, again.compile(edit(change, "-- settings/unused.yaml --\na: 1\n"))); two.Hash != one.Hash || len(one.Hash) != 64 {
		t.Errorf("%s, then %s", one.Hash, two.Hash)
	}
	for name, other := range map[string]*plan.Difference{
		"other settings": s.diff(base, s.compile(edit(change, "-- settings/web.yaml --\nx: 2\n"))),
		"other base":     s.diff(s.compile(edit(change, "-- settings/web.yaml --\nx: 3\n")).Base(), s.compile(change)),
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

func TestGuardBlocksWhatIsRarelyMeant(t *testing.T) {
	many := []string{"db-01", "db-02", "db-03", "db-04", "db-05", "db-06", "db-07", "web-01", "web-02", "web-03"}
	few := []string{"web-01", "web-02"}
	for _, c := range []struct {
		name  string
		peels []string
		edit  string
		want  string // in the reason, "" if it goes out
	}{
		{"nothing", many, "", ""},
		{"9 of 33 pairs, 27 %", many, "-- settings/web.yaml --\nschedule: {a: null, b: null, w: {module: test.ping, interval: 3h}}\n", ""},
		{"12 of 33 pairs, 36 %", many, "-- settings/web.yaml --\nschedule: {a: null, b: null, c: {interval: 3h}}\n", "12 of 33 schedule entries over all peels would change (3) or go (9), more than 30 %"},
		{"additions only", many, "-- settings/web.yaml --\nschedule: {w: {module: test.ping, interval: 1h}, x: {module: test.ping, interval: 1h}, y: {module: test.ping, interval: 1h}, z: {module: test.ping, interval: 1h}}\n", ""},
		{"settings without entries", many, "-- settings/common.yaml --\nnote: other\nschedule: {a: {module: test.ping, interval: 1h}, b: {module: test.ping, interval: 1h}, c: {module: test.ping, interval: 1h}}\n", ""},
		{"half of 8 pairs", few, "-- settings/web.yaml --\nschedule: {w: {module: test.ping, interval: 3h}, a: null}\n", ""},
		{"empty top file", few, "-- top.yaml --\n#\n", "the top file is empty"},
		{"top file that matches nothing", few, "-- top.yaml --\nbase: {'nobody': [common]}\n", "nothing matches any peel"},
		{"one peel left", few, "-- top.yaml --\nbase: {'web-01': [common, web]}\n", ""},
	} {
		s := begin(t, c.peels...)
		base := s.compile(tree(shop)).Base()
		d := s.diff(base, s.compile(edit(tree(shop), c.edit)))
		err := d.Guard()
		blocked, ok := errors.AsType[*plan.BlockedError](err)
		switch {
		case (c.want != "") != ok:
			t.Errorf("%s: %v (%+v)", c.name, err, d.Counts)
		case ok && (!strings.Contains(blocked.Reason, c.want) || blocked.Hash != d.Hash):
			t.Errorf("%s: %+v", c.name, blocked)
		}
	}
}

func TestFirstRevisionIsNeverBlocked(t *testing.T) {
	for name, m := range map[string]fstest.MapFS{"full": tree(shop), "empty": tree("-- top.yaml --\n")} {
		s := begin(t, "web-01", "web-02", "db-01")
		d := s.diff(plan.Base{}, s.compile(m))
		if err := d.Guard(); err != nil || d.Writes() != 3 {
			t.Errorf("%s: %v, %d writes", name, err, d.Writes())
		}
	}
}
