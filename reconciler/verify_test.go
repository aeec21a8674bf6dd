package reconciler

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// signers are people with real keys, and the file of those that may sign.
type signers struct {
	t       *testing.T
	home    string
	allowed string // file of SSH keys
	keyring string // file of OpenPGP keys
}

func newSigners(t *testing.T) *signers {
	t.Helper()
	for _, tool := range []string{"git", "gpg", "ssh-keygen"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, which is not installed", tool)
		}
	}
	home, err := os.MkdirTemp("", "keys") // the socket of gpg-agent takes no long path
	if err != nil {
		t.Fatal(err)
	}
	s := &signers{t: t, home: home, allowed: filepath.Join(home, "allowed"), keyring: filepath.Join(home, "keyring.asc")}
	t.Cleanup(func() {
		s.run(home, "gpgconf", "--kill", "gpg-agent")
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	for _, who := range []string{"alice", "mallory"} {
		s.run(home, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", who)
	}
	s.allow("alice")
	return s
}

// pgp makes OpenPGP keys, allows that of alice, and returns the options by which somebody signs. gpg runs at the time of
// the bubble, which is part of keys and signatures.
func (s *signers) pgp() (options func(who string) []string) {
	s.t.Helper()
	gpg := filepath.Join(s.home, "gpg-now")
	now := time.Now().UTC().Format("20060102T150405")
	if err := os.WriteFile(gpg, []byte("#!/bin/sh\nexec gpg --faked-system-time "+now+"! \"$@\"\n"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	for _, who := range []string{"alice", "mallory"} {
		s.run(s.home, gpg, "--batch", "--passphrase", "", "--quick-gen-key", who+" <"+who+"@example.com>", "ed25519", "sign", "2d")
	}
	s.run(s.home, gpg, "--armor", "--output", s.keyring, "--export", "alice")
	return func(who string) []string {
		return []string{"-c", "gpg.program=" + gpg, "-c", "user.signingkey=" + who + "@example.com", "-c", "commit.gpgsign=true"}
	}
}

// allow replaces the keys that may sign.
func (s *signers) allow(people ...string) {
	s.t.Helper()
	var lines strings.Builder
	for _, who := range people {
		lines.WriteString("alice@example.com " + s.public(who) + "\n")
	}
	if err := os.WriteFile(s.allowed, []byte(lines.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *signers) public(who string) string {
	s.t.Helper()
	key, err := os.ReadFile(filepath.Join(s.home, who+".pub"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

// fingerprint is what ssh-keygen calls a key.
func (s *signers) fingerprint(who string) string {
	s.t.Helper()
	return strings.Fields(s.run(s.home, "ssh-keygen", "-l", "-f", who+".pub"))[1]
}

func (s *signers) run(dir, name string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+s.home, "GNUPGHOME="+s.home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@example.com", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit has real git commit a change of one file, signed as the options say. The author is always alice.
func (s *signers) commit(repo, text string, options ...string) settings.Commit {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(repo, "settings", "web.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run(repo, "git", append(options, "commit", "-q", "--allow-empty", "-a", "-m", "a change")...)
	return settings.Commit(s.run(repo, "git", "rev-parse", "HEAD"))
}

func (s *signers) ssh(who string) []string {
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + filepath.Join(s.home, who), "-c", "commit.gpgsign=true"}
}

// verified wants a revision in force, and what is said of the signature of the newest.
func (b *bench) verified(inForce settings.Commit, reason, message string) {
	b.t.Helper()
	b.after(40 * time.Second)
	s := b.status()
	c := condition(s, status.SourceVerified)
	if s.LastGood.Commit != inForce || c.Status != (reason == "Signed") || c.Reason != reason || !strings.Contains(c.Message, message) {
		b.t.Errorf("%.7s is in force, want %.7s; %+v, want %s: %s", s.LastGood.Commit, inForce, c, reason, message)
	}
	if s.Distrusted() == c.Status || !c.Status && (len(s.Errors) != 1 || s.LastAttempted != c.ObservedRevision || !s.Is(status.Ready)) {
		b.t.Errorf("%+v", s)
	}
}

func condition(s status.Sync, of status.Type) status.Condition {
	for _, c := range s.Conditions {
		if c.Type == of {
			return c
		}
	}
	return status.Condition{}
}

func TestAHeadThatIsNotSignedByAKeyThatMayIsRefusedAndShown(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		b.keys.SSH = s.allowed
		b.peel("web-01", nil)
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", "alice@example.com with the key "+s.fingerprint("alice"))

		s.commit(b.dir, "schedule: {}\n")
		b.verified(good, "Untrusted", "it has none")
		s.commit(b.dir, "schedule: {}\n", s.ssh("mallory")...)
		b.verified(good, "Untrusted", s.fingerprint("mallory"))
		if got := b.entries("web-01"); got != "abcdx" {
			t.Errorf("the peel has %s", got)
		}
		s.commit(b.dir, xForW+"# better\n", s.ssh("alice")...)
		b.verified(good, "Untrusted", "before it is not accepted")
		b.moveTo(good)
		good = s.commit(b.dir, xForW+"# better\n", s.ssh("alice")...)
		b.verified(good, "Signed", "alice")

		later := s.commit(b.dir, xForW, s.ssh("mallory")...)
		b.verified(good, "Untrusted", s.fingerprint("mallory"))
		s.allow("alice", "mallory")
		b.verified(later, "Signed", s.fingerprint("mallory"))
	})
}

func TestOpenPGPSignaturesCountBesideThoseOfSSH(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		by := s.pgp()
		b.keys.SSH, b.keys.OpenPGP = s.allowed, s.keyring
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", "SHA256:")
		good = s.commit(b.dir, xForW+"# by the other key\n", by("alice")...)
		b.verified(good, "Signed", "by alice <alice@example.com> with the key ")
		s.commit(b.dir, "schedule: {}\n", by("mallory")...)
		b.verified(good, "Untrusted", "not among the allowed ones")
	})
}

func TestKeysThatCannotBeReadLetNothingThrough(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		b.keys.SSH = s.allowed
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", "alice")
		if err := os.Remove(s.allowed); err != nil {
			t.Fatal(err)
		}
		later := s.commit(b.dir, "schedule: {}\n", s.ssh("alice")...)
		b.after(40 * time.Second)
		now := b.status()
		if c := condition(now, status.FetchFailed); now.LastGood.Commit != good || c.Reason != "KeysUnreadable" || !strings.Contains(c.Message, s.allowed) {
			t.Errorf("%+v", now)
		}
		s.allow("alice")
		b.after(5 * time.Minute) // the longest pause between attempts
		b.verified(later, "Signed", "alice")
	})
}

func TestARevisionInForceStaysWhenItsKeyGoes(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		b.keys.SSH = s.allowed
		b.peel("web-01", nil)
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", "alice")
		b.stop()
		s.allow("mallory")
		b.start()
		b.after(40 * time.Second)
		now := b.status()
		if c := condition(now, status.SourceVerified); now.LastGood.Commit != good || !now.Is(status.Ready) || c.Status || !strings.Contains(c.Message, "stays in force") {
			t.Errorf("%+v", now)
		}
	})
}

// TestASignedBranchDoesNotGoBackByItself is about replay: the revision that comes back is signed as well.
func TestASignedBranchDoesNotGoBackByItself(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		b.keys.SSH = s.allowed
		b.peel("web-01", nil)
		first := s.commit(b.dir, xForW, s.ssh("alice")...)
		second := s.commit(b.dir, xForW+"  y: {module: test.ping, interval: 30m}\n", s.ssh("alice")...)
		b.start()
		b.verified(second, "Signed", "alice")
		b.moveTo(first)
		b.after(40 * time.Second)
		now := b.status()
		if c := condition(now, status.GuardBlocked); now.LastGood.Commit != second || c.Reason != "HistoryRewritten" || b.entries("web-01") != "abcdxy" {
			t.Fatalf("%+v", now)
		}
		b.stop()
		b.start()
		if now = b.status(); condition(now, status.GuardBlocked).Reason != "HistoryRewritten" {
			t.Errorf("in the next term: %+v", now)
		}
		if now = b.told("approve", status.ApproveRequest{Hash: now.Blocked}); now.LastGood.Commit != first || b.entries("web-01") != "abcdx" {
			t.Errorf("approved: %+v", now)
		}
	})
}

