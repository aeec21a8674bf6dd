package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

func TestDamagedStoreIsClonedAnew(t *testing.T) {
	const pack, idx = "objects/pack/*.pack", "objects/pack/*.idx"
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, r *Repo)
		want   Rebuild
	}{
		{"missing index", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, idx)) }, Damaged},
		{"missing pack", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, pack)) }, Damaged},
		{"empty pack", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, pack), nil) }, Damaged},
		{"cut pack", func(t *testing.T, r *Repo) {
			name := oneFile(t, r, pack)
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, name, data[:len(data)/2])
		}, Damaged},
		{"empty index", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, idx), nil) }, Damaged},
		{"empty reference", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "refs/heads/main"), nil) }, Damaged},
		{"garbage reference", func(t *testing.T, r *Repo) {
			overwrite(t, oneFile(t, r, "refs/heads/main"), []byte("xyz"))
		}, Damaged},
		{"no reference", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "refs/heads/main")) }, Damaged},
		{"garbage config", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "config"), []byte("\x00[[[")) }, Damaged},
		{"missing HEAD", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "HEAD")) }, Damaged},
		{"empty HEAD", func(t *testing.T, r *Repo) { overwrite(t, oneFile(t, r, "HEAD"), nil) }, Damaged},
		{"no objects", func(t *testing.T, r *Repo) { remove(t, oneFile(t, r, "objects")) }, Damaged},
		{"shallow", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "shallow"), []byte(Hash{1}.String()+"\n"))
		}, Shallow},
		{"stale lock", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "refs/heads/main.lock"), nil)
		}, none},
		{"cut transfer", func(t *testing.T, r *Repo) {
			overwrite(t, filepath.Join(r.dir, "objects/pack/tmp_pack_123"), []byte("x"))
		}, none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWork(t, files("a", "1", "d/b", "2"))
			first := openRepo(t, Options{URL: w.Dir()})
			follow(t, first)
			tc.damage(t, first)
			h := commit(t, w, "two", "a", "3")
			r := reopened(t, first)
			s, res := follow(t, r)
			if s.Commit.Hash != h || res.Rebuilt != tc.want || (tc.want != none) != (res.Detail != "") {
				t.Errorf("result is %+v, want %q", res, tc.want)
			}
			wantFiles(t, s.Tree, "a", "3", "d/b", "2")
			if _, err := os.Stat(r.aside("damaged")); (err == nil) != (tc.want == Damaged) {
				t.Errorf("damaged store beside it: %v", err)
			}
			left, _ := filepath.Glob(filepath.Join(r.dir, "objects/pack/tmp_*"))
			if len(left) > 0 {
				t.Errorf("%q is left", left)
			}
			if s, res := follow(t, reopened(t, r)); res != (Result{}) || s.Commit.Hash != h {
				t.Errorf("after that, opening gives %+v", res)
			}
		})
	}
}

// TestFlippedByteIsNeverReadAsAnotherTree damages the store one byte at a time,
// in the pack and in its index.
func TestFlippedByteIsNeverReadAsAnotherTree(t *testing.T) {
	w := newWork(t, files("a", "one", "d/b", "two", "d/c", strings.Repeat("three ", 20)))
	tip := commit(t, w, "two", "d/b", "2")
	r := openRepo(t, Options{URL: w.Dir()})
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
	r, err := Open(Options{URL: like.address.raw, Dir: filepath.Dir(like.dir)})
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
	first := openRepo(t, Options{URL: w.Dir()})
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
	_, res := follow(t, r)
	if res.Rebuilt != Damaged || res.Detail == "" {
		t.Errorf("result is %+v", res)
	}
	wantFiles(t, s.Tree, "a", strings.Repeat("x", 5000)+"y")
}

func TestDamagedStoreStaysWhileTheRemoteIsAway(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, first)
	overwrite(t, oneFile(t, first, "HEAD"), nil)
	if err := os.Rename(w.Dir(), w.Dir()+".away"); err != nil {
		t.Fatal(err)
	}
	r := reopened(t, first)
	_, err := r.Fetch(t.Context(), s.Commit.Hash)
	wantReason(t, err, NotFound)
	_, err = r.Snapshot(s.Commit.Hash)
	wantReason(t, err, StoreDamaged)
	if err := os.Rename(w.Dir()+".away", w.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, res := follow(t, r); res.Rebuilt != Damaged {
		t.Errorf("result is %+v", res)
	}
}

