package phrase

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// hint returns what to write for a phrase with a word that is not understood.
func (p *parser) hint() string {
	if text := rewritten(p.words); text != "" {
		return fmt.Sprintf("; write %q", text)
	}
	w := p.words[p.at]
	text := " " + plain(p.words) + " "
	for _, a := range advice {
		if strings.Contains(text, a[0]) {
			return "; " + a[1]
		}
	}
	if whole := corrected(p.words, p.at); whole != "" {
		return fmt.Sprintf("; the nearest phrase is %q", whole)
	}
	switch near := suggest(w.low); {
	case near != "":
		return near
	case len(w.written) > 2 && w.written == strings.ToUpper(w.written) && unicode.IsUpper(rune(w.written[0])):
		return `; write a zone like "Europe/London"`
	case strings.Contains(w.written, "/"):
		return `; write a date like "on 3 January 2027"`
	}
	return fmt.Sprintf("; write it like %q", nearest(p.words))
}

// rewrites are words that other people and programs use, and what the same is in a phrase.
var rewrites = strings.NewReplacer(
	" at the end of ", " on the last day of ", " end of month ", lastDay, " end of the month ", lastDay,
	" end of each month ", lastDay, " end of every month ", lastDay, " end - of - month ", lastDay,
	" month end ", lastDay, " month - end ", lastDay, " eom ", lastDay,
	" start of the month ", firstDay, " start of month ", firstDay,
	" beginning of the month ", firstDay, " beginning of month ", firstDay,
	" of the quarter ", quarters, " of each quarter ", quarters, " of every quarter ", quarters,
	" weeknights ", " monday to friday night ", " weeknight ", " monday to friday night ",
	" in business hours ", " on weekdays from 9am to 5pm ",
	" business hours ", workingHours, " office hours ", workingHours, " working hours ", workingHours,
	" bi - weekly ", " biweekly ", " overnight ", " nightly ", " in the night ", " at night ",
	"day/", "day and ", " hour and a half ", " 90 minutes ", " starting ", " from ", " during ", " on ",
	" once every ", " every ", " any ", " every ", " all ", " every ",
	" rate(", " every ", ") ", " ", " @", " ", "..", " to ",
	" run ", " ", " runs ", " ", " please ", " ", " only ", " ", " always ", " ", " repeat ", " ", " execute ", " ",
	" around ", " ", " about ", " ", " approximately ", " ", " roughly ", " ", " exactly ", " ", " sharp ", " ",
	" local time ", " ",
)

const (
	firstDay     = " first of the month "
	lastDay      = " last day of the month "
	quarters     = " of january, april, july and october "
	workingHours = " weekdays from 9am to 5pm "
)

// advice is for words without such a phrase.
var advice = [][2]string{
	{"bimonthly ", `write "every 2 months", or "on the 1st and 15th"`},
	{" bi - monthly ", `write "every 2 months", or "on the 1st and 15th"`},
	{"semimonthly ", `write "on the 1st and 15th"`},
	{"semiweekly ", `name the days, like "on monday and thursday"`},
	{" half ", `write the time in digits, like "at 7:30"`},
	{"holiday", "the field not_on leaves days out"},
	{"random", "the field splay delays runs at random"},
	{" starting ", "the field not_before says when an entry begins"},
	{" until ", "say between which times, or when the entry ends in the field until"},
	{" hour after ", "say between which times"},
	{" hour before ", "say between which times"},
	{"24:00", "midnight is 0:00 of the next day"},
	{"boot ", "the field run_on_start says whether an entry runs when the peel starts"},
	{" startup ", "the field run_on_start says whether an entry runs when the peel starts"},
	{"*", "a cron expression goes in the field cron"},
	{" ? ", "a cron expression goes in the field cron"},
}

// clockLike are times in other forms: 7.30, 14h30, 0900.
var clockLike = regexp.MustCompile(` ([01]?[0-9]|2[0-3])(?:[.h]([0-5][0-9])| ?h|([0-5][0-9])h?)([ap]m)? `)

// rewritten returns a phrase with the meaning that the words seem to have, empty if there is none.
func rewritten(words []word) string {
	before := plain(words)
	for _, text := range []string{before, clockLike.ReplaceAllStringFunc(" "+before+" ", colon)} {
		for range 2 { // one blank belongs to two words that follow each other
			text = rewrites.Replace(" " + strings.Join(strings.Fields(text), " ") + " ")
		}
		if text = strings.TrimSpace(text); text == before {
			continue
		}
		p := trial(text)
		switch t, err := p.parse(); {
		case err != nil:
		case t.Days.LastDay && len(p.order) == 1: // the end of a day, not its midnight
			return text + " at 23:30"
		default:
			return text
		}
	}
	return ""
}

