package reconciler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// packedRepo makes a bare repository with so many files of settings, of which every peel of benchTerm has the first and
// one has the second.
func packedRepo(b *testing.B, files int) (dir string) {
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("needs the git binary")
	}
	dir = filepath.Join(b.TempDir(), "fleet.git")
	runGit(b, "", "init", "-q", "--bare", "-b", "main", dir)
	var s strings.Builder
	s.WriteString(commitHead + inline("top.yaml", "base:\n  '*': [d000.f00000]\n  peel-000042: [d000.f00001]\n"))
	for i := range files {
		s.WriteString(inline(benchFile(i), fmt.Sprintf("schedule:\n  job%d:\n    module: cmd.run\n    args: {command: /usr/bin/check --number %d}\n    interval: %dm\n", i, i, 5+i%50)))
	}
	runGit(b, s.String(), "-C", dir, "fast-import", "--quiet")
	return dir
}

const commitHead = "commit refs/heads/main\ncommitter Ada <ada@example.com> 1750000000 +0000\ndata 1\nx\n"

func benchFile(i int) string { return fmt.Sprintf("settings/d%03d/f%05d.yaml", i/100, i) }

func inline(path, text string) string {
	return fmt.Sprintf("M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
}

// changeOne commits another version of the file that one peel has.
func changeOne(b *testing.B, dir string) {
	entry := fmt.Sprintf("schedule:\n  c: {module: test.ping, interval: 1h}\nchanged: %d\n", time.Now().UnixNano())
	runGit(b, commitHead+"from refs/heads/main^0\n"+inline(benchFile(1), entry), "-C", dir, "fast-import", "--quiet")
}

func runGit(b *testing.B, stdin string, args ...string) {
	cmd := exec.CommandContext(b.Context(), "git", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %s: %s: %v", args, out, err)
	}
}

// peak reports the most memory that this process takes from now to the end of the benchmark, with the bus, the fleet's
// index and all else that the process has.
func peak(b *testing.B) {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return // not Linux
	}
	b.Cleanup(func() {
		text, err := os.ReadFile("/proc/self/status")
		m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(bytes.TrimSpace(text))
		if err != nil || m == nil {
			b.Fatal(errors.Join(err, errors.New("the kernel tells no peak")))
		}
		kib, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(kib/1024, "peak-MiB")
	})
}

// What a repository costs by the number of its files, for 1,000 peels on a real bus: from nothing to all documents in the
// bucket, asking a branch that has not moved, and from a commit to the one document that it changes. What the git command
// takes for the part of it that is Git's, a bare clone and a fetch of the same, is beside each.
func BenchmarkSync(b *testing.B) {
	for _, files := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			dir := packedRepo(b, files)
			b.Run("first", func(b *testing.B) { benchFirst(b, dir) })
			b.Run("first-git", func(b *testing.B) {
				for b.Loop() {
					runGit(b, "", "clone", "-q", "--bare", "--no-local", dir, filepath.Join(b.TempDir(), "clone"))
				}
			})
			b.Run("poll", func(b *testing.B) { benchPoll(b, dir) })
			b.Run("poll-git", func(b *testing.B) {
				for b.Loop() {
					runGit(b, "", "ls-remote", dir, "refs/heads/main")
				}
			})
			b.Run("commit", func(b *testing.B) { benchCommit(b, dir) })
			b.Run("commit-git", func(b *testing.B) {
				clone := filepath.Join(b.TempDir(), "clone")
				runGit(b, "", "clone", "-q", "--bare", "--no-local", dir, clone)
				for b.Loop() {
					b.StopTimer()
					changeOne(b, dir)
					b.StartTimer()
					runGit(b, "", "-C", clone, "fetch", "-q", "origin", "+refs/heads/main:refs/heads/main")
				}
			})
		})
	}
}

func benchFirst(b *testing.B, dir string) {
	peak(b)
	for b.Loop() {
		b.StopTimer()
		t := benchTerm(b, dir, 1000)
		b.StartTimer()
		if err := t.attempt(b.Context()); err != nil || t.control.Status().Writes != 1000 {
			b.Fatal(err, t.control.Status())
		}
	}
}

func benchPoll(b *testing.B, dir string) {
	t := benchTerm(b, dir, 1000)
	if err := t.attempt(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := t.attempt(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchCommit(b *testing.B, dir string) {
	t := benchTerm(b, dir, 1000)
	if err := t.attempt(b.Context()); err != nil {
		b.Fatal(err)
	}
	peak(b)
	for b.Loop() {
		b.StopTimer()
		changeOne(b, dir)
		b.StartTimer()
		if err := t.attempt(b.Context()); err != nil || t.control.Status().Writes != 1 {
			b.Fatal(err, t.control.Status())
		}
	}
}
