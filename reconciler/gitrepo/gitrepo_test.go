package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing"
)

func TestOpenRefusesWhatItCannotFollow(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, want string }{
		{"", "empty"},
		{"git://example.com/x", "want https"},
		{"ftp://example.com/x", "want https"},
		{"https:///x", "names no host"},
		{"file://host/x", "names no host"},
		{"a\nb", "control characters"},
		{"https://user:s3cret@exa mple.com/x", "not a URL"},
	} {
		_, err := Open(Options{URL: tc.name, Dir: dir})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open(%q) = %v, want %q in it", tc.name, err, tc.want)
		}
	}
	for _, o := range []Options{
		{URL: dir},
		{URL: dir, Dir: dir, Branch: "a..b"},
		{URL: dir, Dir: dir, Path: "../x"},
		{URL: dir, Dir: dir, Path: "/x"},
		{URL: dir, Dir: dir, Path: `a\b`},
		{URL: dir, Dir: dir, Path: "a/.git"},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("Open(%+v) succeeds", o)
		}
	}
}

func TestURLIsShownWithoutCredentials(t *testing.T) {
	for raw, want := range map[string]string{
		"https://u:p@example.com/a/b.git?token=t": "https://example.com/a/b.git",
		"ssh://git@example.com:2222/a":            "ssh://example.com:2222/a",
		"git@example.com:a/b.git":                 "example.com:a/b.git",
		"file:///srv/a":                           "/srv/a",
		"/srv/./a":                                "/srv/a",
	} {
		if got := openRepo(t, Options{URL: raw, Dir: t.TempDir()}).URL(); got != want {
			t.Errorf("URL of %q is %q, want %q", raw, got, want)
		}
	}
}

func TestFollowsALocalRepository(t *testing.T) {
	w := newWork(t, files("top.yaml", "a", "web/nginx.yaml", "b"))
	for name, url := range map[string]string{
		"worktree": w.Dir(), "file URL": "file://" + w.Dir(), "bare": filepath.Join(w.Dir(), ".git"),
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := follow(t, openRepo(t, Options{URL: url}))
			wantFiles(t, s.Tree, "top.yaml", "a", "web/nginx.yaml", "b")
			if err := fstest.TestFS(s.Tree, "top.yaml", "web/nginx.yaml"); err != nil {
				t.Error(err)
			}
			c := s.Commit
			if c.Author != "Alice" || c.Email != "alice@example.com" || !c.Time.Equal(alice.When) ||
				c.Subject() != "first" || len(c.Parents) != 0 || s.Tree.Len() != 3 {
				t.Errorf("commit is %+v with %d entries", c, s.Tree.Len())
			}
		})
	}
}

func TestFetchOfNewCommitAddsOnlyWhatIsMissing(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	first, _ := follow(t, r)
	h := commit(t, w, "second", "a", "3")
	second, damage := follow(t, r)
	if second.Commit.Hash != h || damage != "" {
		t.Fatalf("got %s and %q, want %s", second.Commit.Hash, damage, h)
	}
	wantFiles(t, second.Tree, "a", "3", "d/b", "2")
	wantFiles(t, first.Tree, "a", "1", "d/b", "2")
	if got := Changed(first.Tree, second.Tree); !slices.Equal(got, []string{"a"}) {
		t.Errorf("changed %q", got)
	}
	if n := packs(t, r); n != 2 {
		t.Errorf("store has %d packs, want 2", n)
	}
	if err := r.Fetch(t.Context(), h); err != nil || packs(t, r) != 2 {
		t.Errorf("fetching again: %v, %d packs", err, packs(t, r))
	}
}

