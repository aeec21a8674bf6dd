package page

import (
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Update is a flag of all tests of this package.
var Update = flag.Bool("update", false, "write the pages and pictures to testdata as they are")

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// badDay is a day on which a commit makes an entry fail.
func badDay() *Day {
	d := &Day{Now: noon.Add(152 * time.Minute)}
	for i := range 25 {
		h := Hour{At: noon.Add(time.Duration(i-22) * time.Hour), Expected: 66_000, Ran: 66_000}
		d.Hours = append(d.Hours, h)
	}
	d.Hours[22].Failed, d.Hours[23].Failed, d.Hours[24].Failed = 41, 231, 124
	d.Hours[12].Missed, d.Hours[12].Ran = 4, 65_996
	d.Hours[24].Expected, d.Hours[24].Ran, d.Hours[24].Unknown = 35_146, 35_072, 74
	for i := range 12 {
		d.Ahead = append(d.Ahead, Ahead{At: noon.Add(time.Duration(i+3) * time.Hour), Expected: 60_000 + uint64(i)*1000})
	}
	d.Commits = []DayCommit{
		{Name: "c07d1aa", Steps: []Step{{noon.Add(-20 * time.Hour), 1}}},
		{Name: "77aa0f2", State: Refused, Steps: []Step{{At: noon.Add(-90 * time.Minute)}}},
		{Name: "4e1f9c7", State: Suspect, Steps: []Step{{noon.Add(2 * time.Minute), .03}, {noon.Add(40 * time.Minute), .25}}},
	}
	return d
}

// good returns a lane of hourly runs.
func good(hours int, every int) *Lane {
	l := &Lane{Now: noon, Until: noon.Add(12 * time.Hour), Words: `"all" ran`}
	for i := range hours {
		h := Hour{At: noon.Add(time.Duration(i-hours+1) * time.Hour)}
		if i%every == 0 {
			h.Expected, h.Ran = 10, 10
		}
		l.Hours = append(l.Hours, h)
	}
	return l
}

func TestPicturesAreAsBefore(t *testing.T) {
	failing := good(24, 1)
	failing.Hours[20].Failed, failing.Hours[21].Failed = 3, 10
	failing.Changed = []time.Time{noon.Add(-4 * time.Hour)}
	rare := good(24, 12)
	rare.Hours[12].Ran, rare.Hours[12].Missed, rare.Next = 8, 2, []time.Time{noon.Add(6 * time.Hour)}
	days := &Day{Now: noon}
	for i := range 35 {
		days.Hours = append(days.Hours, Hour{At: noon.AddDate(0, 0, i-34).Truncate(24 * time.Hour), Expected: 5, Ran: 5})
	}
	for name, got := range map[string]string{
		"day":          badDay().SVG(),
		"days":         days.SVG(),
		"lane-failing": failing.SVG(),
		"lane-rare":    rare.SVG(),
		"meter":        Meter{{"f-fail", "failing", 38}, {"f-late", "missed", 0}, {"m-ok", "as Git says", 9962}}.SVG(),
	} {
		file := filepath.Join("testdata", name+".svg")
		if *Update {
			if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got+"\n" {
			t.Errorf("%s is not as in %s (%v); see it, then go test -update:\n%s", name, file, err, got)
		}
	}
}

// The policy of the console allows no styles in a picture, and a browser reads only what is well formed.
func TestPicturesHaveNoStyleAndAreWellFormed(t *testing.T) {
	d := badDay()
	d.Commits[0].Name = `<script>"&`
	for _, svg := range []string{d.SVG(), (&Lane{Words: `<b>"`}).SVG(), (&Day{}).SVG(), good(3, 1).SVG()} {
		for _, bad := range []string{"style=", "<style", "<script", " on"} {
			if strings.Contains(strings.ReplaceAll(svg, " on its", ""), bad) {
				t.Errorf("the picture has %q: %s", bad, svg)
			}
		}
		read := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := read.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
}

// One failure among many thousand runs is seen, and does not look like a disaster.
func TestOneFailureIsAThinBar(t *testing.T) {
	d := &Day{Now: noon, Hours: []Hour{{At: noon.Add(-time.Hour), Expected: 1e6, Ran: 1e6, Failed: 1}, {At: noon}}}
	if svg := d.SVG(); !strings.Contains(svg, `<path class="p-fail" d="M0.06 0v10h0.88v-10z"/>`) {
		t.Errorf("no bar of a tenth: %s", svg)
	}
	d.Hours[1].Failed = 1e6
	if svg := d.SVG(); !strings.Contains(svg, `M0.06 0v3.85h0.88v-3.85z`) {
		t.Errorf("no bar of 2 px: %s", svg)
	}
}

// TestTheLabelOfASuspectTouchesNoOther has commits shortly before the present time, whose label is on the right of it.
func TestTheLabelOfASuspectTouchesNoOther(t *testing.T) {
	now := time.Date(2026, 11, 24, 14, 30, 0, 0, time.UTC)
	d := Day{Now: now}
	for i := range 24 {
		d.Hours = append(d.Hours, Hour{At: now.Truncate(time.Hour).Add(time.Duration(i-23) * time.Hour), Expected: 1})
		d.Ahead = append(d.Ahead, Ahead{At: now.Truncate(time.Hour).Add(time.Duration(i+1) * time.Hour), Expected: 1})
	}
	for i, name := range []string{"older", "other", "suspect"} {
		k := DayCommit{Name: name, Steps: []Step{{At: now.Add(time.Duration(i-3) * time.Minute), Share: 1}}}
		if name == "suspect" {
			k.State = Suspect
		}
		d.Commits = append(d.Commits, k)
	}
	svg := d.SVG()
	if strings.Contains(svg, ">older<") {
		t.Error("a commit in the row of the suspect has a label")
	}
	if !strings.Contains(svg, `text-anchor="end" y="26">suspect<`) {
		t.Errorf("the label of the suspect is not on the left:\n%s", svg)
	}
}

// TestTheLegendNamesWhatIsShown: without a suspect no colour stands for one.
func TestTheLegendNamesWhatIsShown(t *testing.T) {
	for state, want := range map[CommitState]bool{Good: false, Refused: false, Suspect: true} {
		var out strings.Builder
		d := Day{Commits: []DayCommit{{Name: "one"}, {Name: "two", State: state}}}
		if err := dayTable(&d).Render(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "suspected"); got != want {
			t.Errorf("state %v: the legend names a suspect: %v", state, got)
		}
	}
}

// TestNoMarkIsAfterNow: the mark of the present hour is in its past part.
func TestNoMarkIsAfterNow(t *testing.T) {
	l := good(24, 12)
	l.Hours[23].Expected, l.Hours[23].Ran, l.Now = 1, 1, noon.Add(time.Minute)
	a := axis{l.Hours[0].At, l.Until}
	want := num(a.at(noon.Add(30 * time.Second)))
	if got := l.SVG(); !strings.Contains(got, `cx="`+want+`%"`) {
		t.Errorf("no mark at %s %%: %s", want, got)
	}
}

func TestTimesWithinTextsAreTimes(t *testing.T) {
	var got strings.Builder
	ctx := With(t.Context(), Env{Now: time.Date(2026, 10, 7, 12, 0, 0, 0, time.UTC), Zone: time.UTC})
	const text = "used at 2026-10-07T09:46:29Z, <b> not 2026-99-07T09:46:29Z, for 2h"
	if err := prose(text).Render(ctx, &got); err != nil {
		t.Fatal(err)
	}
	const want = `used at <time datetime="2026-10-07T09:46:29Z">09:46</time>, &lt;b&gt; not 2026-99-07T09:46:29Z, for 2h`
	if got.String() != want {
		t.Errorf("%s\nwant %s", got.String(), want)
	}
}
