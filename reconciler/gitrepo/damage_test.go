package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// oneFile finds the file of the store that a pattern names.
func oneFile(t testing.TB, r *Repo, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in the store: %v", pattern, err)
	}
	return names[0]
}

func overwrite(t testing.TB, name string, data []byte) {
	t.Helper()
	_ = os.Remove(name) // packs are read-only
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedStoreIsClonedAgain(t *testing.T) {
	const pack, idx = "objects/pack/*.pack", "objects/pack/*.idx"
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, r *Repo)
		want   bool
	}{
		{"missing index", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, idx)) }, true},
		{"missing pack", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, pack)) }, true},
		{"empty pack", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, pack), nil) }, true},
		{"cut pack", func(t *testing.T, r *Repo) {
			name := oneFile(t, r, pack)
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, name, data[:len(data)/2])
		}, true},
		{"empty index", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, idx), nil) }, true},
		{"empty reference", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "refs/heads/main"), nil) }, true},
		{"garbage reference", func(t *testing.T, r *Repo) {
			overwrite(t, oneFile(t, r, "refs/heads/main"), []byte("xyz"))
		}, true},
		{"no reference", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "refs/heads/main")) }, true},
		{"garbage config", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "config"), []byte("\x00[[[")) }, true},
		{"missing HEAD", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "HEAD")) }, true},
		{"empty HEAD", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "HEAD"), nil) }, true},
		{"no objects", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "objects")) }, true},
		{"shallow", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "shallow"), []byte(Hash{1}.String()+"\n"))
		}, true},
		{"stale lock", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "refs/heads/main.lock"), nil)
		}, false},
		{"cut transfer", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "objects/pack/tmp_pack_123"), []byte("x"))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWork(t, files("a", "1", "d/b", "2"))
			first := openRepo(t, Options{URL: served(t, w, nil)})
			follow(t, first)
			tc.damage(t, first)
			h := commit(t, w, "two", "a", "3")
			r := reopened(t, first)
			s, damage := follow(t, r)
			if s.Commit.Hash != h || (damage != "") != tc.want {
				t.Errorf("damage is %q, want %v", damage, tc.want)
			}
			wantFiles(t, s.Tree, "a", "3", "d/b", "2")
			if _, err := os.Stat(r.aside("damaged")); (err == nil) != tc.want {
				t.Errorf("damaged store beside it: %v", err)
			}
			left, _ := filepath.Glob(filepath.Join(r.dir, "objects/pack/tmp_*"))
			if len(left) > 0 {
				t.Errorf("%q is left", left)
			}
			if s, damage := follow(t, reopened(t, r)); damage != "" || s.Commit.Hash != h {
				t.Errorf("after that, opening gives %q", damage)
			}
		})
	}
}

// TestFlippedByteIsNeverReadAsAnotherTree damages the store one byte at a time,
// in the pack and in its index.
func TestFlippedByteIsNeverReadAsAnotherTree(t *testing.T) {
	w := newWork(t, files("a", "one", "d/b", "two", "d/c", strings.Repeat("three ", 20)))
	tip := commit(t, w, "two", "d/b", "2")
	r := openRepo(t, Options{URL: served(t, w, nil)})
	s, _ := follow(t, r)
	want, err := contents(s.Tree)
	if err != nil {
		t.Fatal(err)
	}
	var noticed, flips int
	for _, tc := range []struct {
		pattern string
		step    int // the 1,024 bytes of counts in an index are much the same
	}{{"objects/pack/*.pack", 2}, {"objects/pack/*.idx", 11}} {
		name := oneFile(t, r, tc.pattern)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(whole); i += tc.step {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 0x55
			overwrite(t, name, flipped)
			flips++
			if err := readAll(t, r, tip, want); err != nil {
				noticed++
			}
		}
		overwrite(t, name, whole)
	}
	if err := readAll(t, r, tip, want); err != nil {
		t.Fatal(err)
	}
	if noticed < flips/2 {
		t.Errorf("only %d of %d flips are noticed", noticed, flips)
	}
}

