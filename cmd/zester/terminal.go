package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// width is how many characters a line of the terminal w holds, 0 if w is none.
func width(w io.Writer) int {
	if c, ok := w.(*sink); ok {
		w = c.Writer
	}
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

// A progress is a line on the terminal that says how far something is, and nothing where there is no terminal.
type progress struct {
	w     io.Writer
	width int
	shown bool
}

func newProgress(w io.Writer) *progress { return &progress{w: w, width: width(w)} }

// show replaces the line.
func (p *progress) show(format string, args ...any) {
	if p.width == 0 {
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K"+cut(plain(fmt.Sprintf(format, args...)), p.width-1))
	p.shown = true
}

// bar draws how much of something is done.
func bar(done, all int) string {
	const cells = 20
	if all == 0 {
		return "[" + strings.Repeat("-", cells) + "]   0%"
	}
	full := cells * done / all
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat("-", cells-full), 100*done/all)
}

// bar shows how much of something is done.
func (p *progress) bar(what string, done, total int64) {
	const cells = 30
	full := int(min(done, total) * cells / max(total, 1))
	p.show("%s %s%s %d of %d", what, strings.Repeat("█", full), strings.Repeat("░", cells-full), done, total)
}

// clear removes the line, so that something else can be printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// A table is what people see of an answer: cells are printed as they are but for what a terminal would act on.
type table struct {
	header []string
	rows   [][]string
	whole  []int // columns that are never cut, besides the first
	short  int   // characters to which the first column is cut if the table does not fit; 0: it is not cut
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

const columnGap = 2

// print prints the table, nothing if it has no rows. On a terminal it fits the width by cutting the widest columns.
// The first holds the names that people copy: it is cut only if t.short is set.
func (t table) print(w io.Writer, width int) error {
	if len(t.rows) == 0 {
		return nil
	}
	lines := slices.Clone(t.rows)
	if t.header != nil {
		lines = slices.Insert(lines, 0, t.header)
	}
	widths := make([]int, len(lines[0]))
	for i, cells := range lines {
		lines[i] = make([]string, len(cells))
		for j, cell := range cells {
			lines[i][j] = strings.NewReplacer("\n", " ", "\t", " ").Replace(plain(cell))
			widths[j] = max(widths[j], utf8.RuneCountInString(lines[i][j]))
		}
	}
	if width > 0 {
		t.fit(widths, width)
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(layOut(line, widths), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func layOut(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i == 0 { // the beginning of a name is a name, and needs no mark
			cell = string([]rune(cell)[:min(widths[0], utf8.RuneCountInString(cell))])
		}
		fmt.Fprintf(&b, "%-*s", widths[i]+columnGap, cut(cell, widths[i]))
	}
	return b.String()
}

// fit narrows the widest of the columns that may be cut until a line fits, but none below what can still be read.
func (t table) fit(widths []int, line int) {
	const least = 6
	total := columnGap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if total > line && t.short > 0 && widths[0] > t.short {
		total, widths[0] = total-widths[0]+t.short, t.short
	}
	for ; total > line; total-- {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if !slices.Contains(t.whole, i) && widths[i] > least && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return
		}
		widths[widest]--
	}
}

// cut shortens s to so many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:max(most-1, 0)]) + "…"
}
