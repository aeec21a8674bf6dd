package content_test

import (
	"bytes"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/content"
)

func TestASealedContentOpensWithItsFileAlone(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("worker_processes 4;\n"), 40_000)
	f, sealed := content.Seal(plain, nil)
	f.Mode = "0644"
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("worker_processes")) {
		t.Fatal("the sealed content can be read")
	}
	got, err := content.Open(f, sealed)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("Open: %v", err)
	}
	again, same := content.Seal(plain, nil)
	if again.Blob != f.Blob || again.Key != f.Key || !bytes.Equal(same, sealed) {
		t.Error("the same content was sealed in another way")
	}
	salted, other := content.Seal(plain, []byte("a data key"))
	if salted.Key == f.Key || bytes.Equal(other, sealed) {
		t.Error("the salt changes nothing")
	}
	if n := len(f.Chunks()); n != (len(sealed)+content.MaxChunk-1)/content.MaxChunk {
		t.Errorf("%d chunks for %d bytes", n, len(sealed))
	}
}

func TestAChangedContentDoesNotOpen(t *testing.T) {
	t.Parallel()
	f, sealed := content.Seal([]byte("one"), nil)
	other, otherSealed := content.Seal([]byte("two"), nil)
	changed := bytes.Clone(sealed)
	changed[0] ^= 1
	with := func(change func(*content.File)) content.File {
		g := f
		change(&g)
		return g
	}
	for name, c := range map[string]struct {
		f      content.File
		sealed []byte
	}{
		"a changed byte":     {f, changed},
		"a shorter content":  {f, sealed[:len(sealed)-1]},
		"another content":    {f, otherSealed},
		"the key of another": {with(func(g *content.File) { g.Key = other.Key }), sealed},
		"another plain hash": {with(func(g *content.File) { g.SHA256 = other.SHA256 }), sealed},
		"another size":       {with(func(g *content.File) { g.Size++ }), sealed},
		"a key of two bytes": {with(func(g *content.File) { g.Key = "abcd" }), sealed},
		"no key":             {with(func(g *content.File) { g.Key = "" }), sealed},
	} {
		if _, err := content.Open(c.f, c.sealed); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func FuzzOpen(f *testing.F) {
	one, sealed := content.Seal([]byte("one"), nil)
	f.Add(one.SHA256, one.Size, one.Blob, one.Key, sealed)
	f.Add("", int64(0), "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, sha256 string, size int64, blob, key string, sealed []byte) {
		file := content.File{SHA256: sha256, Size: size, Mode: "0644", Blob: blob, Key: key}
		plain, err := content.Open(file, sealed)
		if err == nil && int64(len(plain)) != size {
			t.Errorf("opened %d bytes for a file of %d", len(plain), size)
		}
		if file.Check() == nil && len(file.Chunks()) > content.MaxFile/content.MaxChunk+1 {
			t.Errorf("%d chunks", len(file.Chunks()))
		}
	})
}
