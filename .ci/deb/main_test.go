package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
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
	size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
	if err != nil || size > len(rest)-headSize {
		t.Fatalf("the size is %q", rest[48:58])
	}
	body := rest[headSize : headSize+size]
	if err := check(body, []byte(contents)); err != nil {
		t.Error(err)
	}
	if check(body, []byte(contents[1:])) == nil || check(body[:size-1], []byte(contents)) == nil {
		t.Error("other contents, or a part of them, are taken for the contents")
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
