package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// member returns a member of an archive of ar.
func member(name, body string) string {
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", name, 1, 0, 0, "100644", len(body), body) +
		strings.Repeat("\n", len(body)%2)
}

func TestContentsAreCompressedAndTheRestStays(t *testing.T) {
	contents := strings.Repeat("a file of the package\n", 10_000)
	control := member("debian-binary", "2.0\n") + member("control.tar.gz/", "odd")
	got, err := pack([]byte(magic + control + member("data.tar", contents)))
	if err != nil {
		t.Fatal(err)
	}

	rest, found := bytes.CutPrefix(got, []byte(magic+member("debian-binary", "2.0\n")+member("control.tar.gz", "odd")))
	if !found || !bytes.HasPrefix(rest, []byte("data.tar.xz ")) || len(rest)%2 != 0 || len(rest) > len(contents)/100 {
		t.Fatalf("the package is %q", got[:min(len(got), 300)])
	}
	r, err := xz.NewReader(bytes.NewReader(rest[headSize:]))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(io.LimitReader(r, int64(len(contents)))); err != nil || string(plain) != contents {
		t.Errorf("the contents have %d bytes, %v", len(plain), err)
	}
}

func TestWhatIsNoPackageIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "PK", magic, magic + member("debian-binary", "2.0\n"), magic + "data.tar",
		magic + member("data.tar", "text")[:62], magic + strings.Replace(member("data.tar", "text"), " 4 ", " -1", 1),
	} {
		if got, err := pack([]byte(text)); err == nil {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
