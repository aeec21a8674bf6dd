package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	valueShown = 200 // characters of a value in a line
	namesShown = 20  // peels named of all that change
)

// A Block holds the changes of one set of peels: each entry, state and key that changes on exactly these peels.
type Block struct {
	Peels    []target.PeelID
	Changes  []Change
	States   []StateChange
	Settings []Setting
}

// Blocks returns the changes grouped by their peels, the largest group first.
func (r *Review) Blocks() []Block {
	all := map[string]*Block{}
	of := func(peels []target.PeelID) *Block {
		key := fmt.Sprint(peels)
		if all[key] == nil {
			all[key] = &Block{Peels: peels}
		}
		return all[key]
	}
	for _, c := range r.Changes {
		b := of(c.Peels)
		b.Changes = append(b.Changes, c)
	}
	for _, s := range r.States {
		b := of(s.Peels)
		b.States = append(b.States, s)
	}
	for _, s := range r.Settings {
		b := of(s.Peels)
		b.Settings = append(b.Settings, s)
	}
	blocks := make([]Block, 0, len(all))
	for _, b := range sorting.Values(maps.Values(all), func(a, b *Block) int {
		return cmp.Or(cmp.Compare(len(b.Peels), len(a.Peels)), slices.Compare(a.Peels, b.Peels))
	}) {
		blocks = append(blocks, *b)
	}
	return blocks
}

// A Mark is the kind of a line.
type Mark byte

// The marks.
const (
	Plus  Mark = '+'
	Minus Mark = '-'
	Tilde Mark = '~'
	Space Mark = ' '
)

// A Line is one line for people. Its text has no control characters.
type Line struct {
	Mark Mark
	Text string
}

// Lines returns the changes of a block, field by field.
func (b Block) Lines() []Line {
	var lines []Line
	add := func(mark Mark, format string, args ...any) {
		lines = append(lines, Line{mark, oneLine(fmt.Sprintf(format, args...))})
	}
	fields := func(all map[string]Value) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if v := all[name]; v.Before != nil {
				add(Minus, "    %s: %s", name, short(v.Before))
			}
			if v := all[name]; v.After != nil {
				add(Plus, "    %s: %s", name, short(v.After))
			}
		}
	}
	for _, c := range b.Changes {
		add(c.Action.mark(), "%s  %s%s", c.Entry, c.Origin, c.note())
		fields(c.Fields)
		if next := c.Next.String(); next != "" {
			add(Space, "    next: %s", next)
		}
	}
	for _, s := range b.States {
		add(s.Action.mark(), "%s  %s  %s", s.State, s.Function, s.Origin)
		fields(s.Fields)
		for _, content := range s.Contents {
			add(Space, "    %s:", content.Path)
			for _, line := range content.Diff {
				mark, line := splitMark(line)
				add(mark, "      %s", strings.ReplaceAll(cut(line, valueShown), "\t", "    "))
			}
		}
	}
	for _, s := range b.Settings {
		if s.Before != nil {
			add(Minus, "%s: %s", s.Key, short(s.Before))
		}
		if s.After != nil {
			add(Plus, "%s: %s", s.Key, short(s.After))
		}
	}
	return lines
}

// splitMark returns the mark of a line of a unified diff, and its text.
func splitMark(line string) (Mark, string) {
	if line != "" && strings.IndexByte("+- ", line[0]) >= 0 {
		return Mark(line[0]), line[1:]
	}
	return Space, line
}

func (a Action) mark() Mark {
	switch a {
	case Add:
		return Plus
	case Remove:
		return Minus
	}
	return Tilde
}

func (c *Change) note() string {
	if c.Action == Modify && !c.ResetsTimer {
		return "  the timer goes on"
	}
	return ""
}

// String returns the times before and after, empty if there are none.
func (n Next) String() string {
	switch before, after := times(n.Before), times(n.After); {
	case before == after:
		return before
	case before == "" || after == "":
		return before + after
	default:
		return before + " → " + after
	}
}

func times(all []time.Time) string {
	out := make([]string, len(all))
	for i, at := range all {
		layout := "2006-01-02 15:04:05 MST"
		if at.Second() == 0 {
			layout = "2006-01-02 15:04 MST"
		}
		if i > 0 && at.Format(time.DateOnly) == all[i-1].Format(time.DateOnly) {
			layout = strings.TrimPrefix(layout, "2006-01-02 ")
		}
		out[i] = at.Format(layout)
	}
	return strings.Join(out, ", ")
}

func short(v any) string { return cut(text(v), valueShown) }

// oneLine replaces control characters, which a terminal or a forge would obey.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '�'
		}
		return r
	}, s)
}

// Names returns the number of peels and their names: up to three of them, else the first and the last.
func Names(peels []target.PeelID) string {
	n := "1 peel"
	if len(peels) != 1 {
		n = fmt.Sprintf("%d peels", len(peels))
	}
	if len(peels) > 3 {
		return fmt.Sprintf("%s: %s … %s", n, peels[0], peels[len(peels)-1])
	}
	return n + ": " + join(peels)
}

func join(peels []target.PeelID) string {
	names := make([]string, len(peels))
	for i, p := range peels {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}
