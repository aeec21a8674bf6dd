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
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func policy(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy(parse(t, "zester.yaml", text))
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
	none := Quantity{0, 100}
	want := []Wave{
		{Name: "first", Peels: Quantity{1, 100}, Soak: 10 * time.Minute, MaxFailures: none},
		{Name: "canary", Peels: AllPeels, Target: "canary-* or web-1", MaxFailures: none, Gate: GateManual, Deadline: time.Hour},
		{Name: "quarter", Peels: Quantity{MaxPeels, 25}, MaxFailures: Quantity{MaxPeels, 5}},
		{Name: "all", Peels: AllPeels, MaxFailures: Quantity{3, 100}},
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
		share          Quantity
		n, of, failing int
	}{
		{Quantity{3, 100}, 10, 3, 3},
		{Quantity{3, 100}, 2, 2, 3},
		{Quantity{MaxPeels, 5}, 10, 1, 0},
		{Quantity{MaxPeels, 5}, 100, 5, 5},
		{Quantity{MaxPeels, 5}, 101, 6, 5},
		{Quantity{2, 5}, 100, 2, 2},
		{Quantity{2, 5}, 20, 1, 1},
		{AllPeels, 7, 7, MaxPeels},
		{Quantity{0, 100}, 7, 0, 0},
		{AllPeels, 0, 0, MaxPeels},
	} {
		if of, failing := c.share.Of(c.n), c.share.Within(c.n); of != c.of || failing != c.failing {
			t.Errorf("%v of %d is %d and allows %d failures, want %d and %d", c.share, c.n, of, failing, c.of, c.failing)
		}
	}
	for s, want := range map[Quantity]string{{5, 100}: "5", {MaxPeels, 5}: "5%", AllPeels: "100%", {2, 5}: "2, at most 5%"} {
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
		got, ok := Thaw(freezes, at)
		if text := got.UTC().Format(time.RFC3339); ok != (c.thaw != "") || ok && text != c.thaw {
			t.Errorf("%s at %s ends at %s, %v, want %s", c.policy, c.at, text, ok, c.thaw)
		}
		if slices.ContainsFunc(freezes, func(f Freeze) bool { return f.Holds(at) }) != (c.at != c.thaw) {
			t.Errorf("%s holds at %s, or does not", c.policy, c.at)
		}
	}
	if got := policy(t, "freeze: [{calendar: mon-fri, only_between: 08:00-18:00, targets: 'db-*'}]").Freezes[0].String(); got != "mon-fri, between 08:00-18:00 UTC, of db-*" {
		t.Error(got)
	}
}

