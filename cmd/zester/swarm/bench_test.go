package swarm

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	sizes  = flag.String("sizes", "100", "fleets to measure, such as 100,1000")
	built  = flag.String("programs", "", "measure also zester and zester-peel in the folder `DIR`")
	tables = flag.String("tables", "", "write swarm-N.md and swarm-N.json into the folder `DIR`")
)

// BenchmarkSwarm reports each figure of a fleet as a metric, and its ratio to the bare bus as another.
func BenchmarkSwarm(b *testing.B) {
	for size := range strings.SplitSeq(*sizes, ",") {
		peels, err := strconv.Atoi(size)
		if err != nil {
			b.Fatalf("cannot measure a fleet of %q peels: %v", size, err)
		}
		b.Run("peels="+size, func(b *testing.B) {
			idle := 10 * time.Second
			if peels >= 10000 {
				idle = 2 * time.Minute // how often connections are pinged: all of them then, if they came together
			}
			o := Options{Peels: peels, Idle: idle, Worker: workers(b), Programs: *built}
			var report *Report
			for b.Loop() {
				if report, err = Run(b.Context(), o); err != nil {
					b.Fatal(err)
				}
			}
			metrics(b, report)
			if *tables != "" {
				keep(b, report, filepath.Join(*tables, "swarm-"+size))
			}
		})
	}
}

var gap = regexp.MustCompile(`[^A-Za-z0-9%.]+`)

// metrics reports the figures. Benchstat wants units without spaces, and a time of the whole says nothing.
func metrics(b *testing.B, r *Report) {
	b.ReportMetric(0, "ns/op")
	for _, f := range r.Figures {
		name := gap.ReplaceAllString(f.Name, "-")
		b.ReportMetric(f.Value, strings.TrimSuffix(name+"/"+strings.ReplaceAll(f.Unit, "/", "-per-"), "/"))
		if f.Bare > 0 {
			b.ReportMetric(f.Ratio, name+"/ratio")
		}
	}
}

func keep(b *testing.B, r *Report, name string) {
	b.Helper()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name+".json", append(data, '\n'), 0o644); err != nil {
		b.Fatal(err)
	}
	table, err := os.Create(name + ".md")
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	fmt.Fprintf(table, "# A fleet of %d peels\n\n", r.Peels)
	if err := r.Markdown(table); err != nil {
		b.Fatal(err)
	}
}
