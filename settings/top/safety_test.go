package top

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	policypkg "github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func policy(t testing.TB, text string) *policypkg.Policy {
	t.Helper()
	p, err := policypkg.ParsePolicy(parse(t, "zester.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWavesOfAFileAreRead(t *testing.T) {
	p := policy(t, `
nodegroups: {canaries: 'canary-* or N@first', first: web-1}
waves:
- {name: first, peels: 1, soak: 10m}
- {name: canary, peels: N@canaries, gate: manual, deadline: 1h}
- {name: quarter, peels: 25 %, max_failures: 5%, gate: auto}
- {name: all, peels: 100%, max_failures: 3, deadline: }
`)
	none := policypkg.Quantity{Count: 0, Percent: 100}
	want := []policypkg.Wave{
		{Name: "first", Peels: policypkg.Quantity{Count: 1, Percent: 100}, Soak: 10 * time.Minute, MaxFailures: none},
		{Name: "canary", Peels: policypkg.AllPeels, Target: "canary-* or web-1", MaxFailures: none, Gate: policypkg.GateManual, Deadline: time.Hour},
		{Name: "quarter", Peels: policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 25}, MaxFailures: policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 5}},
		{Name: "all", Peels: policypkg.AllPeels, MaxFailures: policypkg.Quantity{Count: 3, Percent: 100}},
	}
	if !slices.Equal(p.Waves, want) {
		t.Errorf("waves are\n%+v, want\n%+v", p.Waves, want)
	}
}

// TestWavesOfOneMeaningAreEqual: spelling makes no difference to what the record of a rollout holds.
func TestWavesOfOneMeaningAreEqual(t *testing.T) {
	a := policy(t, "nodegroups: {g: web-*}\nwaves: [{name: a, peels: N@g and  (x*), soak: 1h, max_failures: 0, gate: auto}, {name: b, peels: 5%}]")
	b := policy(t, "waves:\n- name: a\n  peels: 'web-* and x*'\n  soak: 60m\n- {name: b, peels: 5 %, max_failures: 0}")
	if !slices.Equal(a.Waves, b.Waves) {
		t.Errorf("%+v and %+v", a.Waves, b.Waves)
	}
	c := policy(t, "calendars: {c: [mon, 2026-12-24]}\nfreeze: [{calendar: c, only_between: [08:00-09:00, 07:00-08:00, 08:00-09:00]}]")
	d := policy(t, "calendars: {c: [2026-12-24, 1]}\nfreeze: [{calendar: [c], only_between: [07:00-08:00, 08:00-09:00], timezone: UTC}]")
	if !reflect.DeepEqual(c.Freezes, d.Freezes) {
		t.Errorf("%+v and %+v", c.Freezes, d.Freezes)
	}
}

func TestSharesAreRounded(t *testing.T) {
	for _, c := range []struct {
		share          policypkg.Quantity
		n, of, failing int
	}{
		{policypkg.Quantity{Count: 3, Percent: 100}, 10, 3, 3},
		{policypkg.Quantity{Count: 3, Percent: 100}, 2, 2, 3},
		{policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 5}, 10, 1, 0},
		{policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 5}, 100, 5, 5},
		{policypkg.Quantity{Count: policypkg.MaxPeels, Percent: 5}, 101, 6, 5},
		{policypkg.Quantity{Count: 2, Percent: 5}, 100, 2, 2},
		{policypkg.Quantity{Count: 2, Percent: 5}, 20, 1, 1},
		{policypkg.AllPeels, 7, 7, policypkg.MaxPeels},
		{policypkg.Quantity{Count: 0, Percent: 100}, 7, 0, 0},
		{policypkg.AllPeels, 0, 0, policypkg.MaxPeels},
	} {
		if of, failing := c.share.Of(c.n), c.share.Within(c.n); of != c.of || failing != c.failing {
			t.Errorf("%v of %d is %d and allows %d failures, want %d and %d", c.share, c.n, of, failing, c.of, c.failing)
		}
	}
	for s, want := range map[policypkg.Quantity]string{{Count: 5, Percent: 100}: "5", {Count: policypkg.MaxPeels, Percent: 5}: "5%", policypkg.AllPeels: "100%", {Count: 2, Percent: 5}: "2, at most 5%"} {
		if s.String() != want {
			t.Errorf("%#v is written %s, want %s", s, s, want)
		}
	}
}

