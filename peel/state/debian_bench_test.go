//go:build linux && debian

package state

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkInHostUnchanged runs 200 files, 40 packages and 10 services that are as they should be. It reports the
// processor time of a run, by itself (own) and with that of the programs that it starts, and for comparison that of the
// bare work: to read and hash the files, to read the table of dpkg, and one systemctl show of the units. Systemd's
// program takes most of it: about 0.02 s to start, before it asks for a unit.
func BenchmarkInHostUnchanged(b *testing.B) {
	needsHost(b)
	h := fixtureIn(b.TempDir())
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "%s/f%d: {file.managed: {content: \"%s\", mode: '0644', user: root, group: root}}\n", h.dir, i, strings.Repeat("0123456789", 120))
	}
	packages := strings.Fields(sh(b, "dpkg-query -W -f '${Package}\\n' | head -40"))
	for _, p := range packages {
		fmt.Fprintf(&text, "pkg-%s: {pkg.installed: {name: %s}}\n", p, p)
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		b.Skip("this host runs without systemd")
	}
	const list = "systemctl list-units --state=active --type=service,socket,target --plain --no-legend"
	units := strings.Fields(sh(b, list+" | head -10 | cut -d' ' -f1"))
	for _, u := range units {
		fmt.Fprintf(&text, "unit-%s: {service.running: {name: %s}}\n", u, u)
	}
	set, err := h.parse(text.String())
	if err != nil || len(set) != 250 {
		b.Fatal(len(set), err)
	}
	run := func() {
		r, err := h.r.Run(b.Context(), Request{Set: set, Whole: true})
		if err != nil || !r.Success() {
			b.Fatal(err, verdicts(r))
		}
	}
	run()
	own, before := processorTime(b)
	for b.Loop() {
		run()
	}
	ownAfter, after := processorTime(b)
	b.ReportMetric((ownAfter-own)/float64(b.N), "own-cpu-s/op")
	b.ReportMetric((after-before)/float64(b.N), "cpu-s/op")

	const bareRuns = 10
	for range bareRuns {
		for i := range 200 {
			data, err := os.ReadFile(fmt.Sprintf("%s/f%d", h.dir, i))
			if err != nil || sha256.Sum256(data) == [32]byte{} {
				b.Fatal(err)
			}
		}
		if _, err := os.ReadFile("/var/lib/dpkg/status"); err != nil {
			b.Fatal(err)
		}
		if out, err := exec.Command("systemctl", append([]string{"show", "--"}, units...)...).Output(); err != nil {
			b.Fatal(string(out), err)
		}
	}
	_, bare := processorTime(b)
	b.ReportMetric((bare-after)/bareRuns, "bare-cpu-s/op")
}

// processorTime returns the seconds that this process was running, and those of it and of all that it has waited for.
func processorTime(b *testing.B) (own, seconds float64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		seconds += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		if who == unix.RUSAGE_SELF {
			own = seconds
		}
	}
	return own, seconds
}
