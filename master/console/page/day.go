package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A Day is the day of the fleet: what should have run, what did, what will, and which commits reached its peels. The
// zero Zone is UTC.
type Day struct {
	Hours   []Hour // from the oldest to the present one
	Now     time.Time
	Ahead   []Ahead // the hours after the present one
	Commits []DayCommit
	Zone    *time.Location
}

// suspects reports whether a commit is shown as the cause of what is wrong.
func (d *Day) suspects() bool {
	return slices.ContainsFunc(d.Commits, func(c DayCommit) bool { return c.State == Suspect })
}

// An Hour has the runs of one hour, or of another step of time.
type Hour struct {
	At                                     time.Time
	Expected, Ran, Failed, Missed, Unknown uint64
}

// An Ahead has the runs that an hour will have.
type Ahead struct {
	At       time.Time
	Expected uint64
}

// A DayCommit is a revision on its way to the fleet.
type DayCommit struct {
	Name  string // short
	State CommitState
	Steps []Step // in order of time
}

// A CommitState says how a commit is drawn.
type CommitState int

// The states of a [DayCommit].
const (
	Good    CommitState = iota
	Suspect             // a problem follows it
	Refused             // it reached no peel
)

// A Step says which share of its peels a commit had reached at a time, from 0 to 1.
type Step struct {
	At    time.Time
	Share float64
}

// lastLabel is from where on the time of a line stands on the left of it, in percent: on a phone it is 20 wide.
const lastLabel = 80

const labelWidth = 9 // of the name of a commit, percent of the width of a day

// Places of the parts of a day, in pixels from its top.
const (
	dayHeight   = 288
	ribbonTop   = 34
	ribbonTall  = 38
	barsTop     = 88
	barsTall    = 104
	troubleTop  = 216
	troubleTall = 52
	dayBottom   = troubleTop + troubleTall
	maxFlags    = 8
)

// leastTrouble is the lowest number of runs that the scale of trouble ends with, so that one failure fills no column.
const leastTrouble = 10

// leastBar is the height of the lowest bar of trouble, 2 px of troubleTall in hundredths.
const leastBar = 2.0 / troubleTall * 100

// SVG draws the day; it is empty without hours.
func (d *Day) SVG() string {
	if len(d.Hours) == 0 {
		return ""
	}
	var c canvas
	c.put(`<svg class="plot" height="%d" role="img" aria-labelledby="day-title day-desc" data-testid="strip">`,
		dayHeight)
	c.put(`<title id="day-title">Expected and actual runs</title>`)
	c.put(`<desc id="day-desc">%s</desc>`, text(d.Words()))
	d.suspect(&c)
	d.grid(&c)
	d.ribbon(&c)
	d.bars(&c)
	d.trouble(&c)
	d.flags(&c)
	d.now(&c)
	c.put(`</svg>`)
	return c.String()
}

// columns is the number of steps of the axis.
func (d *Day) columns() int { return len(d.Hours) + len(d.Ahead) }

// step is the width of a column in time.
func (d *Day) step() time.Duration {
	if len(d.Hours) > 1 {
		return d.Hours[1].At.Sub(d.Hours[0].At)
	}
	return time.Hour
}

func (d *Day) axis() axis {
	from := d.Hours[0].At
	return axis{from, from.Add(time.Duration(d.columns()) * d.step())}
}

// clock writes a time in the zone of the day.
func (d *Day) clock(at time.Time, layout string) string {
	return at.In(cmp.Or(d.Zone, time.UTC)).Format(layout)
}

// sum returns the sum of all hours, and the hour with the most trouble.
func (d *Day) sum() (sum, worst Hour) {
	for _, h := range d.Hours {
		sum.Expected, sum.Ran, sum.Failed = sum.Expected+h.Expected, sum.Ran+h.Ran, sum.Failed+h.Failed
		sum.Missed, sum.Unknown = sum.Missed+h.Missed, sum.Unknown+h.Unknown
		if h.Failed+h.Missed > worst.Failed+worst.Missed {
			worst = h
		}
	}
	return sum, worst
}

// Total says in one sentence how much ran; it is empty without hours.
func (d *Day) Total() string {
	if len(d.Hours) == 0 {
		return ""
	}
	sum, _ := d.sum()
	return fmt.Sprintf("%s expected since %s, and %s ran: %s failed, %s missed, %s unknown.",
		Counted(int(sum.Expected), "run was", "runs were"), d.clock(d.Hours[0].At, "Mon 15:04"), thousands(sum.Ran),
		thousands(sum.Failed), thousands(sum.Missed), thousands(sum.Unknown))
}

