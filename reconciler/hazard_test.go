package reconciler

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// git runs real git in the repo that is followed.
func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// put writes a file of the working tree, which the next commit of [bench.gitCommit] takes.
func (b *bench) put(name string, data []byte) {
	b.t.Helper()
	_ = os.Remove(filepath.Join(b.dir, name)) // it may be a link
	if err := os.WriteFile(filepath.Join(b.dir, name), data, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(to, name string) {
	b.t.Helper()
	_ = os.Remove(filepath.Join(b.dir, name))
	if err := os.Symlink(to, filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) gitCommit() settings.Commit {
	b.t.Helper()
	b.git("add", "-A")
	b.git("commit", "-q", "--allow-empty", "-m", "a change")
	return settings.Commit(b.git("rev-parse", "HEAD"))
}

// inHazard runs f when the first revision is in force on one peel, and wants the next good commit to be followed after it.
func inHazard(t *testing.T, f func(b *bench, first settings.Commit)) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git, which is not installed")
	}
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		f(b, b.status().LastGood.Commit)
		b.git("read-tree", "--reset", "-u", "HEAD")
		b.put("top.yaml", siteFiles()["top.yaml"].Data)
		b.put("settings/web.yaml", []byte("schedule:\n  z: {module: test.ping, interval: 30m}\n"))
		good := b.gitCommit()
		if out := b.now(); out.LastGood.Commit != good || out.Is(status.CompileFailed) || out.Is(status.FetchFailed) || out.Is(status.Stalled) || b.entries("web-01") != "abcdz" {
			b.t.Errorf("the next good commit: web-01 has %s, %+v", b.entries("web-01"), out)
		}
	})
}

func TestContentThatARevisionMustNotHoldIsRefusedByName(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	for _, c := range []struct {
		name   string
		change func(b *bench)
		reason plan.Reason
		where  string // and the beginning of the error
	}{
		{"top file that links out of the tree", func(b *bench) { b.link("/etc/passwd", "top.yaml") }, plan.TopIsSymlink, "top.yaml: the top file is a symbolic link"},
		{"settings that link out of the tree", func(b *bench) { b.link("../../elsewhere/web.yaml", "settings/web.yaml") }, plan.Invalid, "top.yaml:3:13: cannot use web: settings/web.yaml is a symbolic link"},
		{"submodule", func(b *bench) {
			b.git("rm", "-q", "--cached", "settings/web.yaml")
			if err := os.Remove(filepath.Join(b.dir, "settings/web.yaml")); err != nil {
				b.t.Fatal(err)
			}
			b.git("init", "-q", "settings/web.yaml")
			b.git("-C", "settings/web.yaml", "commit", "-q", "--allow-empty", "-m", "another repo")
		}, plan.Invalid, "top.yaml:3:13: cannot use web: settings/web.yaml is a submodule"},
		{"pointer of LFS", func(b *bench) { b.put("settings/web.yaml", []byte(pointer)) }, plan.LFSPointer, "settings/web.yaml:1:1: it is a pointer of Git LFS"},
		{"file over 1 MiB", func(b *bench) { b.put("settings/web.yaml", bytes.Repeat([]byte("# long\n"), 150_000)) }, plan.TooLarge, "settings/web.yaml: 1050000 bytes"},
		{"content that is not UTF-8", func(b *bench) { b.put("settings/web.yaml", []byte("caf\xe9: 1\n")) }, plan.Invalid, "settings/web.yaml:1:"},
		{"backslash in a name of a settings file", func(b *bench) { b.put(`settings/a\b.yaml`, nil) }, plan.Invalid, `settings/a\b.yaml: the name "a\\b.yaml" has a backslash`},
		{"policy of another name", func(b *bench) { b.put("zester.yml", nil) }, plan.Invalid, "zester.yml: it is not read"},
		{"NUL", func(b *bench) { b.put("settings/web.yaml", []byte("a: \"\x00\"\n")) }, plan.Invalid, "settings/web.yaml:1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inHazard(t, func(b *bench, first settings.Commit) {
				writes := b.writes()
				c.change(b)
				commit := b.gitCommit()
				out := b.now()
				failed := conditionOf(out, status.CompileFailed)
				if !failed.Status || failed.Reason != string(c.reason) || failed.ObservedRevision != commit || len(out.Errors) != 1 || !strings.HasPrefix(out.Errors[0], c.where) {
					b.t.Errorf("%+v, %q", failed, out.Errors)
				}
				if !out.Is(status.Ready) || out.LastGood.Commit != first || b.writes() != writes || b.entries("web-01") != "abcdw" {
					b.t.Errorf("%s is not in force as it was: %+v", first.Short(), out)
				}
				for _, name := range []string{"settings/web.yaml", `settings/a\b.yaml`, "zester.yml"} {
					if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil { // a submodule is a directory
						b.t.Fatal(err)
					}
					b.git("rm", "-q", "--cached", "--ignore-unmatch", name)
				}
				b.git("commit", "-q", "--allow-empty", "-m", "without it")
			})
		})
	}
}

func TestContentThatARevisionMayHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bench)
	}{
		{"lines that end with CR LF", func(b *bench) { b.put("settings/web.yaml", []byte(strings.ReplaceAll(xForW, "\n", "\r\n"))) }},
		{"byte order mark", func(b *bench) { b.put("settings/web.yaml", []byte("\ufeff"+xForW)) }},
		{"name that is not UTF-8", func(b *bench) { b.put("docs-caf\xe9.txt", []byte("x")) }},
		{"names outside of the configuration that no other system has", func(b *bench) { b.put("docs-Icon\r", []byte("x")); b.put(`docs\a`, []byte("x")) }},
		{"link out of the tree that nothing uses", func(b *bench) { b.link("/etc/passwd", "settings/unused.yaml") }},
		{"large file that nothing uses", func(b *bench) { b.put("image.bin", make([]byte, 8<<20)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inHazard(t, func(b *bench, _ settings.Commit) {
				b.put("settings/web.yaml", []byte(xForW))
				c.change(b)
				commit := b.gitCommit()
				if out := b.now(); out.LastGood.Commit != commit || out.Is(status.CompileFailed) || b.entries("web-01") != "abcdx" {
					b.t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
				}
			})
		})
	}
}

func TestARebaseIsFollowedAndWritesWhatItChanges(t *testing.T) {
	inHazard(t, func(b *bench, first settings.Commit) {
		b.stop()
		b.history = HistoryAllow
		b.start()
		b.put("settings/web.yaml", []byte(xForW))
		b.gitCommit()
		b.now()
		writes := b.writes()
		b.git("checkout", "-q", "-b", "side", string(first))
		b.put("README", []byte("hello\n"))
		b.gitCommit()
		b.git("checkout", "-q", "main")
		b.git("rebase", "-q", "side")
		rebased := settings.Commit(b.git("rev-parse", "main"))
		out := b.now()
		if c := conditionOf(out, status.HistoryRewritten); out.LastGood.Commit != rebased || !c.Status || c.Reason != "ForcePushed" || b.writes() != writes {
			b.t.Errorf("%d writes, %+v", b.writes()-writes, out)
		}
	})
}

func TestATagOfTheBranchsNameMovesNothing(t *testing.T) {
	inHazard(t, func(b *bench, first settings.Commit) {
		b.put("settings/web.yaml", []byte(xForW))
		second := b.gitCommit()
		b.now()
		for _, args := range [][]string{{"tag", "main", string(first)}, {"tag", "-f", "-a", "-m", "annotated", "main", string(first)}, {"tag", "-d", "main"}} {
			b.git(args...)
			if out := b.now(); out.LastGood.Commit != second || out.Observed != second || out.Is(status.HistoryRewritten) {
				b.t.Errorf("git %v: %+v", args, out)
			}
		}
	})
}

func TestARemoteThatIsShallowIsRefusedUntilItIsWhole(t *testing.T) {
	inHazard(t, func(b *bench, first settings.Commit) {
		b.put("settings/web.yaml", []byte(xForW))
		second := b.gitCommit()
		mark := filepath.Join(b.dir, ".git", "shallow")
		if err := os.WriteFile(mark, []byte(second+"\n"), 0o600); err != nil {
			b.t.Fatal(err)
		}
		out := b.now()
		if c := conditionOf(out, status.FetchFailed); !c.Status || c.Reason != string(gitrepo.ShallowRemote) || !out.Is(status.Ready) || out.LastGood.Commit != first || b.entries("web-01") != "abcdw" {
			b.t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
		if err := os.Remove(mark); err != nil {
			b.t.Fatal(err)
		}
		if out := b.now(); out.LastGood.Commit != second || out.Is(status.FetchFailed) {
			b.t.Errorf("whole again: %+v", out)
		}
	})
}

func TestTwoCommitsInQuickSuccessionAreOneAttemptAndBothAreRemembered(t *testing.T) {
	inHazard(t, func(b *bench, _ settings.Commit) {
		var commits []settings.Commit
		for i := range 2 {
			b.put("settings/web.yaml", fmt.Appendf(nil, "schedule:\n  x: {module: test.ping, interval: %dm}\n", 10+i))
			commits = append(commits, b.gitCommit())
		}
		writes := b.writes()
		out := b.now()
		var past status.History
		if why := b.ask("history", nil, &past); why != "" || len(past.Attempts) < 3 {
			b.t.Fatalf("%s%+v", why, past)
		}
		newest, before := past.Attempts[0], past.Attempts[1]
		if out.LastGood.Commit != commits[1] || b.writes() != writes+1 || newest.Commit != commits[1] || newest.Outcome != status.OutcomeApplied || before.Commit != commits[0] || before.Outcome != status.OutcomeSuperseded {
			b.t.Errorf("%d writes, %+v, %+v", b.writes()-writes, before, newest)
		}
	})
}
