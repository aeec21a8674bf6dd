package gitrepo_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

// bench is a repo with real keys: alice's and mallory's of SSH, alice's of OpenPGP.
type bench struct {
	dir     string
	env     []string
	alice   string // SSH public key
	armored []byte
}

func newBench(t *testing.T) *bench {
	t.Helper()
	for _, tool := range []string{"git", "gpg", "ssh-keygen"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, which is not installed", tool)
		}
	}
	// The socket of gpg-agent takes no long path.
	home, err := os.MkdirTemp("", "sig")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: home, env: append(os.Environ(), "HOME="+home, "GNUPGHOME="+home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@x", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@x")}
	t.Cleanup(func() {
		b.run(t, "gpgconf", "--kill", "gpg-agent")
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	for _, who := range []string{"alice", "mallory"} {
		b.run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", who)
	}
	b.run(t, "gpg", "--batch", "--passphrase", "", "--quick-gen-key", "alice <alice@x>", "ed25519", "sign", "2d")
	b.armored = b.run(t, "gpg", "--armor", "--export")
	b.alice = strings.TrimSpace(string(b.run(t, "cat", "alice.pub")))
	b.run(t, "git", "init", "-q", "repo")
	return b
}

func (b *bench) run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v %s", name, args, err, out)
	}
	return out
}

// commit makes a commit with real git, whose author is always alice.
func (b *bench) commit(t *testing.T, args ...string) []byte {
	t.Helper()
	b.run(t, "git", append(append([]string{"-C", "repo"}, args...), "commit", "-q", "--allow-empty", "-m", "a change\n\ntext")...)
	return b.run(t, "git", "-C", "repo", "cat-file", "commit", "HEAD")
}

func bySSH(key string) []string {
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key, "-c", "commit.gpgsign=true"}
}

// gitAccepts is what git itself says of the head.
func (b *bench) gitAccepts(t *testing.T, allowed string) bool {
	t.Helper()
	file := filepath.Join(b.dir, "allowed")
	if err := os.WriteFile(file, []byte(allowed), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "-C", "repo", "-c", "gpg.ssh.allowedSignersFile="+file, "verify-commit", "HEAD")
	cmd.Dir, cmd.Env = b.dir, b.env
	return cmd.Run() == nil
}

func TestSSHSignaturesAreJudgedAsGitJudgesThem(t *testing.T) {
	b := newBench(t)
	line := func(options string) string { return "alice@x " + options + b.alice + "\n" }
	tests := []struct {
		name, allowed string
		sign          []string
		problem       string // "" accepted
	}{
		{"allowed", line(""), bySSH("alice.pub"), ""},
		{"valid", line(`valid-after="20200101",valid-before="20990101" `), bySSH("alice.pub"), ""},
		{"for git", line(`namespaces="file,git" `), bySSH("alice.pub"), ""},
		{"unsigned", line(""), nil, "it has none"},
		{"mallory under alice's name", line(""), bySSH("mallory.pub"), "not among the allowed"},
		{"expired", line(`valid-before="20200101" `), bySSH("alice.pub"), "has expired"},
		{"not valid yet", line(`valid-after="20990101" `), bySSH("alice.pub"), "not valid yet"},
		{"for files alone", line(`namespaces="file" `), bySSH("alice.pub"), "not among the allowed"},
		{"nobody allowed", "# nobody\n", bySSH("alice.pub"), "not among the allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, a := range tt.sign {
				if key, ok := strings.CutPrefix(a, "user.signingkey="); ok {
					tt.sign[i] = "user.signingkey=" + filepath.Join(b.dir, key)
				}
			}
			c := b.commit(t, tt.sign...)
			var k gitrepo.Keys
			if err := k.AddSSH([]byte(tt.allowed)); err != nil {
				t.Fatal(err)
			}
			who, err := k.Verify(c, time.Now())
			check(t, err, tt.problem, len(tt.sign) > 0)
			if tt.problem == "" && who.Principal != "alice@x" {
				t.Errorf("signed by %+v, want alice@x", who)
			}
			if git := b.gitAccepts(t, tt.allowed); git != (err == nil) {
				t.Errorf("git accepts: %v, but Verify says %v", git, err)
			}
			if _, err := k.Verify(append(c, "more"...), time.Now()); err == nil {
				t.Error("a changed commit is accepted")
			}
		})
	}
}

func TestOpenPGPSignaturesAreJudgedAsGitJudgesThem(t *testing.T) {
	b := newBench(t)
	var k gitrepo.Keys
	c := b.commit(t, "-c", "commit.gpgsign=true", "-c", "user.signingkey=alice@x")
	_, err := k.Verify(c, time.Now())
	check(t, err, "not among the allowed", true)
	if err := k.AddOpenPGP(b.armored); err != nil {
		t.Fatal(err)
	}
	who, err := k.Verify(c, time.Now())
	if err != nil || who.Principal != "alice <alice@x>" || len(who.Fingerprint) != 40 || !b.gitAccepts(t, "") {
		t.Errorf("signed by %+v, %v; git agrees: %v", who, err, b.gitAccepts(t, ""))
	}
	_, err = k.Verify(append(c, "more"...), time.Now())
	check(t, err, "invalid", true)
	for _, tt := range []struct {
		after   time.Duration
		problem string
	}{{-time.Hour, "expired"}, {-6 * time.Minute, "expired"}, {-4 * time.Minute, ""}, {24 * time.Hour, ""}, {72 * time.Hour, "expired"}} {
		_, err = k.Verify(c, time.Now().Add(tt.after))
		if tt.problem == "" && err != nil {
			t.Errorf("after %v: %v", tt.after, err)
		}
		check(t, err, tt.problem, true)
	}
}

// check wants a problem, by name or any where nothing is accepted, and a fingerprint where there was a signature.
func check(t *testing.T, err error, problem string, signed bool) {
	t.Helper()
	if problem == "" {
		return
	}
	e, ok := errors.AsType[*gitrepo.SignatureError](err)
	if !ok || !strings.Contains(e.Problem, problem) || signed != (e.Fingerprint != "") {
		t.Errorf("%#v, want a problem with %q", err, problem)
	}
}

func FuzzVerifyNeverPanics(f *testing.F) {
	f.Add([]byte("tree 0\ngpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----\n\nmessage"))
	f.Add([]byte("tree 0\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n wg==\n -----END PGP SIGNATURE-----\n\nmessage"))
	f.Fuzz(func(t *testing.T, commit []byte) {
		var k gitrepo.Keys
		if who, err := k.Verify(commit, time.Now()); err == nil {
			t.Errorf("nobody is allowed, but %+v is accepted", who)
		}
	})
}