func TestTheStricterOfTwoPoliciesCounts(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want string }{
		"nothing in force":         {"", "{name: x, peels: 1}", "x 1"},
		"a commit drops all waves": {"{name: x, peels: 1, gate: manual}", "", "x 1 manual"},
		"fields one by one": {
			"{name: x, peels: 5, soak: 1h, max_failures: 0, deadline: 1h}", "{name: x, peels: 5%, soak: 5m, max_failures: 10%, gate: manual}",
			"x 5, at most 5% soak 1h0m0s manual deadline 1h0m0s",
		},
		"the shorter deadline": {"{name: x, peels: 1, deadline: 1h}", "{name: x, peels: 1, deadline: 2h}", "x 1 deadline 1h0m0s"},
		"a wave that only one has": {
			"{name: x, peels: 1}, {name: y, peels: 50%}", "{name: x, peels: 1}, {name: between, peels: 10%}, {name: y, peels: 50%}", "x 1; between 10%; y 50%",
		},
		"a wave of the new one takes no more than the next in force": {
			"{name: x, peels: 1}", "{name: early, peels: 50%}, {name: x, peels: 1}", "early 1, at most 50%; x 1",
		},
		"names that cross": {
			"{name: x, peels: 1}, {name: y, peels: 50%}", "{name: y, peels: 50%}, {name: x, peels: 1}", "x 1, at most 50%; y 50%; x 1",
		},
		"other names": {"{name: canary, peels: 1}", "{name: pilot, peels: 30%}", "canary 1, at most 30%; pilot 30%"},
		"a target in place of a number": {
			"{name: x, peels: 1}", "{name: x, peels: nobody}", "x nobody 1; x 1",
		},
		"another target":        {"{name: x, peels: canary-*}", "{name: x, peels: nobody}", "x canary-* 100%; x nobody 100%"},
		"a number for a target": {"{name: x, peels: canary-*}", "{name: x, peels: 2}", "x canary-* 2; x 2"},
		"the same target":       {"{name: x, peels: canary-*}", "{name: x, peels: canary-*, soak: 1m}", "x canary-* 100% soak 1m0s"},
	} {
		a, b := policy(t, "waves: ["+c.a+"]").Waves, policy(t, "waves: ["+c.b+"]").Waves
		var got []string
		for _, w := range StricterWaves(a, b) {
			got = append(got, waveText(w))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

func waveText(w Wave) string {
	text := w.Name
	if w.Target != "" {
		text += " " + w.Target
	}
	text += " " + w.Peels.String()
	if w.Soak > 0 {
		text += " soak " + w.Soak.String()
	}
	if w.Gate == GateManual {
		text += " manual"
	}
	if w.Deadline > 0 {
		text += " deadline " + w.Deadline.String()
	}
	return text
}

// weaker says in what result is weaker than waves, empty if in nothing: each wave is there, in order and as strict, and
// until it has passed no wave takes more peels than it may.
func weaker(result, waves []Wave) string {
	at := 0
	for _, w := range waves {
		for {
			if at == len(result) {
				return "it lacks " + waveText(w)
			}
			r := result[at]
			at++
			if r.Peels.Count > w.Peels.Count || r.Peels.Percent > w.Peels.Percent {
				return fmt.Sprintf("%s takes more than %s, which has not passed", waveText(r), waveText(w))
			}
			if r.Name == w.Name && r.Target == w.Target && r.Soak >= w.Soak && r.MaxFailures.Count <= w.MaxFailures.Count && r.MaxFailures.Percent <= w.MaxFailures.Percent &&
				(w.Gate != GateManual || r.Gate == GateManual) && (w.Deadline == 0 || r.Deadline > 0 && r.Deadline <= w.Deadline) {
				break
			}
		}
	}
	return ""
}

func randomWaves(r *rand.Rand) (waves []Wave) {
	names := []string{"a", "b", "c", "d"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	shares := []Quantity{{1, 100}, {2, 100}, {MaxPeels, 10}, {MaxPeels, 50}, {7, 20}, AllPeels}
	for _, name := range names[:r.IntN(5)] {
		w := Wave{Name: name, Peels: shares[r.IntN(len(shares))], Soak: time.Duration(r.IntN(3)) * time.Minute, MaxFailures: Quantity{r.IntN(3), 100}}
		if r.IntN(3) == 0 {
			w.Target, w.Peels = []string{"x*", "y*"}[r.IntN(2)], AllPeels
		}
		if r.IntN(2) == 0 {
			w.Gate = GateManual
		}
		w.Deadline = time.Duration(r.IntN(3)) * time.Hour
		waves = append(waves, w)
	}
	return waves
}

func TestTheStricterWavesAreNeverWeakerThanEither(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		a, b := randomWaves(r), randomWaves(r)
		result := StricterWaves(a, b)
		if why := weaker(result, a); why != "" {
			t.Fatalf("%+v\nfor %+v\nand %+v: weaker than the first: %s", result, a, b, why)
		}
		if why := weaker(result, b); why != "" {
			t.Fatalf("%+v\nfor %+v\nand %+v: weaker than the second: %s", result, a, b, why)
		}
		if same := StricterWaves(a, a); !slices.Equal(same, a) {
			t.Fatalf("%+v with itself is %+v", a, same)
		}
	}
}

func TestASafetyIsStoredAndStricterThanBoth(t *testing.T) {
	a := policy(t, "limits: {change: 20%}\ncalendars: {c: [2026-12-24, '2026-06-01T09:00:00+02:00/2026-06-03T12:00:00Z']}\nfreeze: [{calendar: c, targets: 'web-*'}]\nwaves: [{name: x, peels: 'db-*', gate: manual}]")
	b := policy(t, "limits: {remove: 5%}\nfreeze: [{calendar: sat}]")
	safety := func(p *Policy) Safety { return Safety{&p.Limits, p.Waves, p.Freezes} }
	data, err := canon.Marshal(safety(a))
	if err != nil {
		t.Fatal(err)
	}
	var stored Safety
	if err := canon.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	both := stored.Stricter(safety(a)).Stricter(safety(b))
	if *both.Limits != (Limits{20, 5, 50}) || !slices.Equal(both.Waves, a.Waves) || len(both.Freezes) != 2 || !both.Freezes[0].equal(a.Freezes[0]) {
		t.Errorf("%+v", both)
	}
	if none := (Safety{}).Stricter(Safety{}); *none.Limits != DefaultLimits || none.Waves != nil || none.Freezes != nil {
		t.Errorf("%+v", none)
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
		p, err := ParsePolicy(doc)
		if err != nil || at < 0 || at > 1e10 {
			return
		}
		if same := StricterWaves(p.Waves, p.Waves); !slices.Equal(same, p.Waves) {
			t.Errorf("%+v with itself is %+v", p.Waves, same)
		}
		now := time.Unix(at, 0)
		if thaw, ok := Thaw(p.Freezes, now); ok && (thaw.Before(now) || slices.ContainsFunc(p.Freezes, func(f Freeze) bool { return f.Holds(thaw) })) {
			t.Errorf("freezes end at %v, and hold", thaw)
		}
	})
}
