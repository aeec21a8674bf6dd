package audit_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/audit"
)

func line(t testing.TB, seq uint64, prev audit.Head) audit.Line {
	t.Helper()
	e := audit.Entry{EntryPlace: audit.EntryPlace{Seq: seq, Prev: prev.Digest}, Action: "job.dispatch", Target: "<web> & \u2028"}
	text, err := e.Text()
	if err != nil || strings.ContainsAny(text, "\n\u2028") {
		t.Fatal(text, err)
	}
	return audit.Line{Seq: seq, Text: text}
}

func TestAChainIsCheckedLineByLine(t *testing.T) {
	first := line(t, 1, audit.Head{})
	second := line(t, 2, audit.HeadOf(first))
	changed := second
	changed.Text = strings.Replace(changed.Text, "web", "db", 1)
	third := line(t, 3, audit.HeadOf(second))
	for _, c := range []struct {
		what string
		head audit.Head
		line audit.Line
		want string
	}{
		{"the first", audit.Head{}, first, ""},
		{"the next", audit.HeadOf(first), second, ""},
		{"after one that is gone", audit.Head{Seq: 2}, third, ""},
		{"a first one with another before it", audit.Head{}, audit.Line{Seq: 1, Text: line(t, 1, audit.HeadOf(first)).Text}, "does not follow"},
		{"one is missing", audit.HeadOf(first), third, "the entries 2 to 2 are missing"},
		{"the one before it was changed", audit.HeadOf(changed), third, "entry 3 does not follow entry 2"},
		{"in the place of another", audit.HeadOf(first), audit.Line{Seq: 2, Text: third.Text}, "entry 2 says that it is entry 3"},
		{"garbage", audit.HeadOf(first), audit.Line{Seq: 2, Text: "{"}, "cannot be decoded"},
	} {
		switch err := c.head.Check(c.line); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.what, err, c.want)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add("4711:" + strings.Repeat("0a", 32))
	f.Add("0:")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := audit.ParseHead(text)
		if err != nil {
			return
		}
		if again, err := audit.ParseHead(h.String()); err != nil || again != h {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	})
}