func TestDamagedRemoteIsNamedAsSuch(t *testing.T) {
	w := newWork(t, files("a", "1"))
	h, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: w.Dir()})
	s, _ := follow(t, openRepo(t, Options{URL: w.Dir()}))
	blob := blobOf(t, s, "a").String()
	overwrite(t, filepath.Join(w.Dir(), ".git", "objects", blob[:2], blob[2:]), []byte("garbage"))
	_, err = r.Fetch(t.Context(), h)
	wantReason(t, err, RemoteDamaged)
	remove(t, filepath.Join(w.Dir(), ".git", "objects", blob[:2], blob[2:]))
	_, err = r.Fetch(t.Context(), h)
	wantReason(t, err, RemoteDamaged)
	overwrite(t, filepath.Join(w.Dir(), ".git", "refs", "heads", "main"), nil)
	_, err = r.Resolve(t.Context())
	wantReason(t, err, RemoteDamaged)
}

func TestManyPacksAreReplacedByANewClone(t *testing.T) {
	w := newWork(t, files("a", "0"))
	root, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: w.Dir()})
	left := commit(t, w, "left behind", "a", "left")
	first, _ := follow(t, r)
	setBranch(t, w, root)
	follow(t, r)
	var rebuilt int
	for i := range maxPacks + 3 {
		commit(t, w, "more", "a", fmt.Sprint(i))
		if _, res := follow(t, r); res.Rebuilt != none {
			rebuilt++
			if res.Rebuilt != Compacted || r.store.packs() > 3 {
				t.Errorf("result is %+v, %d packs are left", res, r.store.packs())
			}
		}
	}
	if rebuilt != 1 {
		t.Errorf("store was replaced %d times, want once", rebuilt)
	}
	wantFiles(t, first.Tree, "a", "left")
	if _, err := r.Snapshot(left); err != nil {
		t.Errorf("revision that was left behind: %v", err)
	}
}

func TestCrashBetweenTheRenamesOfANewClone(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first := openRepo(t, Options{URL: w.Dir()})
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
	first := openRepo(t, Options{URL: w.Dir()})
	follow(t, first)
	whole, err := os.ReadFile(oneFile(t, first, "objects/pack/*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	r := openRepo(t, Options{URL: w.Dir()})
	st, err := r.emptyStore()
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x55
		if err := st.addPack(t.Context(), bytes.NewReader(flipped)); err == nil {
			t.Errorf("byte %d of %d flipped: accepted", i, len(whole))
		}
		if err := st.addPack(t.Context(), bytes.NewReader(whole[:i])); err == nil {
			t.Errorf("cut after %d of %d bytes: accepted", i, len(whole))
		}
	}
	if left, _ := filepath.Glob(filepath.Join(st.dir, "objects/pack/*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if err := st.addPack(t.Context(), bytes.NewReader(whole)); err != nil {
		t.Error(err)
	}
}

func TestPackThatClaimsMoreObjectsThanItHoldsIsRefused(t *testing.T) {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 1<<31)
	pack = append(pack, make([]byte, 100)...)
	sum := sha1.Sum(pack)
	pack = append(pack, sum[:]...)
	if err := checkPack(bytes.NewReader(pack), int64(len(pack))); err == nil || !strings.Contains(err.Error(), "2147483648") {
		t.Errorf("error is %v", err)
	}
}

func FuzzCheckPack(f *testing.F) {
	empty := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := sha1.Sum(empty)
	f.Add(append(empty, sum[:]...))
	f.Add([]byte("PACK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := checkPack(bytes.NewReader(data), int64(len(data)))
		if err == nil && (len(data) < packHeader+sha1.Size || !bytes.HasPrefix(data, []byte("PACK"))) {
			t.Errorf("%q is accepted", data)
		}
	})
}
