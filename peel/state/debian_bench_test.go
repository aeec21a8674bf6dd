//go:build linux && debian

package state

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkInHostUnchanged runs 200 files, 50 packages and 10 services that are as they should be, and reports the processor
// time of a run with that of the programs that it starts.
func BenchmarkInHostUnchanged(b *testing.B) {
	needsHost(b)
	h := fixtureIn(b.TempDir())
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "%s/f%d: {file.managed: {content: \"%s\", mode: '0644', user: root, group: root}}\n", h.dir, i, strings.Repeat("0123456789", 120))
	}
	packages := strings.Fields(sh(b, "dpkg-query -W -f '${Package}\\n' | head -50"))
	for _, p := range packages {
		fmt.Fprintf(&text, "pkg-%s: {pkg.installed: {name: %s}}\n", p, p)
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		for _, u := range strings.Fields(sh(b, "systemctl list-units --state=active --type=service,socket,target --plain --no-legend | head -10 | cut -d' ' -f1")) {
			fmt.Fprintf(&text, "unit-%s: {service.running: {name: %s}}\n", u, u)
		}
	}
	set, err := h.parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	run := func() {
		r, err := h.r.Run(b.Context(), Request{Set: set, Whole: true})
		if err != nil || !r.Success() {
			b.Fatal(err, verdicts(r))
		}
	}
	run()
	before := processorTime(b)
	for b.Loop() {
		run()
	}
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-s/op")
}

// processorTime returns the seconds that this process and those that it has waited for were running.
func processorTime(b *testing.B) (seconds float64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		seconds += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	return seconds
}
