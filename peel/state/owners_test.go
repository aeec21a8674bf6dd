//go:build linux

package state

import (
	"os"
	"testing"
)

// Of two states that say the same, the first changes the host. In a test it is the same.
func TestOfTwoEqualStatesTheFirstChangesTheHost(t *testing.T) {
	h := newHost(t)
	text := `
a: {file.directory: {path: DIR/d, mode: '0750'}}
b: {file.directory: {path: DIR/d, mode: '0750'}}
c: {file.managed: {path: DIR/d/f, content: x}}
d: {file.managed: {path: DIR/d/f, content: x}}
e: {file.absent: {path: DIR/d/gone}}
f: {file.absent: {path: DIR/d/gone}}
`
	rest := []string{"b: unchanged", "c: would_change intended", "d: unchanged", "e: unchanged", "f: unchanged"}
	h.wants(h.run(text, true), append([]string{"a: would_change intended"}, rest...)...)
	rest[1] = "c: changed intended"
	h.wants(h.run(text, false), append([]string{"a: changed intended"}, rest...)...)
	h.wants(h.run(text, false), "a: unchanged", "b: unchanged", "c: unchanged", "d: unchanged", "e: unchanged", "f: unchanged")
}

// TestACleanedDirectoryKeepsWhatAStateWritesThroughALink has a link beside the directory, and one to the directory.
func TestACleanedDirectoryKeepsWhatAStateWritesThroughALink(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/data", 0o755))
	must(t, os.Symlink("data", h.dir+"/www"))
	for _, paths := range [][2]string{{"data", "www"}, {"www", "data"}} {
		text := "a: {file.directory: {path: DIR/" + paths[0] + ", clean: true, follow: true}}\n" +
			"b: {file.managed: {path: DIR/" + paths[1] + "/f, content: x}}\n"
		must(t, os.WriteFile(h.dir+"/data/other", nil, 0o644))
		h.run(text, false)
		if _, err := os.Stat(h.dir + "/data/other"); err == nil {
			t.Errorf("%v: nothing is cleaned", paths)
		}
		h.wants(h.run(text, false), "a: unchanged", "b: unchanged")
	}
}
