package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// largeRepo makes a repo of 1,000 files with five entries each, of which three files are changed in the working tree, and
// a file of 10,000 peels of 50 kinds with a dozen facts each.
func largeRepo(b *testing.B) (repo, peels string) {
	b.Helper()
	tree := fstest.MapFS{}
	var top, facts strings.Builder
	top.WriteString("base:\n")
	for i := range 1000 {
		var text strings.Builder
		text.WriteString("schedule:\n")
		for e := range 5 {
			fmt.Fprintf(&text, "  e-%d-%d:\n    module: cmd.run\n    args: {command: uptime}\n    cron: '%d %d * * *'\n    timezone: Europe/London\n    splay: 5m\n", i, e, i%60, 4+i%20)
		}
		tree[fmt.Sprintf("settings/f%d.yaml", i)] = &fstest.MapFile{Data: []byte(text.String()), Mode: 0o644}
		fmt.Fprintf(&top, "  'G@group:%d and not x%d': [f%d]\n", i%50, i, i)
	}
	tree["top.yaml"] = &fstest.MapFile{Data: []byte(top.String()), Mode: 0o644}
	facts.WriteString("peels:\n")
	for i := range 10_000 {
		fmt.Fprintf(&facts, "  web-%05d:\n    facts: {os: debian, os_family: debian, kernel: linux, kernelrelease: 6.1.0-18-amd64, cpu_count: 4, mem_mb: 16384, "+
			"ipv4: [10.1.%d.%d], ipv6: ['fe80::1'], role: web, group: %d, rack: r%d, fqdn: web-%05d.example.com}\n", i, i/256, i%256, i%50, i%40, i)
	}
	dir := b.TempDir()
	repo, peels = filepath.Join(dir, "repo"), filepath.Join(dir, "peels.yaml")
	if _, err := worktree.Init(repo, tree, "The fleet", ada); err != nil {
		b.Fatal(err)
	}
	for _, i := range []int{7, 8, 9} {
		name := fmt.Sprintf("settings/f%d.yaml", i)
		changed := strings.ReplaceAll(string(tree[name].Data), "splay: 5m", "splay: 6m")
		if err := os.WriteFile(filepath.Join(repo, name), []byte(changed), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(peels, []byte(facts.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	return repo, peels
}

// The commands of a pull request, with all that they read and print.
func BenchmarkReview(b *testing.B) {
	repo, peels := largeRepo(b)
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"lint/files=1000", []string{"lint", repo}, exitOK},
		{"lint/files=1000/peels=10000", []string{"lint", repo, "--facts", peels}, exitOK},
		{"plan/files=1000/peels=10000", []string{"plan", "--repo", repo, "--facts", peels, "-o", "markdown"}, exitSomeFailed},
		{"plan/files=1000/peels=10000/json", []string{"plan", "--repo", repo, "--facts", peels, "-o", "json"}, exitSomeFailed},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if code := run(b.Context(), c.args, io.Discard, os.Stderr); code != c.want {
					b.Fatal(code)
				}
			}
		})
	}
}