// colon writes what clockLike matches as 7:30.
func colon(s string) string {
	m := clockLike.FindStringSubmatch(s)
	return fmt.Sprintf(" %s:%02s%s ", m[1], m[2]+m[3], m[4])
}

// plain returns the words in lower case, with one blank between them.
func plain(words []word) string {
	var texts []string
	for _, w := range words {
		if isZone(w) {
			w.low = w.written
		}
		texts = append(texts, w.low)
	}
	return strings.ReplaceAll(strings.Join(texts, " "), " ,", ",")
}

// trial returns a parser for what a person may have meant.
func trial(text string) *parser {
	return &parser{words: split(Dated(text, time.Time{}.AddDate(2000, 0, 0))), isTrial: true}
}

// suggest returns the nearest word of phrases that begins with the same letter, as strictyaml.Suggest does.
func suggest(w string) string {
	if _, ok := numberOf(w); ok || len(w) < 4 || strings.ContainsAny(w, "0123456789") {
		return ""
	}
	known := slices.DeleteFunc(vocabulary(), func(k string) bool { return k[0] != w[0] })
	return strictyaml.Suggest(w, known)
}

// withoutNight returns what to write for a night of certain days if that is the phrase without the night.
func (p *parser) withoutNight(t Timing) string {
	var words []word
	for i, w := range p.words {
		switch {
		case partOf(w.low) != night:
			words = append(words, w)
		case i > 0 && (p.words[i-1].low == "every" || p.words[i-1].low == "each"):
			words = words[:len(words)-1]
		}
	}
	text := plain(words)
	if u, err := trial(text).parse(); err != nil || !slices.Equal(u.Cron, t.Cron) || u.Days != t.Days {
		return `write the day of the time, like "saturday at 2am"`
	}
	return fmt.Sprintf("write %q for these days, or name the days after them", text)
}

// shapes are phrases that a person finds in an error.
var shapes = []string{
	"every monday at 9am", "every 15 minutes between 8am and 6pm",
	"last friday of the month at 17:00", "last day of the month at 23:30", "every other tuesday at 9am", "twice a day",
	"every hour on weekends", "every 3 months on the 2nd at 1am", "every day except sunday at 9am",
	"on 3 January 2027 at 14:00", "in 2 hours", "every hour at minute 5 and 35",
	"every day in january and july at 12:30", "first monday of the month at 9am",
}

// An unknownWord is the place of a word that is not understood.
type unknownWord struct{ at int }

func (e *unknownWord) Error() string { return fmt.Sprintf("word %d is not understood", e.at+1) }

// corrected returns the phrase with the word at an index, and others that are not understood, in the nearest spelling.
// It is empty if the phrase has no meaning then either.
func corrected(words []word, at int) string {
	words = slices.Clone(words)
	for range words {
		_, near, _ := strings.Cut(suggest(words[at].low), `"`)
		near, _, _ = strings.Cut(near, `"`)
		if near == "" {
			return ""
		}
		words[at].written, words[at].low = near, near
		text := written(words)
		p := trial(text)
		_, err := p.parse()
		next, isUnknown := errors.AsType[*unknownWord](err)
		if err == nil {
			return text
		}
		if !isUnknown {
			return ""
		}
		if at = next.at + len(words) - len(p.words); at < 0 { // a date has more words than tomorrow
			return ""
		}
	}
	return ""
}

// written returns the words as a phrase.
func written(words []word) string {
	var text strings.Builder
	for i, w := range words {
		joins := i > 0 && w.column == words[i-1].column // 15m, mon-fri
		if joins && w.written == words[i-1].written {
			continue
		}
		if i > 0 && !joins && w.low != "," {
			text.WriteByte(' ')
		}
		text.WriteString(w.written)
	}
	return text.String()
}

// nearest returns the shape that has most of the words.
func nearest(words []word) string {
	found, most := shapes[0], 0
	for _, shape := range shapes {
		n := 0
		for _, w := range words {
			if slices.Contains(strings.Fields(strings.ToLower(shape)), w.low) {
				n++
			}
		}
		if n > most {
			found, most = shape, n
		}
	}
	return found
}
