package reconciler

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/status"
)

// hostile gives one random order, none of which approves the revision that waits, and returns its name, with ! if it was refused.
func (b *bench) hostile(random *rand.Rand, good, hash, wave string) string {
	out := new(status.Sync)
	orders := map[string]func() string{
		"pause":    func() string { return b.ask("pause", nil, out) },
		"resume":   func() string { return b.ask("resume", nil, out) },
		"pin":      func() string { return b.ask("pin", status.PinRequest{Revision: good}, out) },
		"pinuntil": func() string { return b.ask("pin", status.PinRequest{Revision: good, UntilNewer: true}, out) },
		"unpin":    func() string { return b.ask("unpin", nil, out) },
		"retry":    func() string { return b.ask("retry", nil, out) },
		"now":      func() string { return b.ask("now", nil, out) },
		"old":      func() string { return b.ask("approve", status.ApproveRequest{Hash: hash}, out) },
		"gate":     func() string { return b.ask("approve", status.ApproveRequest{Wave: wave, Reason: "r"}, out) },
		"freeze": func() string {
			return b.ask("approve", status.ApproveRequest{Hash: string(b.status().Observed), Override: true, Reason: "r"}, out)
		},
		"restart": func() string { b.stop(); b.start(); return "" },
		"wait":    func() string { b.after(time.Duration(random.IntN(40)) * time.Minute); return "" },
	}
	names := []string{"pause", "resume", "pin", "pinuntil", "unpin", "retry", "now", "old", "gate", "freeze", "restart", "wait"}
	name := names[random.IntN(len(names))]
	if why := orders[name](); why != "" {
		name += "!"
	}
	if random.IntN(2) == 0 {
		b.after(time.Second)
	}
	return name
}

func TestNoSeriesOfOrdersLetsABlockedRevisionOut(t *testing.T) {
	for seed := range (*walkSeeds + 2) / 3 {
		threeWebs(t, func(b *bench) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			good := string(b.status().LastGood.Commit)
			old := b.wiped().Blocked
			b.commit("another removal", map[string]string{"top.yaml": "base:\n  '*': [web]\n"})
			if out := b.now(); out.Blocked == "" || out.Blocked == old {
				t.Fatalf("plan %s after plan %s: %+v", out.Blocked, old, out)
			}
			var given []string
			for range 40 {
				given = append(given, b.hostile(random, good, old, "canary"))
				for _, id := range webs(3) {
					if got := b.entries(id); got != "abcdw" {
						t.Fatalf("seed %d: %s has %q after %s", seed, id, got, strings.Join(given, " "))
					}
				}
			}
			out := b.status()
			if p := b.record(); (p.Pinned == nil) != (out.Pinned == nil) || (p.Suspended == nil) != (out.Paused == nil) {
				t.Errorf("seed %d: the status is %+v, the record %+v", seed, out, p)
			}
		})
	}
}

func TestNoSeriesOfOrdersLetsARevisionPastItsGate(t *testing.T) {
	for seed := range (*walkSeeds + 2) / 3 {
		inWaves(t, "[{name: canary, peels: 1, soak: 10m, gate: manual}, {name: half, peels: 2, gate: manual}]", func(r *rollingBench) {
			random := rand.New(rand.NewPCG(uint64(seed), 2))
			good := string(r.status().LastGood.Commit)
			r.next()
			var given []string
			for range 40 {
				given = append(given, r.hostile(random, good, good, "half"))
				has := 0
				for _, id := range r.ids {
					if strings.Contains(r.entries(id), "x") {
						has++
					}
				}
				if has > 1 {
					r.t.Fatalf("seed %d: %d peels have the revision after %s", seed, has, strings.Join(given, " "))
				}
			}
		})
	}
}