// Words says in one or more sentences what the day shows.
func (d *Day) Words() string {
	_, worst := d.sum()
	var b strings.Builder
	b.WriteString(d.Total())
	if n := worst.Failed + worst.Missed; n > 0 {
		fmt.Fprintf(&b, " The worst hour began at %s: %s failed, %s missed.",
			d.clock(worst.At, "15:04"), thousands(worst.Failed), thousands(worst.Missed))
	}
	for _, k := range d.Commits {
		if k.State == Suspect && len(k.Steps) > 0 {
			last := k.Steps[len(k.Steps)-1]
			fmt.Fprintf(&b, " Commit %s began to go out at %s.", k.Name, d.clock(k.Steps[0].At, "15:04"))
			if last.Share < 1 {
				fmt.Fprintf(&b, " It has reached %d %% of its peels.", int(last.Share*100+.5))
			}
		}
	}
	return b.String()
}

// grid draws a line and a time each six hours, or each seventh step where steps are days.
func (d *Day) grid(c *canvas) {
	a := d.axis()
	for i := range d.columns() {
		at := a.from.Add(time.Duration(i) * d.step())
		local := at.In(cmp.Or(d.Zone, time.UTC))
		word, opt := local.Format("15:04"), " opt" // on narrow screens what is opt is left out
		switch {
		case d.step() >= 24*time.Hour && i%7 == 0:
			word, opt = local.Format("2 Jan"), ""
		case d.step() >= 24*time.Hour || local.Hour()%6 != 0 || i == 0:
			continue
		case local.Hour() == 0:
			word, opt = local.Format("Mon")+`<tspan class="ax opt">`+local.Format(" 15:04")+"</tspan>", ""
		case local.Hour() == 12:
			opt = ""
		}
		x := num(a.at(at))
		c.put(`<line class="grid" x1="%s%%" x2="%[1]s%%" y1="%d" y2="%d"/>`, x, ribbonTop, dayBottom)
		side := `dx="5"`
		if a.at(at) > lastLabel {
			side = `dx="-5" text-anchor="end"`
		}
		c.put(`<text class="ax%s" x="%s%%" %s y="%d">%s</text>`, opt, x, side, barsTop+barsTall+16, word)
	}
	c.put(`<line class="grid" x1="0" x2="100%%" y1="%d" y2="%[1]d"/>`, barsTop+barsTall)
	c.put(`<line class="grid" x1="0" x2="100%%" y1="%d" y2="%[1]d"/>`, troubleTop)
}

// inner opens a part whose units are columns and hundredths of its height.
func (d *Day) inner(c *canvas, top, tall int) {
	c.put(`<svg x="0" y="%d" width="100%%" height="%d" viewBox="0 0 %d 100" preserveAspectRatio="none">`,
		top, tall, d.columns())
}

// column returns the place of a time in columns. Times after now have the place of now.
func (d *Day) column(at time.Time) float64 {
	if at.After(d.Now) {
		at = d.Now
	}
	return d.axis().at(at) / 100 * float64(d.columns())
}

// ribbon draws which share of its peels each commit has reached, the newest on top.
func (d *Day) ribbon(c *canvas) {
	d.inner(c, ribbonTop, ribbonTall)
	end := d.column(d.Now)
	c.put(`<rect class="rb-0" x="0" y="0" width="%s" height="100"/>`, num(end))
	drawn := 0
	for _, k := range d.Commits {
		if k.State == Refused || len(k.Steps) == 0 {
			continue
		}
		class := fmt.Sprintf("rb-%d", 1+drawn%2)
		if drawn++; k.State == Suspect {
			class = "rb-bad"
		}
		c.put(`<path class="%s" d="M%s 100`, class, num(d.column(k.Steps[0].At)))
		for i, s := range k.Steps {
			c.put(`V%s`, num(100-min(max(s.Share, 0), 1)*100))
			until := end
			if i+1 < len(k.Steps) {
				until = d.column(k.Steps[i+1].At)
			}
			c.put(`H%s`, num(until))
		}
		c.put(`V100z"/>`)
	}
	c.put(`</svg>`)
}

// bars draws what ran and will run, and the outline of what was expected.
func (d *Day) bars(c *canvas) {
	most := uint64(1)
	for _, h := range d.Hours {
		most = max(most, h.Expected, h.Ran)
	}
	for _, h := range d.Ahead {
		most = max(most, h.Expected)
	}
	tall := func(n uint64) float64 { return float64(n) / float64(most) * 95 }
	d.inner(c, barsTop, barsTall)
	c.put(`<path class="p-fut" d="`)
	for i, h := range d.Ahead {
		if h.Expected > 0 {
			c.put(`M%s 100V%sh.88V100z`, num(float64(len(d.Hours)+i)+.06), num(100-tall(h.Expected)))
		}
	}
	c.put(`"/><path class="p-ran" d="`)
	for i, h := range d.Hours {
		if h.Ran > 0 {
			c.put(`M%s 100V%sh%sV100z`, num(float64(i)+.06), num(100-tall(h.Ran)), num(d.width(i)))
		}
	}
	c.put(`"/><path class="p-exp" d="M0 %s`, num(100-tall(d.Hours[0].Expected)))
	for i, h := range d.Hours {
		c.put(`V%sH%d`, num(100-tall(h.Expected)), i+1)
	}
	for i, h := range d.Ahead {
		c.put(`V%sH%d`, num(100-tall(h.Expected)), len(d.Hours)+i+1)
	}
	c.put(`"/></svg>`)
}

