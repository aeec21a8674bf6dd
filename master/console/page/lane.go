package page

import (
	"fmt"
	"time"
)

// A Lane is the line of one entry on a timeline. Hours are from the oldest to the present one.
type Lane struct {
	Hours   []Hour
	Now     time.Time
	Until   time.Time   // the end of the axis
	Next    []time.Time // fires to come
	Changed []time.Time // when commits changed the entry
	Words   string      // what the lane shows
}

// Outcome is what became of the runs of an hour, as a class of its mark.
func (h Hour) outcome() string {
	switch {
	case h.Failed > 0 && h.Failed >= h.Ran:
		return "e-fail"
	case h.Failed > 0:
		return "e-failb"
	case h.Missed > 0 && h.Ran == 0:
		return "e-miss"
	case h.Missed > 0:
		return "e-part"
	case h.Unknown > 0:
		return "e-unk"
	case h.Ran > 0:
		return "e-ran"
	}
	return "e-none"
}

// SVG draws the lane: a mark for each hour with runs, or a band where every hour has some.
func (l *Lane) SVG() string {
	var c canvas
	c.put(`<svg class="t" role="img" aria-label="%s">`, text(l.Words))
	if len(l.Hours) > 0 {
		a := axis{l.Hours[0].At, l.Until}
		if l.isDense() {
			l.band(&c, a)
		} else {
			l.marks(&c, a)
		}
		for _, at := range l.Changed {
			c.put(`<line class="chgs" x1="%s%%" x2="%[1]s%%" y1="0" y2="100%%"/>`, num(a.at(at)))
		}
		c.put(`<line class="now" x1="%s%%" x2="%[1]s%%" y1="0" y2="100%%"/>`, num(a.at(l.Now)))
	}
	c.put(`</svg>`)
	return c.String()
}

// isDense reports whether more than half of the hours have runs.
func (l *Lane) isDense() bool {
	n := 0
	for _, h := range l.Hours {
		if h.Expected > 0 {
			n++
		}
	}
	return n*2 > len(l.Hours)
}

// marks draws a mark for each hour with runs, and a hollow one for each fire to come.
func (l *Lane) marks(c *canvas, a axis) {
	step := time.Hour
	if len(l.Hours) > 1 {
		step = l.Hours[1].At.Sub(l.Hours[0].At)
	}
	for _, h := range l.Hours {
		if h.Expected+h.Ran == 0 {
			continue
		}
		until := h.At.Add(step)
		if until.After(l.Now) {
			until = l.Now // runs of the present hour are past
		}
		mark(c, h.outcome(), num(a.at(h.At.Add(until.Sub(h.At)/2))))
	}
	for _, at := range l.Next {
		mark(c, "e-exp", num(a.at(at)))
	}
}

// mark draws a shape that differs by what it says, not by its colour alone.
func mark(c *canvas, class, x string) {
	switch class {
	case "e-fail", "e-failb":
		c.put(`<svg class="mk" x="%s%%" y="50%%"><path class="mk-fail %s" d="M-5 -5L5 5M5 -5L-5 5"/></svg>`, x, class)
	case "e-miss", "e-part":
		c.put(`<svg class="mk" x="%s%%" y="50%%"><path class="%s" d="M0 -6L6 5H-6z"/></svg>`, x, class)
	case "e-unk":
		c.put(`<rect class="%s" x="%s%%" y="50%%" width="8" height="8" transform="translate(-4 -4)"/>`, class, x)
	default:
		c.put(`<circle class="%s" cx="%s%%" cy="50%%" r="5"/>`, class, x)
	}
}

// band draws hours as one band, with pieces for the hours in trouble and an outline up to the end.
func (l *Lane) band(c *canvas, a axis) {
	piece := func(class string, from, until time.Time) {
		if x := a.at(from); until.After(from) {
			c.put(`<rect class="%s" x="%s%%" width="%s%%" y="50%%" height="9" transform="translate(0 -4.5)" rx="2"/>`,
				class, num(x), num(a.at(until)-x))
		}
	}
	piece("e-band", l.Hours[0].At, l.Now)
	piece("e-exp", l.Now, l.Until)
	for i := 0; i < len(l.Hours); {
		class, first := l.Hours[i].outcome(), i
		for i < len(l.Hours) && l.Hours[i].outcome() == class {
			i++
		}
		until := l.Now
		if i < len(l.Hours) {
			until = l.Hours[i].At
		}
		switch class {
		case "e-ran", "e-none":
			continue
		case "e-fail":
			class = "e-failb"
		}
		piece(class, l.Hours[first].At, until)
	}
}

// A Piece is a share of a [Meter].
type Piece struct {
	Class string // of the style sheet
	Word  string
	N     int
}

// A Meter is a bar of shares.
type Meter []Piece

// leastPiece is the narrowest piece in percent.
const leastPiece = .4

// SVG draws the meter over a width of 100 %. Pieces without anything are left out; small ones stay visible.
func (m Meter) SVG() string {
	sum, words := 0, ""
	for _, p := range m {
		if sum += p.N; p.N > 0 {
			if words != "" {
				words += ", "
			}
			words += fmt.Sprintf("%s %s", thousands(p.N), p.Word)
		}
	}
	var c canvas
	c.put(`<svg role="img" aria-label="%s">`, text(words))
	x := 0.0
	for _, p := range m {
		if p.N == 0 {
			continue
		}
		width := max(float64(p.N)/float64(sum)*100, leastPiece)
		width = min(width, 100-x)
		c.put(`<rect class="%s" x="%s%%" width="%s%%" height="14"/>`, text(p.Class), num(x), num(width))
		x += width
	}
	c.put(`</svg>`)
	return c.String()
}