// readAll reads the tip as a new process would; a tree that is not the wanted
// one, and an error that is not typed, fail the test.
func readAll(t *testing.T, like *Repo, tip Hash, want map[string]string) error {
	t.Helper()
	r, err := Open(Options{URL: urlOf(like), Dir: filepath.Dir(like.dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := r.Snapshot(tip)
	if err == nil {
		var got map[string]string
		if got, err = contents(s.Tree); err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("read %v, want %v", got, want)
		}
	}
	if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Reason != StoreDamaged) {
		t.Errorf("error is %v", err)
	}
	return err
}

func TestDamageFoundWhileReadingIsMendedByTheNextFetch(t *testing.T) {
	w := newWork(t, files("a", strings.Repeat("x", 5000)+"y"))
	first := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, first)
	name := oneFile(t, first, "objects/pack/*.pack")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r *Repo
	var s *Snapshot
	for i := range data { // until the flip is in the file, not in a tree
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x55
		overwrite(t, name, flipped)
		r = reopened(t, first)
		h, err := w.Head()
		if err != nil {
			t.Fatal(err)
		}
		if s, err = r.Snapshot(h); err != nil {
			continue
		}
		if _, err = s.Tree.ReadFile("a"); err != nil {
			wantReason(t, err, StoreDamaged)
			break
		}
	}
	if _, damage := follow(t, r); damage == "" {
		t.Error("the damage is not mended")
	}
	wantFiles(t, s.Tree, "a", strings.Repeat("x", 5000)+"y")
}

func TestDamagedStoreStaysWhileTheRemoteIsAway(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first := openRepo(t, Options{URL: served(t, w, nil)})
	s, _ := follow(t, first)
	overwrite(t, oneFile(t, first, "HEAD"), nil)
	if err := os.Rename(w.Dir(), w.Dir()+".away"); err != nil {
		t.Fatal(err)
	}
	r := reopened(t, first)
	err := r.Fetch(t.Context(), s.Commit.Hash)
	wantReason(t, err, NotFound)
	_, err = r.Snapshot(s.Commit.Hash)
	wantReason(t, err, StoreDamaged)
	if err := os.Rename(w.Dir()+".away", w.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, damage := follow(t, r); damage == "" {
		t.Error("the damage is not mended")
	}
}

func TestDamagedRemoteIsNamedAsSuch(t *testing.T) {
	w := newWork(t, files("a", "1"))
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, r)
	blob, tree := blobOf(t, s, "a").String(), s.Tree.Hash().String()
	for _, content := range []string{"garbage", ""} {
		name := filepath.Join(w.Dir(), ".git", "objects", blob[:2], blob[2:])
		if overwrite(t, name, []byte(content)); content == "" {
			remove(t, name)
		}
		again, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
		_, err := again.Tree.ReadFile("a")
		wantReason(t, err, RemoteDamaged)
	}
	remove(t, filepath.Join(w.Dir(), ".git", "objects", tree[:2], tree[2:]))
	err := openRepo(t, Options{URL: w.Dir()}).Fetch(t.Context(), s.Commit.Hash)
	wantReason(t, err, RemoteDamaged)
	if damage := r.store.broken(); damage != nil {
		t.Errorf("what is in memory counts as damaged: %v", damage)
	}
	overwrite(t, filepath.Join(w.Dir(), ".git", "refs", "heads", "main"), nil)
	_, err = r.Resolve(t.Context())
	wantReason(t, err, RemoteDamaged)
}

