package main

import (
	"fmt"
	"io"
	"os"
	"strings"

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