func TestForcePushKeepsTheOldRevisionReadable(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, w, "second", "a", "2")
	r := openRepo(t, Options{URL: served(t, w, nil)})
	old, _ := follow(t, r)

	setBranch(t, w, first)
	back, _ := follow(t, r)
	if back.Commit.Hash != first {
		t.Errorf("after a rewind it is at %s", back.Commit.Hash)
	}

	blob := blobOf(t, back, "a")
	orphan := crafted(t, w, line("100644", "a", blob))
	s, damage := follow(t, r)
	if s.Commit.Hash != orphan || s.Tree.Hash() != back.Tree.Hash() || damage != "" {
		t.Errorf("an orphan with the same tree gives %s, %q", s.Commit.Hash, damage)
	}
	if forward, err := r.IsAncestor(old.Commit.Hash, orphan); err != nil || forward {
		t.Errorf("the orphan descends from what was there: %v, %v", forward, err)
	}

	if err := os.RemoveAll(w.Dir()); err != nil {
		t.Fatal(err)
	}
	again, err := reopened(t, r).Snapshot(old.Commit.Hash)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, again.Tree, "a", "2")
}

func TestMissingBranchNamesTheOnesThereAre(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir(), Branch: "prod"})
	_, err := r.Resolve(t.Context())
	if e := wantReason(t, err, RefNotFound); !strings.Contains(e.Msg, `"prod"`) || !strings.Contains(e.Msg, "main") {
		t.Errorf("message is %q", e.Msg)
	}
}

func TestBranchDeletedAndMadeAgainIsAForcePush(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	if err := w.repo.Storer.RemoveReference(plumbing.Main); err != nil {
		t.Fatal(err)
	}
	_, err := r.Resolve(t.Context())
	wantReason(t, err, EmptyRemote)
	wantFiles(t, s.Tree, "a", "1")
	crafted(t, w, line("100644", "b", blobOf(t, s, "a")))
	s, _ = follow(t, r)
	wantFiles(t, s.Tree, "b", "1")
}

func TestSwitchingTheBranchUsesTheSameStore(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, r)
	h := commit(t, w, "two", "a", "2")
	if err := w.repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/env/prod", plumbing.Hash(h))); err != nil {
		t.Fatal(err)
	}
	other := openRepo(t, Options{URL: urlOf(r), Branch: "env/prod", Dir: filepath.Dir(r.dir)})
	s, damage := follow(t, other)
	if s.Commit.Hash != h || damage != "" || other.dir != r.dir {
		t.Errorf("got %s, %q in %s", s.Commit.Hash, damage, other.dir)
	}
}

func TestLocalSourcesThatCannotBeFollowed(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bare, sha256, shallow := t.TempDir(), t.TempDir(), t.TempDir()
	gitCLI(t, bare, "init", "-q", "--bare")
	gitCLI(t, sha256, "init", "-q", "--object-format=sha256")
	w := newWork(t, files("a", "1"))
	commit(t, w, "two", "a", "2")
	gitCLI(t, shallow, "clone", "-q", "--depth=1", "file://"+w.Dir(), ".")
	shared := filepath.Join(t.TempDir(), "shared")
	gitCLI(t, w.Dir(), "clone", "-q", "--shared", w.Dir(), shared)
	for _, tc := range []struct {
		url  string
		want Reason
	}{
		{filepath.Join(empty, "none"), NotFound},
		{empty, NotGit},
		{file, NotGit},
		{bare, EmptyRemote},
		{sha256, UnsupportedObjectFormat},
		{shallow, ShallowRemote},
		{shared, UnsupportedObjectFormat},
	} {
		_, err := openRepo(t, Options{URL: tc.url}).Resolve(t.Context())
		wantReason(t, err, tc.want)
	}
}

func TestFollowsALinkedWorktree(t *testing.T) {
	w := newWork(t, files("a", "1"))
	linked := filepath.Join(t.TempDir(), "linked")
	gitCLI(t, w.Dir(), "worktree", "add", "-q", "-b", "side", linked)
	s, _ := follow(t, openRepo(t, Options{URL: linked, Branch: "side"}))
	wantFiles(t, s.Tree, "a", "1")
}

func TestOutsideGarbageCollectionIsNotNoticed(t *testing.T) {
	w := newWork(t, files("a", "1"))
	commit(t, w, "two", "a", "2")
	r := openRepo(t, Options{URL: w.Dir()})
	old, _ := follow(t, r)
	commit(t, w, "three", "a", "3")
	_, err := r.CommitInfo(Hash{9}) // has the list of packs read, which a garbage collection makes wrong
	wantReason(t, err, RevisionNotFound)
	gitCLI(t, w.Dir(), "gc", "-q", "--prune=now")
	wantFiles(t, old.Tree, "a", "2")
	s, _ := follow(t, r)
	wantFiles(t, s.Tree, "a", "3")
	wantFiles(t, old.Tree, "a", "2")
}