func TestTheLineOfTheMastersOwnKeyAllowsNothing(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		s.allow("alice", "mallory")
		b.keys.SSH, b.ownKey = s.allowed, s.fingerprint("mallory")
		for _, id := range webs(3) {
			b.peel(id, nil)
		}
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", s.fingerprint("alice"))
		s.commit(b.dir, "schedule: {}\n", s.ssh("mallory")...)
		s.run(b.dir, "git", append(s.ssh("mallory"), "commit", "-q", "--amend", "--allow-empty", "-m", "meant", "-m", "Zester-Allow: change, remove, peels")...)
		if out := b.now(); !out.Is(status.GuardBlocked) || !strings.Contains(condition(out, status.GuardBlocked).Message, "does not count, as the key of the master signed it") {
			t.Errorf("%+v", out)
		}
	})
}

// TestALineThatAllowsCountsOfSignersThatMay has two who may sign, of whom one may allow.
func TestALineThatAllowsCountsOfSignersThatMay(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		s := newSigners(t)
		s.allow("alice", "mallory")
		b.keys.SSH, b.mayAllow = s.allowed, []string{s.fingerprint("alice")}
		for _, id := range webs(3) {
			b.peel(id, nil)
		}
		good := s.commit(b.dir, xForW, s.ssh("alice")...)
		b.start()
		b.verified(good, "Signed", s.fingerprint("alice"))
		for _, c := range []struct {
			who   string
			waits bool
		}{{"mallory", true}, {"alice", false}} {
			s.commit(b.dir, "schedule: {}\n", s.ssh(c.who)...)
			s.run(b.dir, "git", append(s.ssh(c.who), "commit", "-q", "--amend", "--allow-empty", "-m", "meant", "-m", "Zester-Allow: change, remove, peels")...)
			out := b.now()
			if out.Is(status.GuardBlocked) != c.waits || (b.entries("web-00") == "abcdx") != c.waits {
				t.Errorf("%s: web-00 has %s, %+v", c.who, b.entries("web-00"), out)
			}
			if c.waits && !strings.Contains(condition(out, status.GuardBlocked).Message, "does not name its signer") {
				t.Errorf("%s: %+v", c.who, out)
			}
		}
	})
}
