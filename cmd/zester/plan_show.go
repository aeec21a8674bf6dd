package main

import (
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

func (a *app) showPlan(r *review.Review, markdown bool) error {
	if markdown {
		_, err := fmt.Fprint(a.out, r.Markdown())
		return err
	}
	names := make([]string, len(r.Touched))
	for i, p := range r.Touched {
		names[i] = string(p)
	}
	return a.print(r, names, func() error { a.planText(r); return nil })
}

// paint returns a line of a change in its colour.
func (a *app) paint(mark review.Mark, line string) string {
	if !a.colours() {
		return line
	}
	return painted(map[review.Mark]string{review.Plus: green, review.Minus: red, review.Tilde: yellow}[mark], line)
}

func (a *app) planText(r *review.Review) {
	for _, e := range r.Errors {
		fmt.Fprintln(a.out, plain(e))
	}
	if r.Path != "" {
		fmt.Fprintf(a.out, "path: %s\n", plain(r.Path))
	}
	fmt.Fprintf(a.out, "base: %s\nhead: %s\n%s\n", plain(title(r.Base)), plain(title(r.Head)), r.Radius())
	for _, fact := range r.Facts() {
		fmt.Fprintln(a.out, plain(fact))
	}
	if r.Blocked != "" {
		fmt.Fprintf(a.out, "blocked: %s\n  %s\n", plain(r.Blocked), r.Release)
	}
	for _, w := range r.Warnings[:r.NewWarnings] {
		fmt.Fprintln(a.out, "warning:", plain(w))
	}
	for _, b := range r.Blocks() {
		fmt.Fprintf(a.out, "\n%s\n", plain(review.Names(b.Peels)))
		for _, l := range b.Lines() {
			fmt.Fprintln(a.out, a.paint(l.Mark, strings.TrimRight(fmt.Sprintf("  %c %s", l.Mark, plain(l.Text)), " ")))
		}
	}
}

func title(r review.Revision) string {
	text := r.Name
	if r.Commit != "" && !strings.HasPrefix(r.Commit, r.Name) {
		text += " " + r.Commit[:8]
	}
	if r.Subject != "" {
		text += " " + r.Subject
	}
	return text
}
