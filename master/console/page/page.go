// Package page writes the pages of the console as HTML, with templ. Call [Layout] with a [Frame] and, as its children,
// the parts of a page; [With] puts what all components need into their context.
//
// A page has a file NAME.templ here, a view struct in package view from which it is made, and a route in package
// console, whose comment says how a page is added. Generate the Go code after each change:
//
//	go tool -modfile=.ci/tools.mod templ generate -path master/console/page
//
// A component that many pages use is not inlined: each call would have a copy of its code.
//
// Pictures are SVG that [Day.SVG], [Lane.SVG] and [Meter.SVG] write. Attributes place them, and classes of the style
// sheet colour them. What a picture shows is in words too, in its desc or its label.
//
// Guarantees: templ escapes every text; there is no style attribute, no script and no handler in the HTML, which the
// Content-Security-Policy would refuse; what programs print goes through [Visible].
package page

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings"
)

// An Env is what all components of a page need.
type Env struct {
	// May reports whether the reader may send a request. Pages leave out what the reader may not; nil: all of it.
	May   func(noun, verb string) bool
	Now   time.Time
	Zone  *time.Location // of all times on the page
	CSS   string         // path of the style sheet
	JS    string         // path of the script
	Icons string         // path of the icons
	Mark  string         // path of the icon of the page
}

type envKey struct{}

// With returns ctx with what all components need.
func With(ctx context.Context, e Env) context.Context { return context.WithValue(ctx, envKey{}, e) }

func env(ctx context.Context) Env {
	e, _ := ctx.Value(envKey{}).(Env)
	if e.Zone == nil {
		e.Zone = time.UTC
	}
	return e
}

// A Frame is what stands around each page.
type Frame struct {
	Name   string // of the page: data-testid is page-NAME
	Nav    string // the current word: now, timeline, commits, peels, states, jobs, alerts, approvals or system
	Title  string // of the window, without the name of the program
	Crumbs []Link // above the headline; empty: the name of the fleet
	Fleet  string
	User   string
	Role   string
	Theme  string           // light, dark or empty for the choice of the system
	Keys   bool             // keys of the keyboard are in use
	Counts map[string]Count // beside words of the navigation
	Banner string           // a warning above everything; empty: none
}

// A Link is a text with an address. Without Href it is text alone.
type Link struct {
	Text, Href string
	Code       bool // the text is an identifier
}

// A Count stands beside a word of the navigation.
type Count struct {
	Text string
	Kind string // bad, due or empty
}

// A word of the navigation.
type word struct{ name, label, href, icon string }

var words = []word{
	{"now", "Now", "/", "home"},
	{"timeline", "Timeline", "/timeline", "time"},
	{"commits", "Commits", "/commits", "commit"},
	{"peels", "Peels", "/peels", "peel"},
	{"states", "States", "/states", "state"},
	{"jobs", "Jobs", "/jobs", "run"},
	{"alerts", "Alerts", "/alerts", "bell"},
	{"approvals", "Approvals", "/approvals", "hand"},
	{"system", "System", "/system", "heart"},
}

// A Part is a region of a page that is refreshed by itself.
type Part struct {
	Name    string // of the attribute data-part
	Heading string // empty: the part has none of its own
	Note    string // beside the heading
	Error   string // what could not be read; the part then shows that in place of its content
	Request string // ID of the request, for Error
	Stale   time.Time
	Empty   string // what would be here; the part then shows that in place of its content
	Command string // to fill what is empty; may be absent
}

func (p Part) id() string { return "h-" + p.Name }

// A Tone is a colour with the shape of a state.
type Tone string

// The tones. Each has an icon of the same name.
const (
	Ok     Tone = "ok"
	Fail   Tone = "fail"
	Late   Tone = "late"
	Silent Tone = "silent"
	Drift  Tone = "drift"
	Move   Tone = "move"
	Wait   Tone = "wait"  // coloured as Silent
	Pause  Tone = "pause" // coloured as Silent
)

func (t Tone) class() string {
	if t == Wait || t == Pause {
		return "chip s-silent"
	}
	return "chip s-" + string(t)
}

// Visible returns what a program printed, with control characters as escapes, so that the text cannot hide anything.
func Visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// A piece of a text is a time or what stands between two.
type piece struct {
	text string
	at   time.Time // zero: it is text
}

var stamp = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// pieces splits a text at its times, which services write in RFC 3339.
func pieces(text string) (all []piece) {
	for {
		at := stamp.FindStringIndex(text)
		if at == nil {
			return append(all, piece{text: text})
		}
		t, err := time.Parse(time.RFC3339, text[at[0]:at[1]])
		if err != nil {
			return append(all, piece{text: text})
		}
		all = append(all, piece{text: text[:at[0]]}, piece{at: t})
		text = text[at[1]:]
	}
}

// hidden reports whether a rune changes how the text around it is shown.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// Number writes 1234567 as 1,234,567.
func Number(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// Plural writes a number with its noun, whose plural has an s.
func Plural(n int, noun string) string {
	return Counted(n, noun, noun+"s")
}

// Counted writes a number with the words that follow it: one for 1, and many for other numbers.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Short returns the first digits of a commit, as many as services write.
func Short(commit string) string { return settings.Commit(commit).Short() }

// clock writes a time as people read it: the time of day, with the date if it is of another day.
func clock(ctx context.Context, t time.Time) string {
	e := env(ctx)
	t = t.In(e.Zone)
	y, m, d := t.Date()
	if ny, nm, nd := e.Now.In(e.Zone).Date(); y == ny && m == nm && d == nd {
		return t.Format("15:04")
	} else if y == ny {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// Ago writes how long ago a time was, in its largest unit.
func Ago(ctx context.Context, t time.Time) string {
	switch d := env(ctx).Now.Sub(t); {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s ago"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min ago"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h ago"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + " d ago"
	}
}

// may reports whether the reader may send a request.
func may(ctx context.Context, noun, verb string) bool {
	e := env(ctx)
	return e.May != nil && e.May(noun, verb)
}
