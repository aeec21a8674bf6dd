package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func TestUnsafeNamesRefuseTheRevision(t *testing.T) {
	w := newWork(t, files("ok", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	blob := blobOf(t, s, "ok")
	good := line("100644", "ok", blob)
	for _, name := range []string{
		"..", ".", "", ".git", ".GIT", "a/b", "/etc",
	} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			h := crafted(t, w, good+line("100644", name, blob))
			if err := r.Fetch(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			_, err := r.Snapshot(h)
			if e := wantReason(t, err, UnsafePath); !e.Reason.Stalled() {
				t.Error("an unsafe path is not stalled")
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		h := crafted(t, w, good+good)
		if err := r.Fetch(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		_, err := r.Snapshot(h)
		wantReason(t, err, UnsafePath)
	})
	wantFiles(t, s.Tree, "ok", "1")
}

func TestFileAndDirectoryOfOneNameRefuseTheRevision(t *testing.T) {
	w := newWork(t, files("d/x", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	h := crafted(t, w, line("100644", "d", blobOf(t, s, "d/x"))+line("40000", "d", blobOf(t, s, "d")))
	if err := r.Fetch(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	_, err := r.Snapshot(h)
	wantReason(t, err, UnsafePath)
}

func TestSymlinksSubmodulesAndBadModesAreListedAndNeverRead(t *testing.T) {
	w := newWork(t, files("ok", "/etc/passwd"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	blob := blobOf(t, s, "ok")
	crafted(t, w, line("120000", "link", blob)+line("777", "mode", blob)+
		line("100644", "ok", blob)+line("160000", "sub", Hash{7}))
	s, _ = follow(t, r)
	wantFiles(t, s.Tree, "ok", "/etc/passwd")
	entries, err := s.Tree.ReadDir(".")
	if err != nil || len(entries) != 4 {
		t.Fatalf("listing is %v, %v", entries, err)
	}
	for name, mode := range map[string]fs.FileMode{
		"link": fs.ModeSymlink, "mode": fs.ModeIrregular, "sub": fs.ModeIrregular,
	} {
		info, err := s.Tree.Stat(name)
		if err != nil || info.Mode().Type() != mode {
			t.Errorf("%s is %v, %v", name, info, err)
		}
		if _, err = s.Tree.Open(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("open %s: %v", name, err)
		}
		if _, err = s.Tree.ReadFile(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("read %s: %v", name, err)
		}
		if _, err := s.Tree.Open(name + "/x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("below %s: %v", name, err)
		}
	}
}

func TestNamesThatAreNotUTF8AreListedAndCannotBeOpened(t *testing.T) {
	w := newWork(t, files("ok", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	crafted(t, w, line("100644", "caf\xe9", blobOf(t, s, "ok")))
	s, _ = follow(t, r)
	entries, err := s.Tree.ReadDir(".")
	if err != nil || len(entries) != 1 || entries[0].Name() != "caf\xe9" {
		t.Fatalf("listing is %v, %v", entries, err)
	}
	if _, err := s.Tree.Open("caf\xe9"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("open: %v", err)
	}
}

func TestAFileOverTheLimitIsListedAndNotRead(t *testing.T) {
	limit := strings.Repeat("x", maxBlob)
	w := newWork(t, files("big", limit+"y", "fits", limit))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	if data, err := s.Tree.ReadFile("fits"); err != nil || len(data) != maxBlob {
		t.Errorf("a file of the limit: %d bytes, %v", len(data), err)
	}
	info, err := s.Tree.Stat("big")
	if err != nil || info.Size() != maxBlob+1 {
		t.Errorf("stat: %v, %v", info, err)
	}
	_, err = s.Tree.ReadFile("big")
	if e := wantReason(t, err, TooLarge); !strings.Contains(err.Error(), "big") || !strings.Contains(e.Msg, "16777217") {
		t.Errorf("error is %v", err)
	}
	f, err := s.Tree.Open("big")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(f)
	wantReason(t, err, TooLarge)
	if err := r.store.broken(); err != nil {
		t.Errorf("store counts as damaged: %v", err)
	}
}

func TestTreeBombIsRefusedWithoutBeingUnfolded(t *testing.T) {
	w := newWork(t, files("ok", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	level := line("100644", "f", blobOf(t, s, "ok"))
	var h Hash
	for range 12 {
		h = crafted(t, w, level)
		c, err := w.repo.CommitObject([20]byte(h))
		if err != nil {
			t.Fatal(err)
		}
		level = ""
		for i := range 10 {
			level += line("40000", fmt.Sprintf("d%d", i), Hash(c.TreeHash))
		}
	}
	if err := r.Fetch(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	_, err := r.Snapshot(h)
	wantReason(t, err, TooLarge)
}

func TestTooDeepTreeIsRefused(t *testing.T) {
	deep := strings.Repeat("d/", MaxDepth+1) + "f"
	w := newWork(t, files(deep, "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	h, err := r.Resolve(t.Context())
	if err == nil {
		err = r.Fetch(t.Context(), h)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Snapshot(h)
	wantReason(t, err, TooLarge)
}

func TestPathMakesASubdirectoryTheRoot(t *testing.T) {
	w := newWork(t, files("README", "r", "fleet/prod/top.yaml", "t", "fleet/prod/d/x", "1"))
	r := openRepo(t, Options{URL: w.Dir(), Path: "fleet/prod"})
	first, _ := follow(t, r)
	wantFiles(t, first.Tree, "top.yaml", "t", "d/x", "1")
	if _, ok, err := r.Blob(first.Commit.Hash, "d/x"); !ok || err != nil {
		t.Errorf("Blob: %v, %v", ok, err)
	}

	commit(t, w, "outside", "README", "r2")
	second, _ := follow(t, r)
	if second.Commit.Hash == first.Commit.Hash || len(Changed(first.Tree, second.Tree)) != 0 ||
		first.Tree.Hash() != second.Tree.Hash() {
		t.Error("a change outside the path changes the tree")
	}

	h := crafted(t, w, line("100644", "fleet", blobOf(t, first, "top.yaml")))
	if err := r.Fetch(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	_, err := r.Snapshot(h)
	wantReason(t, err, PathNotFound)
}

func TestEmptyTreeIsARevision(t *testing.T) {
	w := newWork(t, files("a", "1"))
	crafted(t, w, "")
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	if s.Tree.Len() != 0 {
		t.Errorf("tree has %d entries", s.Tree.Len())
	}
	wantFiles(t, s.Tree)
}

// TestHistoryIsReadWhileTheOwnerFetches reads what is stored from other goroutines while commits are added, packs are
// joined, the store is replaced, and a local repository is packed again.
func TestHistoryIsReadWhileTheOwnerFetches(t *testing.T) {
	w := newWork(t, files("a", "1", "d/b", "2", "d/c", "3"))
	root, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"http": served(t, w, nil), "local": w.Dir()} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, Options{URL: url})
			s, _ := follow(t, r)
			if name == "http" {
				addPacks(t, r, maxPacks-4)
			}
			stop := make(chan struct{})
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := readHistory(r, s, root); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			var tip Hash
			for i := range 10 {
				gitCLI(t, w.Dir(), "commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
				if i%4 == 0 {
					gitCLI(t, w.Dir(), "gc", "-q", "--prune=now")
				}
				last, _ := follow(t, r)
				tip = last.Commit.Hash
			}
			if name == "http" {
				if err := r.clone(t.Context(), tip, false); err != nil {
					t.Error(err)
				}
			}
			close(stop)
			readers.Wait()
		})
	}
}

// readHistory reads a snapshot, and the commit root that it descends from.
func readHistory(r *Repo, s *Snapshot, root Hash) error {
	if got, err := contents(s.Tree); err != nil || len(got) != 3 {
		return fmt.Errorf("read %v, %w", got, err)
	}
	again, err := r.Snapshot(root)
	if err != nil || again.Tree.Len() != 4 {
		return fmt.Errorf("snapshot %v, %w", again, err)
	}
	forward, err := r.IsAncestor(root, s.Commit.Hash)
	if err != nil || !forward {
		return fmt.Errorf("ancestor %v, %w", forward, err)
	}
	if _, err := r.CommitInfo(root); err != nil {
		return err
	}
	data, err := r.ReadFile(root, "d/b")
	if err != nil || string(data) != "2" {
		return fmt.Errorf("read %q, %w", data, err)
	}
	return nil
}

func TestReadFileReturnsACopy(t *testing.T) {
	w := newWork(t, files("a", "1"))
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	data, err := s.Tree.ReadFile("a")
	if err != nil {
		t.Fatal(err)
	}
	data[0] = 'x'
	wantFiles(t, s.Tree, "a", "1")
}

func TestCommitTextIsMadePrintableAndBounded(t *testing.T) {
	long := strings.Repeat("n", 5000)
	text := "tree " + Hash{1}.String() + "\nauthor A\x1b[31m\xff" + long + " <e> 1700000000 +0530\n" +
		"committer C <c> 1700000001 +0000\n\nsub\x00ject\n\n" + strings.Repeat("m", 1<<17)
	c, err := parseCommit(Hash{2}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Author) > maxName || strings.Contains(c.Author, "\x1b") || !utf8.ValidString(c.Author) || len(c.Message) > maxCommitText ||
		strings.Contains(c.Message, "\x00") || !strings.HasPrefix(c.Message, "sub ject\n\nmmm") || c.Time.Unix() != 1700000000 {
		t.Errorf("author %q, %d bytes of message, time %v", c.Author, len(c.Message), c.Time)
	}
	if _, err := parseCommit(Hash{2}, []byte("nothing of the kind")); err == nil {
		t.Error("a commit without a tree is accepted")
	}
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte("tree " + Hash{1}.String() + "\nparent " + Hash{2}.String() +
		"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\ngpgsig -----BEGIN\n x\n\nmsg\n"))
	f.Add([]byte("tree x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCommit(Hash{1}, data)
		if err == nil && (c.tree.IsZero() || len(c.Author) > maxName || len(c.Message) > maxCommitText) {
			t.Errorf("commit is %+v", c)
		}
	})
}

func TestRootIsNotCountedAsOpenFile(t *testing.T) {
	w := newWork(t, files("a", "1"))
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	if _, err := s.Tree.ReadFile("."); err == nil {
		t.Error("reading the root directory succeeds")
	}
	if _, err := s.Tree.ReadDir("a"); err == nil {
		t.Error("listing a file succeeds")
	}
	f, err := s.Tree.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, f); err != nil || b.String() != "1" {
		t.Errorf("read %q, %v", b.String(), err)
	}
	if _, err := s.Tree.Stat("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of nothing: %v", err)
	}
}
