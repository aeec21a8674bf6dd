package reconciler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
)

// A signedFleet is a writer whose commits have to be signed, by alice or the master, with a clone from which people push.
type signedFleet struct {
	*writer
	people *signers
	clone  string
}

func inSignedFleet(t *testing.T, f func(s *signedFleet)) {
	w := newWriter(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base: {'*': [web]}\n")},
		"settings/web.yaml": {Data: []byte("schedule:\n  beat: {module: test.ping, interval: 1m}\n")},
	})
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		w.t, w.bus = t, b
		s := &signedFleet{w, newSigners(t), filepath.Join(w.dir, "clone")}
		s.people.run(w.dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "master")
		key, err := os.ReadFile(filepath.Join(w.dir, "master.pub"))
		if err == nil {
			err = os.WriteFile(s.people.allowed, []byte("alice@example.com "+s.people.public("alice")+"\nzester@example.com "+string(key)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.keys, w.key = gitrepo.Trust{SSH: s.people.allowed}, filepath.Join(w.dir, "master")
		s.people.run(w.dir, "git", "clone", "-q", w.repo, s.clone)
		s.push("# signed\n", s.people.ssh("alice")...)
		f(s)
	})
}

// push adds text to the settings in a commit on the newest one of the branch.
func (s *signedFleet) push(text string, options ...string) settings.Commit {
	s.t.Helper()
	s.people.run(s.clone, "git", "pull", "-q", "--ff-only")
	old, err := os.ReadFile(filepath.Join(s.clone, "settings", "web.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.people.commit(s.clone, string(old)+text, options...)
	s.people.run(s.clone, "git", "push", "-q", "origin", "HEAD:main")
	return c
}

// stays wants that neither the branch nor the revision in force moves.
func (s *signedFleet) stays(head, inForce settings.Commit) {
	s.t.Helper()
	if got := settings.Commit(s.head()); got != head {
		s.t.Errorf("somebody committed on %.7s: %q", head, s.commits()[0])
	}
	if got := s.record().Commit; got != inForce {
		s.t.Errorf("%.7s is in force, want %.7s", got, inForce)
	}
}

const evil = "  evil: {module: cmd.run, args: {cmd: id}, interval: 1s}\n"

func TestNoMasterCommitsForAPersonOnACommitThatIsNotAccepted(t *testing.T) {
	inSignedFleet(t, func(s *signedFleet) {
		s.master("m1")
		s.peel("a")
		time.Sleep(2 * time.Minute)
		good := s.record().Commit
		bad := s.push(evil)
		time.Sleep(2 * time.Minute)
		err := s.ask("add", api.ScheduleAddRequest{Name: "uptime", Fields: map[string]any{"module": "test.ping", "interval": "5m"}})
		if err == nil || !strings.Contains(err.Error(), "the newest commit is not accepted: ") || !strings.Contains(err.Error(), "it has none") {
			s.t.Errorf("the request was answered with %v", err)
		}
		time.Sleep(2 * time.Minute)
		s.stays(bad, good)
	})
}

func TestNoMasterRemovesASpentEntryOnACommitThatIsNotAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	inSignedFleet(t, func(s *signedFleet) {
		s.master("m1")
		s.peel("a")
		time.Sleep(2 * time.Minute)
		at := s.once("once")
		time.Sleep(2 * time.Minute)
		good := s.record().Commit
		if string(good) != s.head() {
			s.t.Fatalf("%.7s is in force, want the commit of the master", good)
		}
		bad := s.push(evil)
		time.Sleep(time.Until(at) + time.Hour)
		s.stays(bad, good)

		s.people.run(s.clone, "git", "reset", "-q", "--hard", string(good))
		s.people.run(s.clone, "git", "push", "-q", "-f", "origin", "HEAD:main")
		time.Sleep(time.Hour)
		if got := s.commits()[0]; !strings.HasPrefix(got, "zester: schedules: remove once") || string(s.record().Commit) != s.head() {
			s.t.Errorf("on the revision in force the entry is not removed: %q", got)
		}
	})
}

// TestACommitThatIsNotAcceptedCannotDeclareAnEntrySpent has an attacker who makes an entry that runs every few seconds look like one
// that was to run a minute ago.
func TestACommitThatIsNotAcceptedCannotDeclareAnEntrySpent(t *testing.T) {
	inSignedFleet(t, func(s *signedFleet) {
		s.master("m1")
		s.peel("a")
		time.Sleep(2 * time.Minute)
		if err := s.ask("add", api.ScheduleAddRequest{Name: "ok", Fields: map[string]any{"module": "test.ping", "interval": "5s"}}); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		good := s.record().Commit
		s.people.run(s.clone, "git", "pull", "-q", "--ff-only")
		file := filepath.Join(s.clone, "settings", "api", "ok.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		at := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		spent := strings.Replace(string(text), "interval: 5s", fmt.Sprintf("at: %q\n    delete_after_run: true", at), 1)
		if err := os.WriteFile(file, []byte(spent), 0o600); err != nil || spent == string(text) {
			s.t.Fatal(err, spent)
		}
		bad := s.push(evil)
		time.Sleep(30 * time.Minute)
		s.stays(bad, good)
	})
}

func TestEveryCommitSinceTheOneInForceIsSigned(t *testing.T) {
	inSignedFleet(t, func(s *signedFleet) {
		git := func(args ...string) { s.people.run(s.clone, "git", append(s.people.ssh("alice"), args...)...) }
		base := s.head()
		s.push("# signed as well\n", s.people.ssh("alice")...)
		s.master("m1")
		time.Sleep(2 * time.Minute)
		good := s.record().Commit
		s.push(evil)
		bad := s.push("# a person's commit on it\n", s.people.ssh("alice")...)
		time.Sleep(2 * time.Minute)
		s.stays(bad, good)

		git("reset", "-q", "--hard", string(good))
		git("merge", "-q", "-s", "ours", "-m", "leave out what nobody signed", string(bad))
		git("push", "-q", "origin", "HEAD:main") // no force: the merge comes after the unsigned commit
		time.Sleep(2 * time.Minute)
		merge := settings.Commit(s.head())
		s.stays(merge, merge)

		git("reset", "-q", "--hard", string(base)) // of a branch that began before the revision in force
		git("commit", "-q", "--allow-empty", "-m", "of a branch")
		git("merge", "-q", "-m", "with the main branch", string(merge))
		git("push", "-q", "origin", "HEAD:main")
		time.Sleep(2 * time.Minute)
		merge = settings.Commit(s.head())
		s.stays(merge, merge)
	})
}
