package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

var alice = Author{Name: "Alice", Email: "alice@example.com", When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

// files builds a file system from pairs of path and content.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return m
}

func newWork(t testing.TB, f fs.FS) *Work {
	t.Helper()
	w, err := Init(filepath.Join(t.TempDir(), "work"), f, "first", alice)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func commit(t testing.TB, w *Work, message string, pairs ...string) Hash {
	t.Helper()
	changes := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		changes[pairs[i]] = []byte(pairs[i+1])
	}
	h, err := w.Commit(message, changes, alice)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func openRepo(t testing.TB, o Options) *Repo {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "stores")
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// reopened is the Repo that a new process would open on the same store.
func reopened(t testing.TB, r *Repo) *Repo {
	t.Helper()
	return openRepo(t, Options{
		URL: r.address.raw, Branch: r.branch.Short(), Path: r.root, Dir: filepath.Dir(r.dir),
	})
}

// follow resolves, fetches and opens the branch.
func follow(t testing.TB, r *Repo) (*Snapshot, Result) {
	t.Helper()
	h, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Fetch(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Snapshot(h)
	if err != nil {
		t.Fatal(err)
	}
	return s, res
}

// contents reads every regular file of a tree.
func contents(tree *Tree) (map[string]string, error) {
	found := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := tree.ReadFile(path)
		found[path] = string(data)
		return err
	})
	return found, err
}

func wantFiles(t testing.TB, tree *Tree, pairs ...string) {
	t.Helper()
	got, err := contents(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("files are %v, want %v", got, want)
	}
}

func wantReason(t testing.TB, err error, want Reason) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Reason != want {
		t.Fatalf("error is %v (%T), want reason %s", err, err, want)
	}
	if len(e.Msg) > maxMessage || strings.ContainsAny(e.Msg, "\n\x00") {
		t.Errorf("message %q is not fit for a status", e.Msg)
	}
	return e
}

// gitCLI runs the git binary, with which tests make what go-git cannot.
func gitCLI(t testing.TB, dir string, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs the git binary")
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Alice", "GIT_AUTHOR_EMAIL=alice@example.com",
		"GIT_COMMITTER_NAME=Alice", "GIT_COMMITTER_EMAIL=alice@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// crafted writes a commit whose tree Git would not write and puts it on main.
func crafted(t testing.TB, w *Work, tree string) Hash {
	t.Helper()
	put := func(kind plumbing.ObjectType, content string) plumbing.Hash {
		o := w.repo.Storer.NewEncodedObject()
		o.SetType(kind)
		wr, err := o.Writer()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wr.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		h, err := w.repo.Storer.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	who := "Mallory <m@example.com> 1700000000 +0000\n"
	h := put(plumbing.CommitObject, "tree "+put(plumbing.TreeObject, tree).String()+
		"\nauthor "+who+"committer "+who+"\ncrafted\n")
	setBranch(t, w, Hash(h))
	return Hash(h)
}

func setBranch(t testing.TB, w *Work, h Hash) {
	t.Helper()
	ref := plumbing.NewHashReference(plumbing.Main, plumbing.Hash(h))
	if err := w.repo.Storer.SetReference(ref); err != nil {
		t.Fatal(err)
	}
}

// line is one entry of a crafted tree.
func line(mode, name string, h Hash) string {
	return mode + " " + name + "\x00" + string(h[:])
}

func blobOf(t testing.TB, s *Snapshot, path string) Hash {
	t.Helper()
	info, err := s.Tree.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(Hash)
}

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
			s, res := follow(t, openRepo(t, Options{URL: url}))
			if res != (Result{}) {
				t.Errorf("first fetch reports %+v", res)
			}
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
	r := openRepo(t, Options{URL: w.Dir()})
	first, _ := follow(t, r)
	h := commit(t, w, "second", "a", "3")
	second, res := follow(t, r)
	if second.Commit.Hash != h || res != (Result{}) {
		t.Fatalf("got %s and %+v, want %s", second.Commit.Hash, res, h)
	}
	wantFiles(t, second.Tree, "a", "3", "d/b", "2")
	wantFiles(t, first.Tree, "a", "1", "d/b", "2")
	if got := Changed(first.Tree, second.Tree); !slices.Equal(got, []string{"a"}) {
		t.Errorf("changed %q", got)
	}
	if n := r.store.packs(); n != 2 {
		t.Errorf("store has %d packs, want 2", n)
	}
	if _, err := r.Fetch(t.Context(), h); err != nil || r.store.packs() != 2 {
		t.Errorf("fetching again: %v, %d packs", err, r.store.packs())
	}
}

func TestForcePushKeepsTheOldRevisionReadable(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, w, "second", "a", "2")
	r := openRepo(t, Options{URL: w.Dir()})
	old, _ := follow(t, r)

	setBranch(t, w, first)
	back, res := follow(t, r)
	if !res.Rewritten || back.Commit.Hash != first {
		t.Errorf("rewind gives %+v at %s", res, back.Commit.Hash)
	}

	blob := blobOf(t, back, "a")
	orphan := crafted(t, w, line("100644", "a", blob))
	s, res := follow(t, r)
	if !res.Rewritten || s.Commit.Hash != orphan || s.Tree.Hash() != back.Tree.Hash() {
		t.Errorf("orphan with the same tree gives %+v", res)
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

func TestKeepsTheNewestTipsThatWereLeftBehind(t *testing.T) {
	w := newWork(t, files("a", "0"))
	root, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: w.Dir()})
	for i := range maxKept + 3 {
		commit(t, w, "x", "a", fmt.Sprint(i+1))
		follow(t, r)
		setBranch(t, w, root)
		follow(t, r)
	}
	refs, err := r.store.refs(keptRefs)
	if err != nil || len(refs) != maxKept {
		t.Errorf("%d tips are kept (%v), want %d", len(refs), err, maxKept)
	}
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
	s, res := follow(t, r)
	if !res.Rewritten {
		t.Errorf("result is %+v", res)
	}
	wantFiles(t, s.Tree, "b", "1")
}

func TestSwitchingTheBranchUsesTheSameStore(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	follow(t, r)
	h := commit(t, w, "two", "a", "2")
	if err := w.repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/env/prod", plumbing.Hash(h))); err != nil {
		t.Fatal(err)
	}
	other := openRepo(t, Options{URL: w.Dir(), Branch: "env/prod", Dir: filepath.Dir(r.dir)})
	s, res := follow(t, other)
	if s.Commit.Hash != h || res != (Result{}) || other.dir != r.dir {
		t.Errorf("got %s, %+v in %s", s.Commit.Hash, res, other.dir)
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
	gitCLI(t, w.Dir(), "gc", "-q", "--prune=now")
	s, res := follow(t, r)
	if res != (Result{}) {
		t.Errorf("result is %+v", res)
	}
	wantFiles(t, s.Tree, "a", "3")
	wantFiles(t, old.Tree, "a", "2")
}

func TestCommitThatIsGoneAsksToResolveAgain(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	_, err := r.Fetch(t.Context(), Hash{1})
	wantReason(t, err, RefMoved)
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed clone left a store: %v", err)
	}
}

func TestUnknownRevisionIsNotDamage(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
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
	r := openRepo(t, Options{URL: w.Dir(), Dir: filepath.Join(file, "stores")})
	h, err := r.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Fetch(t.Context(), h)
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
