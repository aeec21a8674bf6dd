package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestWhenSyncWaitEnds(t *testing.T) {
	is := func(types ...status.Type) (conditions []status.Condition) {
		for _, c := range types {
			conditions = append(conditions, status.Condition{Type: c, Status: true})
		}
		return conditions
	}
	unsigned := func(c settings.Commit) []status.Condition {
		return []status.Condition{{Type: status.SourceVerified, ObservedRevision: c}}
	}
	factsWait := []status.Condition{{Type: status.GuardBlocked, Status: true, Reason: status.FactsChanged}}
	good := status.Revision{Commit: "aaaa1111"}
	all := status.Counts{Peels: 3, Applied: 3}
	for _, test := range []struct {
		name string
		goal goal
		sync status.Sync
		want int // exit code, -1: goes on
	}{
		{"all applied", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: all}, exitOK},
		{"nothing in force yet", goal{}, status.Sync{}, -1},
		{"a newer commit is seen", goal{}, status.Sync{Observed: "bbbb", LastGood: good, Counts: all}, -1},
		{"a peel is pending", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Pending: 1}}, -1},
		{"a peel has failed", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Failed: 1}}, exitSomeFailed},
		{"a peel is offline", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 3, Applied: 2, Offline: 1}}, exitSomeSilent},
		{"one of each", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: status.Counts{Peels: 2, Failed: 1, Offline: 1}}, exitBoth},
		{"refused", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed), Counts: all}, exitFailed},
		{"blocked", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: is(status.GuardBlocked), Counts: all}, exitFailed},
		{"facts wait", goal{}, status.Sync{Observed: "aaaa1111", LastAttempted: "aaaa1111", LastGood: good, Conditions: factsWait, Counts: all}, exitOK},
		{"facts wait, and a newer commit comes", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: factsWait, Counts: all}, -1},
		{"taken back", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", Skipped: "bbbb", LastGood: good, Counts: all}, exitFailed},
		{"not signed", goal{}, status.Sync{Observed: "bbbb", LastAttempted: "bbbb", LastGood: good, Conditions: unsigned("bbbb"), Counts: all}, exitFailed},
		{"not signed by today's keys, but in force", goal{}, status.Sync{Observed: "aaaa1111", LastAttempted: "aaaa1111", LastGood: good, Conditions: unsigned("aaaa1111"), Counts: all}, exitOK},
		{"an older was taken back", goal{}, status.Sync{Observed: "aaaa1111", LastAttempted: "aaaa1111", Skipped: "bbbb", LastGood: good, Counts: all}, exitOK},
		{"another than that waited for is refused", goal{revision: "cccc"}, status.Sync{LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed)}, -1},
		{"the one in force, though a newer is refused", goal{revision: "aaaa"}, status.Sync{LastAttempted: "bbbb", LastGood: good, Conditions: is(status.CompileFailed), Counts: all}, exitOK},
		{"the branch cannot be read just now", goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Conditions: is(status.FetchFailed), Counts: all}, -1},
		{"it will not be read", goal{}, status.Sync{LastGood: good, Conditions: is(status.FetchFailed, status.Stalled), Counts: all}, exitFailed},
		{"which matters only for what is not in force", goal{revision: "aaaa"}, status.Sync{LastGood: good, Conditions: is(status.FetchFailed, status.Stalled), Counts: all}, exitOK},
		{"more peels are waited for", goal{peels: 4}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: all}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := -1
			done, err := test.goal.reached(&test.sync)
			if done {
				got = (&app{errOut: io.Discard}).exit(nil, err)
			}
			if got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestAWaitSaysWhatIsMissing(t *testing.T) {
	good, counts := status.Revision{Commit: "aaaa1111"}, status.Counts{Peels: 3, Applied: 2, Pending: 1}
	paused := []status.Condition{{Type: status.Suspended, Status: true, Reason: "Paused", Message: "by ada"}}
	away := []status.Condition{{Type: status.FetchFailed, Status: true, Reason: "Unreachable", Message: "no route"}}
	for _, test := range []struct {
		goal goal
		sync status.Sync
		want string
	}{
		{goal{}, status.Sync{}, "no revision is in force yet"},
		{goal{}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: counts}, "aaaa1111 is in force, 2 of 3 applied, 1 pending"},
		{goal{peels: 5}, status.Sync{Observed: "aaaa1111", LastGood: good, Counts: counts}, "aaaa1111 is in force, 2 of 3 applied, 1 pending, 5 peels are wanted"},
		{goal{}, status.Sync{Observed: "bbbb2222", LastGood: good, Counts: counts}, "bbbb2222 is not in force yet"},
		{goal{}, status.Sync{Observed: "bbbb2222", LastGood: good, Conditions: paused}, "bbbb2222 is not in force yet; Paused by ada"},
		{goal{}, status.Sync{LastGood: good, Conditions: away}, "the branch cannot be read, aaaa1111 is in force; Unreachable no route"},
		{goal{}, status.Sync{Conditions: away}, "no revision is in force yet; Unreachable no route"},
		{goal{revision: "bbbb"}, status.Sync{Observed: "bbbb2222", LastGood: good}, "bbbb is not in force yet"},
		{goal{revision: "cccc"}, status.Sync{Branch: "main", Observed: "bbbb2222", LastGood: good}, "revision cccc is neither in force nor the newest of main, which is bbbb2222"},
	} {
		if got := test.goal.missing(&test.sync); got != test.want {
			t.Errorf("%+v, %+v: %q, want %q", test.goal, test.sync, got, test.want)
		}
	}
}

