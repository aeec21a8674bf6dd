package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// width returns the number of characters in a line of the terminal w, 0 if w is not a terminal.
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

// A progress is a line on a terminal that shows the progress of a command. Without a terminal it prints nothing.
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

// bar returns a bar of 20 characters and a percentage.
func bar(done, all int) string {
	const cells = 20
	if all == 0 {
		return "[" + strings.Repeat("-", cells) + "]   0%"
	}
	full := cells * done / all
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat("-", cells-full), 100*done/all)
}

// bar replaces the line by a bar with a label.
func (p *progress) bar(what string, done, total int64) {
	const cells = 30
	full := int(min(done, total) * cells / max(total, 1))
	p.show("%s %s%s %d of %d", what, strings.Repeat("█", full), strings.Repeat("░", cells-full), done, total)
}

// clear removes the line, so that other output can follow.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
