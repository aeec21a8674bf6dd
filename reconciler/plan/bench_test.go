package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const benchFiles = 1000

// big makes a repo of 1,000 files with five entries each, whose rules give peels so many different signatures of ten
// files.
func big(signatures int) fstest.MapFS {
	m := fstest.MapFS{}
	for i := range benchFiles {
		var b strings.Builder
		fmt.Fprintf(&b, "role%d:\n  port: %d\n  hosts: [a, b, c]\nschedule:\n", i, i)
		for e := range 5 {
			fmt.Fprintf(&b, "  entry-%d-%d:\n    module: cmd.run\n    args:\n      cmd: /usr/bin/check --number %d\n    interval: %dm\n    splay: 30s\n    return_job: true\n", i, e, e, 5+e)
		}
		m[fmt.Sprintf("settings/d%02d/f%d.yaml", i%20, i)] = &fstest.MapFile{Data: []byte(b.String())}
	}
	var top strings.Builder
	top.WriteString("base:\n")
	for s := range signatures {
		fmt.Fprintf(&top, "  'G@group:%d':\n", s)
		for k := range 10 {
			i := (s*7 + k*101) % benchFiles
			fmt.Fprintf(&top, "    - d%02d.f%d\n", i%20, i)
		}
	}
	m["top.yaml"] = &fstest.MapFile{Data: []byte(top.String())}
	return m
}

func bigFleet(peels, signatures int) *peelindex.Index {
	ix := peelindex.New()
	for i := range peels {
		ix.Put(target.PeelID(fmt.Sprintf("peel-%06d", i)), target.Facts{"group": fmt.Sprint(i % signatures), "n": int64(i)})
	}
	return ix
}

func BenchmarkFirstCompile(b *testing.B) {
	for _, peels := range []int{10_000, 100_000} {
		for _, signatures := range []int{1, 50, 1000} {
			b.Run(fmt.Sprintf("peels=%d/signatures=%d", peels, signatures), func(b *testing.B) {
				m, ix := withHashes(big(signatures)), bigFleet(peels, signatures)
				for b.Loop() {
					compile(b, plan.NewCompiler(), m, ix)
				}
			})
		}
	}
}

func BenchmarkOneFileChanged(b *testing.B) {
	for _, c := range []struct{ peels, signatures int }{{10_000, 1}, {10_000, 50}, {10_000, 1000}, {100_000, 50}, {100_000, 1000}} {
		b.Run(fmt.Sprintf("peels=%d/signatures=%d", c.peels, c.signatures), func(b *testing.B) {
			one := withHashes(big(c.signatures))
			two := withHashes(edit(big(c.signatures), "-- settings/d00/f0.yaml --\nchanged: true\n"))
			ix := bigFleet(c.peels, c.signatures)
			compiler := plan.NewCompiler()
			base := diff.Of(compile(b, compiler, one, ix))
			for n := 0; b.Loop(); n++ {
				// Forgets the other version of the file, which would be found again.
				b.StopTimer()
				compile(b, compiler, one, ix)
				compile(b, compiler, one, ix)
				b.StartTimer()
				d, err := diff.Make(base, compile(b, compiler, two, ix))
				if err != nil || d.Writes() == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFactsOfOnePeelChanged(b *testing.B) {
	for _, peels := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("peels=%d/signatures=50", peels), func(b *testing.B) {
			m, ix := withHashes(big(50)), bigFleet(peels, 50)
			compiler := plan.NewCompiler()
			base := diff.Of(compile(b, compiler, m, ix))
			for n := 0; b.Loop(); n++ {
				ix.Put("peel-000000", target.Facts{"group": fmt.Sprint(n % 50)})
				if _, err := diff.Make(base, compile(b, compiler, m, ix)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// withFiftyStates adds a file with 50 states for each signature, of which 40 write a file of their own, to the repo of big.
func withFiftyStates(m fstest.MapFS, signatures int) fstest.MapFS {
	top := string(m["top.yaml"].Data)
	for s := range signatures {
		var b strings.Builder
		fmt.Fprintf(&b, "states:\n  daemon: {pkg.installed: {}}\n  service: {service.running: {name: daemon}, watch: ['file:states.s%d']}\n", s)
		for i := range 8 {
			fmt.Fprintf(&b, "  package-%d: {pkg.installed: {}}\n", i)
		}
		for i := range 40 {
			fmt.Fprintf(&b, "  /etc/app/%d.conf: {file.managed: {source: files/%d.conf, mode: '0644'}, require: [daemon]}\n", i, (s+i)%200)
		}
		m[fmt.Sprintf("settings/states/s%d.yaml", s)] = &fstest.MapFile{Data: []byte(b.String())}
		rule := fmt.Sprintf("  'G@group:%d':\n", s)
		top = strings.Replace(top, rule, rule+fmt.Sprintf("    - states.s%d\n", s), 1)
	}
	for i := range 200 {
		m[fmt.Sprintf("files/%d.conf", i)] = &fstest.MapFile{Data: []byte(strings.Repeat(fmt.Sprintf("option %d\n", i), 100))}
	}
	m["top.yaml"] = &fstest.MapFile{Data: []byte(top)}
	return m
}

// BenchmarkStatesOfAThousandPeels compares a fleet with states with the same fleet without.
func BenchmarkStatesOfAThousandPeels(b *testing.B) {
	const peels = 1000
	for _, signatures := range []int{50, 1000} {
		plain := big(signatures)
		for name, m := range map[string]fstest.MapFS{"without": big(signatures), "fifty": withFiftyStates(plain, signatures)} {
			tree, ix := withHashes(m), bigFleet(peels, signatures)
			b.Run(fmt.Sprintf("signatures=%d/states=%s/first", signatures, name), func(b *testing.B) {
				for b.Loop() {
					compile(b, plan.NewCompiler(), tree, ix)
				}
			})
			b.Run(fmt.Sprintf("signatures=%d/states=%s/one_content_changed", signatures, name), func(b *testing.B) {
				other := withHashes(edit(m, "-- files/0.conf --\nchanged\n"))
				compiler := plan.NewCompiler()
				for b.Loop() {
					b.StopTimer()
					compile(b, compiler, tree, ix)
					compile(b, compiler, tree, ix)
					b.StartTimer()
					compile(b, compiler, other, ix)
				}
			})
		}
	}
}