func TestACommitThatIsGoneIsResolvedAgain(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	wantReason(t, r.Fetch(t.Context(), Hash{1}), RefMoved)
	wantReason(t, openRepo(t, Options{URL: w.Dir()}).Fetch(t.Context(), Hash{1}), RefMoved)
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed clone left a store: %v", err)
	}
}

func TestUnknownRevisionIsNotDamage(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	_, err := r.Snapshot(Hash{1})
	wantReason(t, err, RevisionNotFound)
	follow(t, r)
	_, err = r.Snapshot(Hash{1})
	wantReason(t, err, RevisionNotFound)
	if err := r.store.broken(); err != nil {
		t.Errorf("store counts as damaged: %v", err)
	}
}

func TestStoreThatCannotBeWrittenStalls(t *testing.T) {
	w := newWork(t, files("a", "1"))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: served(t, w, nil), Dir: filepath.Join(file, "stores")})
	h, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Fetch(t.Context(), h)
	if e := wantReason(t, err, StoreUnwritable); !e.Reason.Stalled() {
		t.Error("an unwritable store is not stalled")
	}
}

func TestHistoryAnswersWhatBlameNeeds(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "x"))
	c1, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	c2 := commit(t, w, "two", "d/b", "y")
	c3 := commit(t, w, "three", "a", "2")
	r := openRepo(t, Options{URL: w.Dir()})
	follow(t, r)

	if p, err := r.Parents(c3); err != nil || !slices.Equal(p, []Hash{c2}) {
		t.Errorf("parents are %v, %v", p, err)
	}
	b2, ok2, err2 := r.Blob(c2, "d/b")
	b3, ok3, err3 := r.Blob(c3, "d/b")
	b1, ok1, err1 := r.Blob(c1, "d/b")
	if !ok1 || !ok2 || !ok3 || errors.Join(err1, err2, err3) != nil || b2 != b3 || b1 == b2 {
		t.Errorf("blobs are %v %v %v, %v", b1, b2, b3, errors.Join(err1, err2, err3))
	}
	for _, path := range []string{"d", "none", "a/b", "d/none", "../a", ".", "/a", ""} {
		if _, ok, err := r.Blob(c3, path); ok || err != nil {
			t.Errorf("Blob(%q) = %v, %v", path, ok, err)
		}
	}
	if data, err := r.ReadFile(c1, "d/b"); err != nil || string(data) != "x" {
		t.Errorf("the file of the first commit holds %q, %v", data, err)
	}
	_, err = r.ReadFile(c1, "d")
	wantReason(t, err, PathNotFound)
	for _, tc := range []struct {
		a, b Hash
		want bool
	}{{c1, c3, true}, {c3, c3, true}, {c3, c1, false}} {
		if got, err := r.IsAncestor(tc.a, tc.b); err != nil || got != tc.want {
			t.Errorf("IsAncestor(%s, %s) = %v, %v", tc.a, tc.b, got, err)
		}
	}
	if _, err := r.IsAncestor(c1, Hash{9}); err == nil {
		t.Error("IsAncestor of an unknown commit succeeds")
	}
}

func TestStoreIsARepositoryThatGitAccepts(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, r)
	commit(t, w, "two", "a", "2")
	follow(t, r)
	gitCLI(t, r.dir, "fsck", "--strict", "--full")
	if got := gitCLI(t, r.dir, "log", "--format=%s", "main"); got != "two\nfirst" {
		t.Errorf("git log says %q", got)
	}
}

