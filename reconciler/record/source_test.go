package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

func TestSourcesAreEqualIfTheyLeadToTheSamePlace(t *testing.T) {
	want := Source{Repo: "git.example.com/org/fleet", Branch: "main", Path: "prod"}
	for _, repo := range []string{
		"https://git.example.com/org/fleet", "https://git.example.com/org/fleet.git", "https://git.example.com/org/fleet/",
		"http://git.example.com:80/org/fleet", "https://GIT.example.com:443/org/fleet?token=secret", "https://user:secret@git.example.com/org/fleet",
		"ssh://git@git.example.com/org/fleet.git", "ssh://git@git.example.com:22/org/fleet", "git@git.example.com:org/fleet.git", "git.example.com:/org/fleet",
	} {
		for _, dir := range []string{"prod", "/prod/", "./prod", "x/../prod"} {
			if got := NewSource(repo, "main", dir); got != want {
				t.Errorf("%s at %s is %+v", repo, dir, got)
			}
		}
	}
	for _, repo := range []string{
		"https://git.example.com:8443/org/fleet", "https://git.example.com/org/Fleet", "https://other.example.com/org/fleet", "/git.example.com/org/fleet",
		"ssh://git.example.com:443/org/fleet", "https://git.example.com/org", "https://git.example.com/org/fleet2", "",
	} {
		if got := NewSource(repo, "main", "prod"); got == want {
			t.Errorf("%s is taken for %s", repo, want.Repo)
		}
	}
	for _, repo := range []string{"/srv/fleet.git", "file:///srv/fleet.git", "/srv/x/../fleet.git/"} {
		if got := NewSource(repo, "main", ""); got != (Source{Repo: "/srv/fleet.git", Branch: "main"}) {
			t.Errorf("%s is %+v", repo, got)
		}
	}
}

func FuzzSource(f *testing.F) {
	for _, repo := range []string{"https://u:p@h/p.git", "git@h:p", "/a/b", "file:///a", "h:", ":", "://", "https://[::1]:443/x", "@", ""} {
		f.Add(repo, "path")
	}
	f.Fuzz(func(t *testing.T, repo, dir string) {
		s := NewSource(repo, "main", dir)
		if strings.HasPrefix(s.Path, "/") || strings.HasSuffix(s.Path, "/") {
			t.Errorf("%q is the path of %q", s.Path, dir)
		}
		if again := NewSource(repo, "main", s.Path); again != s {
			t.Errorf("%+v, once more %+v", s, again)
		}
	})
}

func TestWhatMayBeAdopted(t *testing.T) {
	a, b := Source{Repo: "h/a", Branch: "main"}, Source{Repo: "h/b", Branch: "main", Path: "prod"}
	before := Record{
		Source: a, Commit: "c1", Generation: 7, Skipped: []Skipped{{Commit: "c3"}}, Safety: policy.Safety{Limits: &policy.Limits{Peels: 7}}, Rollout: &Rollout{Commit: "c2"}, Blocked: &Blocked{}, Approved: &Approval{}, Pinned: &Pin{}, Suspended: &Approval{},
	}
	for _, c := range []struct {
		name     string
		r        Record
		from, to string
		own      Source
		want     string // part of the refusal; empty: it is adopted
	}{
		{"as it was seen", before, a.String(), b.String(), b, ""},
		{"adopted already", before, a.String(), a.String(), a, "follows h/a, branch main already"},
		{"of no source", Record{}, "", b.String(), b, "already"},
		{"adopted by another since", before, "h/c, branch main", b.String(), b, "follows h/a, branch main, and not h/c"},
		{"another master answers", before, a.String(), "h/c, branch main", b, "the master that answers follows h/b, branch main, path prod"},
	} {
		r, err := c.r.Adopted(c.from, c.to, c.own)
		_, refused := errors.AsType[*Refusal](err)
		switch {
		case c.want != "":
			if !refused || !strings.Contains(err.Error(), c.want) || r.Source != c.r.Source {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		case err != nil || r.Source != c.own || r.Commit != "" || r.IsSent("c1") || !r.IsAdopted() || r.Rollout != nil || r.Blocked != nil || r.Approved != nil || r.Pinned != nil ||
			r.Suspended == nil || r.Skipped != nil || r.Limits == nil:
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	if before.Rollout == nil || before.Source != a {
		t.Errorf("the argument was changed: %+v", before)
	}
}

// A master of another configuration writes no record, whatever it decides.
func TestARecordOfAnotherSourceIsNotWritten(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		kv := openBucket(t, bus)
		own, other := Source{Repo: "h/a", Branch: "main"}, Source{Repo: "h/b", Branch: "main"}
		r, err := NewStore(kv, "m1", own).Write(t.Context(), Record{Commit: "c1"})
		if err != nil || r.Source != own {
			t.Fatalf("%+v, %v", r, err)
		}
		s := NewStore(kv, "m2", other)
		if r, err = s.Read(t.Context()); err != nil || r.CheckSource(own) != nil {
			t.Fatal(err, r.CheckSource(own))
		}
		r.Commit = "c2"
		if _, err := s.Write(t.Context(), r); err == nil || !strings.Contains(err.Error(), "zester sync adopt") {
			t.Errorf("the record of another source was written: %v", err)
		}
		if r, err = s.Read(t.Context()); err != nil || r.Commit != "c1" {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err = r.Adopted(own.String(), other.String(), other); err != nil {
			t.Fatal(err)
		}
		if r, err = s.Write(t.Context(), r); err != nil || r.Source != other {
			t.Errorf("%+v, %v", r, err)
		}
		if err := r.CheckSource(own); err == nil {
			t.Error("the master of before may go on")
		}
	})
}
