package gitrepo

import (
	"slices"
	"testing"
	"time"
)

// Signatures are asked for since the newest accepted commit, along first parents.
func TestCommitsThatNobodyHasAccepted(t *testing.T) {
	w := newWork(t, files("a", "1"))
	first, err := w.Head()
	if err != nil {
		t.Fatal(err)
	}
	h := []Hash{Hash(first)}
	for _, text := range []string{"2", "3", "4"} {
		h = append(h, commit(t, w, text, "a", text))
	}
	other := newWork(t, files("b", "1"))
	elsewhere := commit(t, other, "x", "b", "2")
	r := openRepo(t, Options{URL: w.Dir()})
	follow(t, r)
	for name, c := range map[string]struct {
		of       Hash
		accepted []Hash
		want     []Hash
	}{
		"the parent is":               {h[3], []Hash{h[2]}, nil},
		"one before it is":            {h[3], []Hash{h[1]}, []Hash{h[2]}},
		"the first one is":            {h[3], []Hash{h[0]}, []Hash{h[2], h[1]}},
		"the newest of several":       {h[3], []Hash{h[0], h[1]}, []Hash{h[2]}},
		"itself":                      {h[3], []Hash{h[3]}, nil},
		"a newer one is":              {h[1], []Hash{h[3]}, nil},
		"one of another repository":   {h[3], []Hash{elsewhere}, []Hash{h[2], h[1], h[0]}},
		"the first one itself":        {h[0], []Hash{elsewhere}, nil},
		"one here and one in another": {h[3], []Hash{elsewhere, h[1]}, []Hash{h[2]}},
	} {
		got, err := r.unaccepted(c.of, c.accepted)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v, %v", name, got, c.want, err)
		}
	}
	if r.Signed() || !(&Repo{trust: Trust{SSH: "keys"}}).Signed() {
		t.Error("whether a head needs a signature")
	}
	if _, err := r.Verify(h[3], nil, time.Now()); err == nil {
		t.Error("a commit without a signature is signed")
	}
}

func TestTextsOfHashes(t *testing.T) {
	text := "0123456789abcdef0123456789abcdef01234567"
	if h, err := ParseHash(text); err != nil || h.String() != text {
		t.Errorf("%v, %v", h, err)
	}
	for _, wrong := range []string{"", text[1:], text + "0", "g" + text[1:]} {
		if h, err := ParseHash(wrong); err == nil {
			t.Errorf("%q is %v", wrong, h)
		}
	}
}