// packs counts the packs of the store.
func packs(t testing.TB, r *Repo) int {
	t.Helper()
	names, err := ListPack(r.store.packDir())
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// addPacks adds n packs to the store, each with one small file.
func addPacks(t testing.TB, r *Repo, n int) {
	t.Helper()
	for i := range n {
		data := bytes.NewBuffer([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
		content := fmt.Sprintf("%06d", i)
		data.WriteByte(3<<4 | byte(len(content))) // a blob
		z := zlib.NewWriter(data)
		_, _ = z.Write([]byte(content))
		_ = z.Close()
		sum := sha1.Sum(data.Bytes())
		data.Write(sum[:])
		if err := r.store.addPack(t.Context(), data, maxPack); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyPacksAreJoinedWithoutADownload(t *testing.T) {
	w := newWork(t, files("a", "0"))
	root, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	r := openRepo(t, Options{URL: metered(t, served(t, w, nil), &sent)})
	left := commit(t, w, "left behind", "a", "left")
	first, _ := follow(t, r)
	setBranch(t, w, root)
	follow(t, r)
	addPacks(t, r, maxPacks-4)
	most, tip := int64(0), root
	for i := range 8 {
		tip = commit(t, w, "more", "a", fmt.Sprint(i))
		sent.Store(0)
		if _, damage := follow(t, r); damage != "" || packs(t, r) > maxPacks {
			t.Errorf("the store was replaced for %q, it has %d packs", damage, packs(t, r))
		}
		if most = max(most, sent.Load()); most > 4096 {
			t.Fatalf("fetch %d takes %d bytes", i, most)
		}
	}
	if n := packs(t, r); n == 1 || n > 8 {
		t.Errorf("%d packs are left", n)
	}
	wantFiles(t, first.Tree, "a", "left")
	again := reopened(t, r)
	for _, h := range []Hash{left, root, tip} {
		if _, err := again.Snapshot(h); err != nil {
			t.Errorf("revision %s: %v", h, err)
		}
	}
	if forward, err := again.IsAncestor(root, tip); err != nil || !forward {
		t.Errorf("the history is not whole: %v, %v", forward, err)
	}
	gitCLI(t, r.dir, "fsck", "--strict", "--full")
}

// TestJoiningIsBoundedAndSafeAgainstDamage has packs that together are over the limit, and a damaged one.
func TestJoiningIsBoundedAndSafeAgainstDamage(t *testing.T) {
	w := newWork(t, files("a", "0"))
	r := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, r)
	addPacks(t, r, maxPacks-2)
	large := make([]byte, maxJoined) // does not compress
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	commit(t, w, "large", "large", string(large))
	if follow(t, r); packs(t, r) != 2 {
		t.Errorf("%d packs, want the large one and another", packs(t, r))
	}
	addPacks(t, r, maxPacks-3)
	names, err := ListPack(r.store.packDir())
	if err != nil || len(names) != maxPacks-1 {
		t.Fatal(len(names), err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x55
	overwrite(t, names[0], data)
	h := commit(t, w, "last", "a", "last")
	s, damage := follow(t, r)
	if damage == "" || s.Commit.Hash != h || packs(t, r) != 1 {
		t.Errorf("a damaged pack is joined: %q, %d packs", damage, packs(t, r))
	}
}

func TestCrashBetweenTheRenamesOfANewClone(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first := openRepo(t, Options{URL: served(t, w, nil)})
	s, _ := follow(t, first)
	if err := os.Rename(first.dir, first.aside("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(first.aside("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := reopened(t, first).Snapshot(s.Commit.Hash)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, again.Tree, "a", "1")
	if _, err := os.Stat(first.aside("new")); err == nil {
		t.Error("the unfinished clone is left")
	}
}

// TestPackThatArrivesDamagedIsRefused flips and cuts a pack on its way in. The
// indexer runs in a goroutine of go-git, where a panic could not be caught.
func TestPackThatArrivesDamagedIsRefused(t *testing.T) {
	w := newWork(t, files("a", "one", "d/b", "two", "d/c", "three"))
	first := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, first)
	whole, err := os.ReadFile(oneFile(t, first, "objects/pack/*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: served(t, w, nil)})
	follow(t, r)
	st := r.store
	names, err := ListPack(r.store.packDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		remove(t, name)
		remove(t, strings.TrimSuffix(name, ".pack")+".idx")
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x55
		if err := st.addPack(t.Context(), bytes.NewReader(flipped), maxPack); err == nil {
			t.Errorf("byte %d of %d flipped: accepted", i, len(whole))
		}
		if err := st.addPack(t.Context(), bytes.NewReader(whole[:i]), maxPack); err == nil {
			t.Errorf("cut after %d of %d bytes: accepted", i, len(whole))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(st.dir, "objects/pack/*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if err := st.addPack(t.Context(), bytes.NewReader(whole), maxPack); err != nil {
		t.Error(err)
	}
}
