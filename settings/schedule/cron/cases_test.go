package cron

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// caseFile is testdata/cron.json: cases of other schedulers, each with its source, and runs recorded
// from the cronie daemon. Its meta tells the fields.
type caseFile struct {
	Cases []cronCase
}

type cronCase struct {
	ID, Kind, Use, Zone string
	Expr, Expr2, Expr5  string
	From, Until, At     string
	Inclusive           bool
	Expect, Cronie      json.RawMessage
}

func loadCases(t testing.TB) []cronCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cron.json")
	if err != nil {
		t.Fatal(err)
	}
	var f caseFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Cases
}

func (c cronCase) text() string {
	if c.Expr5 != "" {
		return c.Expr5
	}
	return c.Expr
}

// want decodes what is expected: where other schedulers differ from cronie, cronie's answer.
func (c cronCase) want(t *testing.T, into any) {
	t.Helper()
	raw := c.Expect
	if c.Use == "differs" {
		raw = c.Cronie
	}
	if len(raw) == 0 {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// clocked is an expression in a zone.
type clocked struct {
	Expr
	zone    *time.Location
	changes Changes
}

func (c clocked) next(after time.Time) (time.Time, bool) {
	return c.Next(after, c.zone, c.changes)
}

// in reads an expression; false is one that never fires.
func in(t testing.TB, text, zone string) (clocked, bool) {
	t.Helper()
	e, _, err := Parse(text)
	if err != nil {
		if !strings.Contains(err.Error(), "never fires") {
			t.Fatal(err)
		}
		return clocked{}, false
	}
	loc, err := zoneinfo.Load(zone)
	if err != nil {
		t.Fatal(err)
	}
	return clocked{Expr: e, zone: loc}, true
}

func TestCasesOfOtherSchedulers(t *testing.T) {
	seen := make(map[string]int)
	for _, c := range loadCases(t) {
		seen[c.Use]++
		t.Run(c.ID, func(t *testing.T) {
			switch c.Kind {
			case "next":
				c.next(t)
			case "nextseq":
				c.sequence(t)
			case "runs":
				c.runs(t)
			case "match":
				c.match(t)
			case "equal":
				c.equal(t)
			case "parse_ok", "parse_error":
				c.parse(t)
			default:
				t.Errorf("unknown kind %s", c.Kind)
			}
		})
	}
	if seen["accept"] < 500 || seen["differs"] < 18 {
		t.Errorf("only %v cases", seen)
	}
}

func (c cronCase) next(t *testing.T) {
	var want *time.Time
	c.want(t, &want)
	tm, ok := in(t, c.text(), c.Zone)
	if !ok {
		if want != nil {
			t.Errorf("%q never fires, want %v", c.text(), want)
		}
		return
	}
	from := instant(t, c.From)
	if c.Inclusive {
		from = from.Add(-1)
	}
	got, ok := tm.next(from)
	if ok != (want != nil) || ok && !got.Equal(*want) {
		t.Errorf("%q in %s after %s: got %v %v, want %v", c.text(), c.Zone, c.From, got, ok, want)
	}
}

func (c cronCase) sequence(t *testing.T) {
	var want []time.Time
	c.want(t, &want)
	tm, _ := in(t, c.text(), c.Zone)
	at := instant(t, c.From)
	for i, w := range want {
		at, _ = tm.next(at)
		if !at.Equal(w) {
			t.Fatalf("%q in %s after %s: fire %d is %v, want %v", c.text(), c.Zone, c.From, i, at, w)
		}
	}
}

func (c cronCase) runs(t *testing.T) {
	var want []time.Time
	c.want(t, &want)
	tm, _ := in(t, c.text(), c.Zone)
	got := fires(tm, instant(t, c.From), instant(t, c.Until))
	if !equalTimes(got, want) {
		t.Errorf("%q in %s in (%s, %s]:\n got %v\nwant %v", c.text(), c.Zone, c.From, c.Until, got, want)
	}
}

func fires(tm clocked, from, until time.Time) []time.Time {
	var out []time.Time
	for at, ok := tm.next(from); ok && !at.After(until); at, ok = tm.next(at) {
		out = append(out, at)
	}
	return out
}

func equalTimes(a, b []time.Time) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

func (c cronCase) match(t *testing.T) {
	var want bool
	c.want(t, &want)
	tm, _ := in(t, c.text(), c.Zone)
	at := instant(t, c.At)
	got, ok := tm.next(at.Add(-1))
	if (ok && got.Equal(at)) != want {
		t.Errorf("%q at %s: fires next at %v, want it there: %v", c.text(), c.At, got, want)
	}
}

func (c cronCase) equal(t *testing.T) {
	var want bool
	c.want(t, &want)
	a, _, err := Parse(c.Expr)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Parse(c.Expr2)
	if err != nil {
		t.Fatal(err)
	}
	// The cases ask whether the same times match; how an expression is written also decides what it does
	// when clocks change.
	a.spec.wild, a.spec.either, b.spec.wild, b.spec.either = false, false, false, false
	if (a.spec == b.spec) != want {
		t.Errorf("%q and %q: equal is %v", c.Expr, c.Expr2, !want)
	}
}

func (c cronCase) parse(t *testing.T) {
	// The one case without an answer of cronie is a macro that only its own scheduler has.
	want := c.Kind == "parse_ok" && c.Use == "accept"
	_, _, err := Parse(c.Expr)
	if (err == nil) != want {
		t.Errorf("%q: %v", c.Expr, err)
	}
}