// width returns how wide the bar of an hour is: the present hour is as wide as its past part.
func (d *Day) width(i int) float64 {
	past := d.column(d.Now) - float64(i)
	return max(min(past, 1)*.88, .04)
}

// trouble draws what failed, was missed or is unknown, at a scale of its own, hanging from its top.
func (d *Day) trouble(c *canvas) {
	most := uint64(leastTrouble)
	for _, h := range d.Hours {
		most = max(most, h.Failed+h.Missed+h.Unknown)
	}
	d.inner(c, troubleTop, troubleTall)
	kinds := []struct {
		class string
		of    func(Hour) uint64
	}{
		{"p-fail", func(h Hour) uint64 { return h.Failed }},
		{"p-miss", func(h Hour) uint64 { return h.Missed }},
		{"p-unk", func(h Hour) uint64 { return h.Unknown }},
	}
	used := make([]float64, len(d.Hours))
	for _, kind := range kinds {
		c.put(`<path class="%s" d="`, kind.class)
		for i, h := range d.Hours {
			n := kind.of(h)
			if n == 0 {
				continue
			}
			tall := max(float64(n)/float64(most)*100, leastBar)
			c.put(`M%s %sv%sh%sv-%sz`, num(float64(i)+.06), num(used[i]), num(tall), num(d.width(i)), num(tall))
			used[i] += tall
		}
		c.put(`"/>`)
	}
	c.put(`</svg>`)
}

// suspect draws the ground behind the time since a suspect commit.
func (d *Day) suspect(c *canvas) {
	a := d.axis()
	for _, k := range d.Commits {
		if k.State == Suspect && len(k.Steps) > 0 {
			x := a.at(k.Steps[0].At)
			c.put(`<rect class="sus" x="%s%%" width="%s%%" y="%d" height="%d"/>`,
				num(x), num(max(a.at(d.Now)-x, 0)), ribbonTop+ribbonTall, dayBottom-ribbonTop-ribbonTall)
		}
	}
}

// flags names the newest commits above the ribbon, in two rows so that neighbours do not touch.
func (d *Day) flags(c *canvas) {
	a := d.axis()
	var shown []DayCommit
	for _, k := range d.Commits {
		if len(k.Steps) > 0 && !k.Steps[0].At.Before(a.from) {
			shown = append(shown, k)
		}
	}
	sorting.Stable(shown, func(x, y DayCommit) int { return x.Steps[0].At.Compare(y.Steps[0].At) })
	shown = shown[max(0, len(shown)-maxFlags):]
	now, labelled := a.at(d.Now), [2]float64{-labelWidth, -labelWidth} // where the last label of each row is
	for i, k := range shown {
		x, row := a.at(k.Steps[0].At), i%2
		class, word := "", k.Name
		switch k.State {
		case Suspect:
			class = " bad"
		case Refused:
			class, word = " hollow", k.Name+" refused"
		}
		y, bottom := 22-15*row, ribbonTop+ribbonTall
		if k.State == Suspect {
			bottom = dayBottom
		}
		// The present time has its label on the right of its line.
		side, anchor := 9, ""
		if now-x < labelWidth || x > 50 && k.State != Suspect {
			side, anchor = -9, ` text-anchor="end"`
		}
		c.put(`<line class="pin%s" x1="%s%%" x2="%[2]s%%" y1="%d" y2="%d"/>`, class, num(x), y+4, bottom)
		c.put(`<circle class="dot%s" cx="%s%%" cy="%d" r="4.5"/>`, class, num(x), y)
		if k.State == Suspect || x-labelled[row] >= labelWidth && !isNearSuspect(shown, i, a) {
			labelled[row] = x
			c.put(`<text class="flag%s" x="%s%%" dx="%d"%s y="%d">%s</text>`,
				class, num(x), side, anchor, y+4, text(word))
		}
	}
}

// isNearSuspect reports whether the label of a commit would touch the label of a suspect in the same row.
func isNearSuspect(shown []DayCommit, i int, a axis) bool {
	x := a.at(shown[i].Steps[0].At)
	for j, k := range shown {
		if k.State == Suspect && j%2 == i%2 && math.Abs(a.at(k.Steps[0].At)-x) < labelWidth {
			return true
		}
	}
	return false
}

// now draws the present time.
func (d *Day) now(c *canvas) {
	x := num(d.axis().at(d.Now))
	c.put(`<line class="now" x1="%s%%" x2="%[1]s%%" y1="12" y2="%d"/>`, x, dayBottom)
	aside := `dx="7"`
	if d.axis().at(d.Now) > 90 {
		aside = `dx="-7" text-anchor="end"`
	}
	c.put(`<text class="ax-now" x="%s%%" %s y="26">now, %s</text>`, x, aside, d.clock(d.Now, "15:04"))
}
