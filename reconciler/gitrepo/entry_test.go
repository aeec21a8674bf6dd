package gitrepo

import "testing"

// treeLine is one entry of a tree object.
func treeLine(mode, name string, h Hash) string {
	return mode + " " + name + "\x00" + string(h[:])
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte(treeLine("100644", "a", Hash{1}) + treeLine("40000", "d", Hash{2})))
	f.Add([]byte("100644 cut\x00abc"))
	f.Add([]byte(" "))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := ParseTree(data)
		if err != nil {
			return
		}
		var size int
		for _, e := range entries {
			size += len(e.Name) + len(e.Hash) + 2
		}
		if size > len(data) {
			t.Errorf("%d entries out of %d bytes", len(entries), len(data))
		}
	})
}