func TestAReferenceOfAPullRequestIsFollowedInTheSameStore(t *testing.T) {
	w := newWork(t, files("a", "1"))
	base := commit(t, w, "base", "a", "2")
	gitCLI(t, w.Dir(), "checkout", "-q", "-b", "side")
	gitCLI(t, w.Dir(), "commit", "-q", "--allow-empty", "-m", "pull")
	gitCLI(t, w.Dir(), "update-ref", "refs/pull/7/head", "HEAD")
	gitCLI(t, w.Dir(), "checkout", "-q", "main")
	gitCLI(t, w.Dir(), "commit", "-q", "--allow-empty", "-m", "main")
	for name, url := range map[string]string{"http": served(t, w, nil), "local": w.Dir()} {
		dir := filepath.Join(t.TempDir(), "stores")
		first := openRepo(t, Options{URL: url, Dir: dir})
		main, _ := follow(t, first)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		r := openRepo(t, Options{URL: url, Dir: dir, Ref: "refs/pull/7/head"})
		pull, damage := follow(t, r)
		if pull.Commit.Subject() != "pull" || damage != "" {
			t.Errorf("%s: at %q, %q", name, pull.Commit.Subject(), damage)
		}
		if name == "http" && packs(t, r) != 2 {
			t.Errorf("%d packs, want 2", packs(t, r))
		}
		if got, ok, err := r.MergeBase(main.Commit.Hash, pull.Commit.Hash); err != nil || !ok || got != base {
			t.Errorf("%s: the base is %s, %v, %v", name, got, ok, err)
		}
		if _, damage := follow(t, openRepo(t, Options{URL: url, Dir: dir, Ref: "refs/pull/7/head"})); damage != "" {
			t.Errorf("%s: %s", name, damage)
		}
	}
	for _, ref := range []string{"HEAD", "pull/7/head", "refs/", "refs/pull/../x"} {
		if _, err := Open(Options{URL: w.Dir(), Dir: t.TempDir(), Ref: ref}); err == nil {
			t.Errorf("%q is followed", ref)
		}
	}
}

// TestMergeBaseIsTheNewest has a short way to an old common commit and a long one to a newer.
func TestMergeBaseIsTheNewest(t *testing.T) {
	w := newWork(t, files("a", "1"))
	git := func(args ...string) { t.Helper(); gitCLI(t, w.Dir(), args...) }
	git("branch", "old")
	git("commit", "-q", "--allow-empty", "-m", "newer")
	newer, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	git("checkout", "-q", "-b", "side")
	for range 4 {
		git("commit", "-q", "--allow-empty", "-m", "side")
	}
	git("checkout", "-q", "old")
	git("commit", "-q", "--allow-empty", "-m", "old")
	git("merge", "-q", "-m", "merge", "side")
	side, err := ParseHash(gitCLI(t, w.Dir(), "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	git("checkout", "-q", "main")
	orphan := crafted(t, w, "")
	setBranch(t, w, newer)
	r := openRepo(t, Options{URL: w.Dir()})
	for _, tc := range []struct{ a, b, want Hash }{{newer, side, newer}, {side, newer, newer}, {side, side, side}, {orphan, side, Hash{}}} {
		if got, ok, err := r.MergeBase(tc.a, tc.b); err != nil || got != tc.want || ok == tc.want.IsZero() {
			t.Errorf("the base of %s and %s is %s, %v, %v, want %s", tc.a, tc.b, got, ok, err, tc.want)
		}
	}
}

func TestATransferOverItsLimitIsRefused(t *testing.T) {
	w := newWork(t, files("a", strings.Repeat("x", 10)))
	large := make([]byte, 10_000)
	for i := range large {
		large[i] = byte(i * i >> 3) // does not compress well
	}
	url := served(t, w, nil)
	r := openRepo(t, Options{URL: url, MaxPack: 1000})
	follow(t, r)
	h := commit(t, w, "large", "b", string(large))
	if e := wantReason(t, r.Fetch(t.Context(), h), TooLarge); !strings.Contains(e.Msg, "1000 bytes") {
		t.Errorf("message is %q", e.Msg)
	}
	if left, _ := filepath.Glob(filepath.Join(r.dir, "objects/pack/tmp_*")); len(left) > 0 || r.store.broken() != nil {
		t.Errorf("%q is left, damage %v", left, r.store.broken())
	}
	follow(t, openRepo(t, Options{URL: url, Dir: filepath.Dir(r.dir)}))
}
