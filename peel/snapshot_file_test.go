package peel

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const snapshotPeel target.PeelID = "web.01"

// documentOf returns a document with a text of so many bytes.
func documentOf(t testing.TB, generation uint64, size int) *settings.Document {
	t.Helper()
	raw, err := canon.Marshal(map[string]any{"text": strings.Repeat("x", size)})
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Document{V: settings.OpenVersion, Peel: snapshotPeel, Commit: "c0ffee", Generation: generation, Digest: settings.DigestOf(raw), Settings: raw}
}

// hasSnapshot checks the generation that a process would start with.
func hasSnapshot(t *testing.T, path string, want uint64) {
	t.Helper()
	doc, err := OpenSnapshot(path).Load(snapshotPeel)
	if err != nil || doc == nil || doc.Generation != want {
		t.Fatalf("%+v, %v, want generation %d", doc, err, want)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestDocumentsAreAddedToTheSnapshotUntilItIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	s := OpenSnapshot(path)
	defer s.Close()
	files := 0
	var last os.FileInfo
	for generation := range uint64(200) {
		if err := s.Store(documentOf(t, generation+1, 1000)); err != nil {
			t.Fatal(err)
		}
		hasSnapshot(t, path, generation+1)
		now := stat(t, path)
		if last == nil || !os.SameFile(last, now) {
			files++
		}
		last = now
		if now.Size() > maxSize+2000 {
			t.Fatalf("the file has %d bytes", now.Size())
		}
	}
	if files < 2 || files > 6 {
		t.Errorf("%d files for 200 documents", files)
	}
	next := OpenSnapshot(path) // a process that comes after a crash
	defer next.Close()
	if err := next.Store(documentOf(t, 201, 10)); err != nil {
		t.Fatal(err)
	}
	hasSnapshot(t, path, 201)
	if os.SameFile(last, stat(t, path)) {
		t.Error("another process writes behind what a crash has left")
	}
}

func TestACrashDuringAWriteLeavesTheDocumentBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	s := OpenSnapshot(path)
	defer s.Close()
	if err := s.Store(documentOf(t, 1, 50)); err != nil {
		t.Fatal(err)
	}
	first := stat(t, path).Size()
	if err := s.Store(documentOf(t, 2, 60)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := first; cut < int64(len(whole)); cut++ {
		torn := bytes.Clone(whole)
		clear(torn[cut:]) // what a host that lost its power may leave of the end of a file
		for _, left := range [][]byte{whole[:cut], torn} {
			if err := os.WriteFile(path, left, 0o600); err != nil {
				t.Fatal(err)
			}
			hasSnapshot(t, path, 1)
		}
	}
}

func TestASnapshotOfAnEarlierVersionIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	data, err := documentOf(t, 7, 10).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	hasSnapshot(t, path, 7)
	if err := os.WriteFile(path, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	if doc, err := OpenSnapshot(path).Load(snapshotPeel); err == nil {
		t.Errorf("a file without a document gives %+v", doc)
	}
}

func TestAWriteThatFailedIsFollowedByAFileOfItsOwn(t *testing.T) {
	for _, device := range []string{"/dev/full", "/dev/null"} { // one takes no write, the other takes every write and no flush
		path := filepath.Join(t.TempDir(), "settings")
		s := OpenSnapshot(path)
		if err := s.Store(documentOf(t, 1, 10)); err != nil {
			t.Fatal(err)
		}
		before := stat(t, path)
		broken, err := os.OpenFile(device, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.file.Close()
		s.file = broken
		if err := s.Store(documentOf(t, 2, 10)); err == nil || !strings.Contains(err.Error(), "cannot store the snapshot") {
			t.Errorf("%s: %v", device, err)
		}
		hasSnapshot(t, path, 1)
		if err := s.Store(documentOf(t, 2, 10)); err != nil {
			t.Fatal(err)
		}
		hasSnapshot(t, path, 2)
		if os.SameFile(before, stat(t, path)) {
			t.Errorf("%s: it goes on in a file that failed", device)
		}
		s.Close()
	}
}

func FuzzSnapshotRecords(f *testing.F) {
	f.Add([]byte(nil), []byte("a"))
	f.Add(appendRecord(nil, []byte("b")), []byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1}, []byte("c"))
	f.Fuzz(func(t *testing.T, data, document []byte) {
		last := lastRecord(data)
		if len(last) > len(data) {
			t.Errorf("%d bytes of %d", len(last), len(data))
		}
		if len(data) == 0 || len(document) == 0 {
			return // no document is empty
		}
		sound := appendRecord(appendRecord(nil, data), document)
		if got := lastRecord(sound); !bytes.Equal(got, document) {
			t.Errorf("%q, want %q", got, document)
		}
		if got := lastRecord(sound[:len(sound)-1]); !bytes.Equal(got, data) {
			t.Errorf("cut: %q, want %q", got, data)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	s := OpenSnapshot(filepath.Join(b.TempDir(), "settings"))
	defer s.Close()
	doc := documentOf(b, 1, 700)
	for b.Loop() {
		if err := s.Store(doc); err != nil {
			b.Fatal(err)
		}
	}
}
