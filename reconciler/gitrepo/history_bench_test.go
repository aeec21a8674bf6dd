package gitrepo

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkHistory opens a repository of 2,907 commits, of 300 files, for the first time, by its path and over HTTP. It
// reports processor time as well, without that of Git's server.
func BenchmarkHistory(b *testing.B) {
	w := newWork(b, files("README", "x"))
	var in strings.Builder
	for i := range 2907 {
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
		if i == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		text := fmt.Sprintf("schedule:\n  job%d: {module: test.ping, interval: %dm}\n", i, 1+i%50)
		fmt.Fprintf(&in, "M 100644 inline d%02d/f%03d.yaml\ndata %d\n%s\n", i%30, i%300, len(text), text)
	}
	cmd := exec.CommandContext(b.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = filepath.Join(w.Dir(), ".git"), strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct{ name, url string }{{"local", w.Dir()}, {"http", served(b, w, nil)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processor(b)
			for b.Loop() {
				s, _ := follow(b, openRepo(b, Options{URL: c.url}))
				if got, err := contents(s.Tree); err != nil || len(got) != 301 {
					b.Fatal(len(got), err)
				}
			}
			b.ReportMetric(float64(processor(b)-before)/1e6/float64(b.N), "cpu-ms/op")
		})
	}
}

// processor returns the user and system time of this process in ns.
func processor(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