func TestTheBarCountsPeelsWithTheAwaitedRevision(t *testing.T) {
	s := status.Sync{Observed: "bbbb2222", LastGood: status.Revision{Commit: "aaaa1111"}, Counts: status.Counts{Peels: 3, Applied: 3}}
	for want, g := range map[string]goal{"  0%": {}, " 0%": {revision: "cccc"}, " 100%": {revision: "aaaa"}, " 60%": {revision: "aaaa", peels: 5}} {
		if got := g.bar(&s); !strings.HasSuffix(got, want) {
			t.Errorf("%+v: %s, want %s", g, got, want)
		}
	}
}

func TestAWaitWithoutATerminalPrintsItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		began := time.Now()
		w := &waiting{line: newProgress(&out), began: began}
		for time.Since(began) < 2*time.Minute {
			text := "none"
			if time.Since(began) > 7*time.Second {
				text = "one"
			}
			before := out.Len()
			w.show("[####]", text)
			if out.Len() > before {
				fmt.Fprintln(&out, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		if want := "waiting: none\n5s\nwaiting: one\n10s\nwaiting: one\n1m10s\n"; out.String() != want {
			t.Errorf("it prints\n%s, want\n%s", &out, want)
		}
	})
}

func TestAWaitEndsAtOnceWhereTheRepoCannotBeRead(t *testing.T) {
	t.Parallel()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	t.Cleanup(locked.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(page.Close)
	work, err := worktree.Init(filepath.Join(t.TempDir(), "repo"), os.DirFS("testdata/repo"), "The beginning", ada)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		repo gitrepo.Options
		want string
	}{
		"a branch that is not there":    {gitrepo.Options{URL: work.Dir(), Branch: "mian"}, "hint: push the branch, or name another"},
		"a directory that is not there": {gitrepo.Options{URL: filepath.Join(work.Dir(), "none")}, "hint: is the address right?"},
		"no Git":                        {gitrepo.Options{URL: page.URL}, "hint: is the address right?"},
		"no credential":                 {gitrepo.Options{URL: locked.URL}, "hint: give the master a credential"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fleet{dir: filepath.Join(t.TempDir(), "master"), repo: c.repo}
			ctx, stop := context.WithCancel(t.Context())
			g, ctx := errgroup.WithContext(ctx)
			defer func() {
				stop()
				if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			if err := f.startMaster(ctx, g); err != nil {
				t.Fatal(err)
			}
			var out, errOut bytes.Buffer
			code := run(ctx, []string{"--data-dir", f.dir, "sync", "wait", "--timeout", patience.String()}, &out, &errOut)
			if code != exitFailed || out.Len() > 0 || !strings.HasPrefix(errOut.String(), "zester: cannot read the branch: ") || !strings.Contains(errOut.String(), c.want) {
				t.Errorf("ended with %d and shows %s%s, want %q", code, &out, &errOut, c.want)
			}
		})
	}
}

// A directory has no credential.
func TestTheHintForARepoThatMayNotBeReadIsOfItsPlace(t *testing.T) {
	t.Parallel()
	for repo, want := range map[string]string{"/root/fleet": "such as in /srv", "https://git.example/fleet": "a credential"} {
		s := &status.Sync{Repo: repo, Conditions: []status.Condition{{Type: status.FetchFailed, Status: true, Reason: "Forbidden"}}}
		if f := lost(s); f == nil || !strings.Contains(f.hint, want) {
			t.Errorf("%s: %+v, want %s", repo, f, want)
		}
	}
}

func TestPeelsWhoseIDTwoProcessesShareAreShown(t *testing.T) {
	var out strings.Builder
	(&app{out: &out}).describeSync(&status.Sync{Findings: status.Findings{Duplicates: []target.PeelID{"web-01"}}})
	if !strings.Contains(out.String(), "duplicate:  two processes are connected as web-01: ") {
		t.Error(out.String())
	}
}

func TestPeelsThatDoNotUnderstandTheirStatesAreShown(t *testing.T) {
	var out strings.Builder
	(&app{out: &out}).describeSync(&status.Sync{Findings: status.Findings{Outdated: []target.PeelID{"a", "b", "c", "d", "e", "f"}}})
	if want := "outdated:   zester-peel is too old for the states in the settings of a, b, c, d, e and 1 more\n"; !strings.Contains(out.String(), want) {
		t.Error(out.String())
	}
	rows := syncPeelsTable([]status.Peel{{Peel: "a", State: status.Applied, Outdated: true}}).rows
	if rows[0][1] != "applied, outdated" {
		t.Errorf("%q", rows)
	}
	now := time.Now()
	peels := withoutFeature([]status.Peel{
		{Peel: "new", Reported: now, Features: []string{wire.FeatureStates}}, {Peel: "old", Reported: now}, {Peel: "old-without-states", Reported: now}, {Peel: "silent"},
	}, []target.PeelID{"new", "old", "silent"})
	if !slices.Equal(peels, []target.PeelID{"old"}) {
		t.Errorf("%q", peels)
	}
}

func TestStatusNamesTheFolderOfTheFleet(t *testing.T) {
	for path, want := range map[string]bool{"prod": true, ".": false, "": false} {
		var out strings.Builder
		(&app{out: &out}).describeSync(&status.Sync{Branch: "main", Path: path})
		if got := strings.Contains(out.String(), "path:       "+path+"\n"); got != want {
			t.Errorf("path %q: %s", path, out.String())
		}
	}
}

func TestThePeelsThatLackContentsAreShown(t *testing.T) {
	t.Parallel()
	rows := syncPeelsTable([]status.Peel{{Peel: "a", State: status.Applied, MissingContents: 2}}).rows
	if len(rows) != 1 || rows[0][1] != "applied, contents missing: 2" {
		t.Errorf("%q", rows)
	}
}