func TestFreezesHoldAndEnd(t *testing.T) {
	const (
		holidays = "calendars: {holidays: [2026-12-24/2027-01-06]}\nfreeze: [{calendar: holidays}]"
		office   = "freeze: [{calendar: mon-fri, only_between: 08:00-18:00, timezone: Europe/London}]"
		release  = "freeze: [{calendar: '2026-06-01T09:00:00Z/2026-06-03T12:00:00Z'}]"
		mixed    = "freeze: [{calendar: ['2026-06-01T09:00:00Z/2026-06-03T12:00:00Z', sat], only_between: 08:00-10:00}]"
		chain    = "freeze: [{calendar: [fri], only_between: 12:00-24:00}, {calendar: [sat, sun]}]"
		always   = "freeze: [{only_between: 00:00-12:00}, {only_between: 12:00-24:00}]"
	)
	for _, c := range []struct{ policy, at, thaw string }{
		{holidays, "2026-12-23T23:59:00Z", "2026-12-23T23:59:00Z"},
		{holidays, "2026-12-24T00:00:00Z", "2027-01-07T00:00:00Z"},
		{office, "2026-06-01T06:59:00Z", "2026-06-01T06:59:00Z"}, // a Monday, in summer time
		{office, "2026-06-01T07:00:00Z", "2026-06-01T17:00:00Z"},
		{office, "2026-06-06T09:00:00Z", "2026-06-06T09:00:00Z"},
		{office, "2026-12-07T08:00:00Z", "2026-12-07T18:00:00Z"},
		{release, "2026-06-02T03:00:00Z", "2026-06-03T12:00:00Z"},
		{release, "2026-06-03T12:00:00Z", "2026-06-03T12:00:00Z"},
		{mixed, "2026-06-01T09:30:00Z", "2026-06-01T10:00:00Z"},
		{mixed, "2026-06-02T07:30:00Z", "2026-06-02T07:30:00Z"},
		{mixed, "2026-06-06T08:30:00Z", "2026-06-06T10:00:00Z"}, // a Saturday
		{mixed, "2026-06-05T08:30:00Z", "2026-06-05T08:30:00Z"},
		{chain, "2026-06-05T13:00:00Z", "2026-06-08T00:00:00Z"},
		{always, "2026-06-05T13:00:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		freezes := policy(t, c.policy).Freezes
		got, ok := policypkg.Thaw(freezes, at)
		if text := got.UTC().Format(time.RFC3339); ok != (c.thaw != "") || ok && text != c.thaw {
			t.Errorf("%s at %s ends at %s, %v, want %s", c.policy, c.at, text, ok, c.thaw)
		}
		if slices.ContainsFunc(freezes, func(f policypkg.Freeze) bool { return f.Holds(at) }) != (c.at != c.thaw) {
			t.Errorf("%s holds at %s, or does not", c.policy, c.at)
		}
	}
	if got := policy(t, "freeze: [{calendar: mon-fri, only_between: 08:00-18:00, targets: 'db-*'}]").Freezes[0].String(); got != "mon-fri, between 08:00-18:00 UTC, of db-*" {
		t.Error(got)
	}
}

func TestWeakerRulesAreNamed(t *testing.T) {
	const canary = "waves: [{name: canary, peels: 2, soak: 1h, gate: manual, deadline: 1h}, {name: half, peels: 50%, max_failures: 5%}]\n"
	change := func(old, to string) string { return strings.Replace(canary, old, to, 1) }
	for name, c := range map[string]struct{ was, next, want string }{
		"nothing in force": {"", canary + "limits: {change: 10%}\nfreeze: [{calendar: sat}]", ""},
		"equal":            {canary, canary, ""},
		"stricter": {
			canary, "waves: [{name: first, peels: 1}, {name: canary, peels: 1, soak: 2h, gate: manual, deadline: 30m}, {name: ten, peels: 10%}, {name: half, peels: 20%, max_failures: 0, gate: manual}, {name: most, peels: 90%}]", "",
		},
		"no waves":            {canary, "", "wave canary goes; wave half goes"},
		"one wave":            {canary, "waves: [{name: half, peels: 50%, max_failures: 5%}]", "wave canary goes"},
		"another order":       {canary, "waves: [{name: half, peels: 1}, {name: canary, peels: 1, soak: 1h, gate: manual, deadline: 1h}]", "wave half comes earlier"},
		"more peels":          {canary, change("peels: 2", "peels: 3"), "wave canary: peels 3 in place of 2"},
		"a share of peels":    {canary, change("peels: 2", "peels: 2%"), "wave canary: peels 2% in place of 2"},
		"one peel of a share": {canary, change("peels: 50%", "peels: 1"), ""},
		"a target":            {canary, change("peels: 2", "peels: nobody"), "wave canary: peels nobody in place of 2"},
		"another target":      {"waves: [{name: x, peels: canary-*}]", "waves: [{name: x, peels: nobody}]", "wave x: peels nobody in place of canary-*"},
		"a number for a target": {
			"waves: [{name: x, peels: canary-*}]", "waves: [{name: x, peels: 1}]", "wave x: peels 1 in place of canary-*",
		},
		"a shorter soak":       {canary, change("soak: 1h", "soak: 59m"), "wave canary: soak 59m0s in place of 1h0m0s"},
		"more failures":        {canary, change("max_failures: 5%", "max_failures: 1"), "wave half: max_failures 1 in place of 5%"},
		"no gate":              {canary, change("gate: manual, ", ""), "wave canary: gate auto in place of manual"},
		"no deadline":          {canary, change(", deadline: 1h", ""), "wave canary: deadline none in place of 1h0m0s"},
		"a later deadline":     {canary, change("deadline: 1h", "deadline: 2h"), "wave canary: deadline 2h0m0s in place of 1h0m0s"},
		"a larger wave before": {canary, change("{name: canary", "{name: early, peels: 50%}, {name: canary"), "wave early comes before wave canary and may take other peels"},
		"a wave before of others": {
			"waves: [{name: x, peels: canary-*}]", "waves: [{name: early, peels: 1}, {name: x, peels: canary-*}]", "wave early comes before wave x and may take other peels",
		},
		"a higher limit":        {"limits: {remove: 5%}", "", "limit remove is 10% in place of 5%"},
		"limits off":            {"", "limits: {change: off, remove: off, peels: off}", "limit change is off in place of 50%; limit remove is off in place of 10%; limit peels is off in place of 50%"},
		"a lower limit":         {"", "limits: {change: 0%}", ""},
		"another freeze":        {"freeze: [{calendar: sat}]", "freeze: [{calendar: sun}]", "freeze (sat) goes"},
		"a freeze of fewer":     {"freeze: [{calendar: sat}]", "freeze: [{calendar: sat, targets: 'db-*'}]", "freeze (sat) goes"},
		"a freeze more":         {"freeze: [{calendar: sat}]", "freeze: [{calendar: sun}, {calendar: sat}]", ""},
		"a shorter calendar":    {"calendars: {c: [sat, sun]}\nfreeze: [{calendar: c}]", "calendars: {c: [sat]}\nfreeze: [{calendar: c}]", "freeze (c) goes"},
		"a smaller group":       {"nodegroups: {g: 'L@a,b'}\nfreeze: [{calendar: sat, targets: N@g}]", "nodegroups: {g: a}\nfreeze: [{calendar: sat, targets: N@g}]", "freeze (sat, of L@a,b) goes"},
		"a group of other peel": {"nodegroups: {g: a}\nwaves: [{name: x, peels: N@g}]", "nodegroups: {g: b}\nwaves: [{name: x, peels: N@g}]", "wave x: peels b in place of a"},
	} {
		if got := strings.Join(rules(t, c.was).Weakened(rules(t, c.next)), "; "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// rules returns the rules of a zester.yaml.
func rules(t *testing.T, text string) policypkg.Safety {
	p := policy(t, text)
	return policypkg.Safety{Limits: &p.Limits, Waves: p.Waves, Freezes: p.Freezes}
}

func waveText(w policypkg.Wave) string {
	text := w.Name
	if w.Target != "" {
		text += " " + w.Target
	}
	text += " " + w.Peels.String()
	if w.Soak > 0 {
		text += " soak " + w.Soak.String()
	}
	if w.Gate == policypkg.GateManual {
		text += " manual"
	}
	if w.Deadline > 0 {
		text += " deadline " + w.Deadline.String()
	}
	return text
}

// weaker says in what result is weaker than waves, empty if in nothing: each wave is there, in order and as strict, and
// until it has passed no wave takes more peels than it may, in fleets of up to 100 peels.
func weaker(result, waves []policypkg.Wave) string {
	at := 0
	for _, w := range waves {
		for {
			if at == len(result) {
				return "it lacks " + waveText(w)
			}
			r := result[at]
			at++
			for n := range 100 {
				if r.Peels.Of(n) > w.Peels.Of(n) || w.Target != "" && r.Target != w.Target {
					return fmt.Sprintf("%s takes more of %d than %s, which has not passed", waveText(r), n, waveText(w))
				}
			}
			if r.Name == w.Name && r.Target == w.Target && r.Soak >= w.Soak && failsAsSoon(r, w) &&
				(w.Gate != policypkg.GateManual || r.Gate == policypkg.GateManual) && (w.Deadline == 0 || r.Deadline > 0 && r.Deadline <= w.Deadline) {
				break
			}
		}
	}
	return ""
}

func failsAsSoon(r, w policypkg.Wave) bool {
	for n := range 100 {
		if r.MaxFailures.Within(n) > w.MaxFailures.Within(n) {
			return false
		}
	}
	return true
}

func randomWaves(r *rand.Rand) (waves []policypkg.Wave) {
	names := []string{"a", "b", "c", "d"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	shares := []policypkg.Quantity{{Count: 1, Percent: 100}, {Count: 2, Percent: 100}, {Count: policypkg.MaxPeels, Percent: 10}, {Count: policypkg.MaxPeels, Percent: 50}, {Count: 7, Percent: 20}, policypkg.AllPeels}
	for _, name := range names[:r.IntN(5)] {
		w := policypkg.Wave{Name: name, Peels: shares[r.IntN(len(shares))], Soak: time.Duration(r.IntN(3)) * time.Minute, MaxFailures: []policypkg.Quantity{{Count: 0, Percent: 100}, {Count: 1, Percent: 100}, {Count: 2, Percent: 100}, {Count: policypkg.MaxPeels, Percent: 10}, {Count: policypkg.MaxPeels, Percent: 0}}[r.IntN(5)]}
		if r.IntN(3) == 0 {
			w.Target, w.Peels = []string{"x*", "y*"}[r.IntN(2)], policypkg.AllPeels
		}
		if r.IntN(2) == 0 {
			w.Gate = policypkg.GateManual
		}
		w.Deadline = time.Duration(r.IntN(3)) * time.Hour
		waves = append(waves, w)
	}
	return waves
}

// Waves that are not said to be weaker hold back as much, and small changes of waves are not always said to be weaker.
func TestWavesThatAreNotWeakerHoldBackAsMuch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	allowed := 0
	for range 50_000 {
		was := randomWaves(r)
		next := slices.Clone(was)
		for range r.IntN(3) {
			if other := randomWaves(r); len(other) > 0 {
				next = slices.Insert(next, r.IntN(len(next)+1), other[0])
			}
			if len(next) > 1 && r.IntN(3) == 0 {
				next = slices.Delete(next, 0, 1)
			}
		}
		if len(next) > 0 {
			next[r.IntN(len(next))].MaxFailures.Count = r.IntN(3)
		}
		weakened := policypkg.Safety{Waves: was}.Weakened(policypkg.Safety{Waves: next})
		if why := weaker(next, was); why != "" && len(weakened) == 0 {
			t.Fatalf("%+v\nin place of %+v: %s", next, was, why)
		}
		if len(weakened) == 0 && len(next) > len(was) && len(was) > 0 {
			allowed++
		}
		if same := (policypkg.Safety{Waves: was}).Weakened(policypkg.Safety{Waves: was}); len(same) > 0 {
			t.Fatalf("%+v with itself: %v", was, same)
		}
	}
	if allowed < 500 {
		t.Errorf("%d pairs with an added wave are not weaker", allowed)
	}
}

func TestASafetyIsStored(t *testing.T) {
	a := rules(t, "limits: {change: 20%}\ncalendars: {c: [2026-12-24, '2026-06-01T09:00:00+02:00/2026-06-03T12:00:00Z']}\nfreeze: [{calendar: c, targets: 'web-*'}]\nwaves: [{name: x, peels: 'db-*', gate: manual}]")
	data, err := canon.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var stored policypkg.Safety
	if err := canon.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	if lost := slices.Concat(stored.Weakened(a), a.Weakened(stored)); len(lost) > 0 || *stored.Limits != (policypkg.Limits{Change: 20, Remove: 10, Peels: 50}) || len(stored.Freezes) != 1 {
		t.Errorf("%+v: %v", stored, lost)
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{
		"waves: [{name: a, peels: 5%, gate: manual, deadline: 5m, max_failures: 10%}]", "waves: [{name: a, peels: 'web-* and not N@g'}]\nnodegroups: {g: x}",
		"calendars: {c: [mon, 2026-12-24/2026-12-26]}\nfreeze: [{calendar: c, only_between: 22:00-06:00, timezone: Europe/London, targets: 'a*'}]",
		"freeze: [{calendar: ['2026-06-01T09:00:00Z/2026-06-03T12:00:00Z', 6]}]", "limits: {change: off}\nfreeze: [{only_between: [00:00-12:00, 12:00-24:00]}]",
	} {
		f.Add(s, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		doc, err := strictyaml.Parse("zester.yaml", []byte(text))
		if err != nil {
			return
		}
		p, err := policypkg.ParsePolicy(doc)
		if err != nil || at < 0 || at > 1e10 {
			return
		}
		own := policypkg.Safety{Limits: &p.Limits, Waves: p.Waves, Freezes: p.Freezes}
		if weaker := own.Weakened(own); len(weaker) > 0 {
			t.Errorf("%+v with itself: %v", own, weaker)
		}
		now := time.Unix(at, 0)
		if thaw, ok := policypkg.Thaw(p.Freezes, now); ok && (thaw.Before(now) || slices.ContainsFunc(p.Freezes, func(f policypkg.Freeze) bool { return f.Holds(thaw) })) {
			t.Errorf("freezes end at %v, and hold", thaw)
		}
	})
}
