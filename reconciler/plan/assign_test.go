package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// history is a revision and a fleet that change at random, and the plans so far.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	c     *plan.Compiler
	fleet *peelindex.Index
	tree  fstest.MapFS
	plans []*plan.Plan
}

const randomFiles = 6

func (h *history) change() {
	switch n := h.rng.IntN(10); {
	case n == 0:
		h.fleet.Put(target.PeelID(fmt.Sprintf("p%d", h.rng.IntN(30))), target.Facts{"role": fmt.Sprint(h.rng.IntN(4))})
	case n == 1:
		h.fleet.Remove(target.PeelID(fmt.Sprintf("p%d", h.rng.IntN(30))))
	case n == 2:
		var rules strings.Builder
		rules.WriteString("base:\n  '*': [f0]\n  'L@p1,gone': [f1]\n")
		for i := 2; i < randomFiles; i++ {
			fmt.Fprintf(&rules, "  'G@role:%d and not p%d': [f%d]\n", h.rng.IntN(5), 5*i+h.rng.IntN(5), i)
		}
		h.tree["top.yaml"] = &fstest.MapFile{Data: []byte(rules.String())}
	default:
		data := fmt.Appendf(nil, "v: %d\nschedule:\n  e%d: {module: test.ping, interval: %dm}\n", h.rng.IntN(3), h.rng.IntN(3), 1+h.rng.IntN(3))
		if h.rng.IntN(5) == 0 {
			data = []byte("schedule: what is this\n")
		}
		h.tree[fmt.Sprintf("settings/f%d.yaml", h.rng.IntN(randomFiles))] = &fstest.MapFile{Data: data}
	}
}

// next compiles what there is, and compares that with what a compiler makes of it that has seen nothing before.
func (h *history) next() *plan.Plan {
	p, err := h.c.Retarget(maps.Clone(h.tree), h.fleet)
	fresh, other := plan.NewCompiler().Retarget(maps.Clone(h.tree), h.fleet)
	if err != nil || other != nil {
		h.t.Fatalf("%v, %v", err, other)
	}
	digests := func(p *plan.Plan) map[target.PeelID]settings.Digest { return diff.Of(p).Digests }
	if !maps.Equal(digests(p), digests(fresh)) || !reflect.DeepEqual(p.Behind, fresh.Behind) || !slices.Equal(p.Warnings, fresh.Warnings) {
		h.t.Fatalf("a plan after others is\n%v %v %v, alone\n%v %v %v", digests(p), p.Behind, p.Warnings, digests(fresh), fresh.Behind, fresh.Warnings)
	}
	return p
}

// compare checks what two plans say of their difference against a look at every peel.
func (h *history) compare(p, earlier *plan.Plan) (known bool) {
	base := diff.Of(earlier)
	for id := range earlier.Behind {
		base.Digests[id] = settings.DigestOf(canon.Raw{0x80}) // what it had before
	}
	bySettings := base.Settings
	base.Settings = func(d settings.Digest) (canon.Raw, error) {
		if d == settings.DigestOf(canon.Raw{0x80}) {
			return canon.Raw{0x80}, nil
		}
		return bySettings(d)
	}
	slow, err := diff.Make(base, p)
	base.Plan = earlier
	fast, other := diff.Make(base, p)
	if err != nil || other != nil || !reflect.DeepEqual(slow, fast) {
		h.t.Fatalf("with the plan of the base\n%+v, %v, without\n%+v, %v", fast, other, slow, err)
	}
	since, known := p.Since(earlier)
	if !known {
		return false
	}
	var want []target.PeelID
	for id, e := range p.Peels {
		if earlier.Peels[id] != e {
			want = append(want, id)
		}
	}
	slices.Sort(since)
	slices.Sort(want)
	if !slices.Equal(since, want) {
		h.t.Fatalf("since the plan before: %v, want %v", since, want)
	}
	return true
}

func TestDifferencesBySignatureAreThoseOfEveryPeel(t *testing.T) {
	h := &history{t: t, rng: rand.New(rand.NewPCG(3, 7)), c: plan.NewCompiler(), fleet: peelindex.New(), tree: fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [f0]\n")},
	}}
	for i := range randomFiles {
		h.tree[fmt.Sprintf("settings/f%d.yaml", i)] = &fstest.MapFile{Data: []byte("v: 0\n")}
	}
	for i := range 20 {
		h.fleet.Put(target.PeelID(fmt.Sprintf("p%d", i)), target.Facts{"role": fmt.Sprint(i % 4)})
	}
	h.plans = append(h.plans, h.next())
	known := 0
	for range 400 {
		h.change()
		p := h.next()
		for range 3 {
			if h.compare(p, h.plans[max(0, len(h.plans)-1-h.rng.IntN(4))]) {
				known++
			}
		}
		h.plans = append(h.plans, p)
	}
	if known < 300 || known > 1100 {
		t.Errorf("%d of 1200 differences are known by signature", known)
	}
}

func TestAPlanThatHoldsPeelsBackIsComparedPeelByPeel(t *testing.T) {
	p := compile(t, plan.NewCompiler(), tree(layered), fleet("web-01", "db-01"))
	held := p.HoldBack(map[target.PeelID]strictyaml.Error{"db-01": {Msg: "no key"}})
	if _, ok := held.Since(p); ok || len(held.Peels) != 1 || held.Behind["db-01"].Msg != "no key" || len(p.Peels) != 2 || len(p.Behind) != 0 {
		t.Errorf("%v, %+v, of %+v", ok, held, p)
	}
	if _, ok := (*plan.Plan)(nil).Since(p); ok {
		t.Error("nothing is known of no plan")
	}
}
