package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const whyManual = `why says what became of one fire of an entry on a peel, or why there was none.
TARGET is then the ID of the peel.
It shows the facts that prove it with their sources: the settings and the commit
in force then, the timing in words, the zone and its changes of daylight saving,
windows, breaker, pauses, the report of the peel, and the run with its job. If
the fire is part of a problem that lasts, it names the commit that the problem
followed, or says that none explains it.

The list of a peel's fires goes back 48 hours, and records of jobs a week. For
an earlier fire, and for one that its newest report is too old for, why runs
schedule.fires on the peel, which keeps its fires for 7 days: a job in your
name. Of older ones, and if the peel is away, masters have
the verdicts for 35 days: how many fires of the entry on the peel ran, failed,
were skipped or missed in each hour, and why. They tell what became of a fire if
all fires of its hour came to the same end; else the verdict is unknown, and the
numbers are shown.

TIME is when the entry was due, or when the run started: 2026-11-23T02:30 or,
for the last such time, 02:30, as the clocks of the entry's zone show it; or
with the offset from UTC, 2026-11-23T02:30:00Z. Without TIME it is the last
fire.

Verdicts: ran, late, overran, running, failed, skipped, missed, waiting (it is
due, and may still start), unknown, and none if there was no fire at that time.

-o json:
  {"peel": …, "entry": …, "verdict": …, "reason": …, "answer": …,
   "asked": …, "nominal": …, "started": …, "ended": …, "job": …, "next": …,
   "facts": [{"about": …, "text": …, "source": …}, …],
   "unread": […]}              sources that could not be read, if there are any`

func (a *app) whyCommand() *cobra.Command {
	var sinceWhen bool
	cmd := &cobra.Command{
		Use:   "why TARGET ENTRY [TIME]",
		Short: "Show what became of a fire of an entry, or since when it fails",
		Long:  whyManual + "\n\n" + sinceWhenManual,
		Args: func(cmd *cobra.Command, args []string) error {
			names := []string{"peel", "name of a schedule entry", "time"}
			if sinceWhen {
				names = []string{"target", "name of a schedule entry"}
			}
			return words(names[:max(2, min(len(args), len(names)))]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if sinceWhen {
				return a.withClient(func(client *api.Client) error {
					return a.sinceWhen(cmd.Context(), client, args[0], args[1])
				})
			}
			return a.onPeel(a.why)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&sinceWhen, "since-when", false, "show after which commit the entry began to fail")
	return cmd
}

// why explains one fire: words are the name of the entry and, if it is not the last fire, its time.
func (a *app) why(cmd *cobra.Command, client *api.Client, id target.PeelID, words []string) error {
	q := api.WhyRequest{Peel: id, Entry: words[0]}
	if len(words) > 1 {
		q.Time = words[1]
	}
	w, err := api.CoverageExplain.Ask(cmd.Context(), client, q)
	switch {
	case err == nil:
		return a.showWhy(w)
	case strings.Contains(err.Error(), "no such entry"):
		return hinted(err, api.CodeNotFound, "zester schedule list "+string(id)+" shows its entries")
	}
	return err
}

// showWhy prints the verdict, the answer, the facts, and their sources by number.
func (a *app) showWhy(w *api.WhyAnswer) error {
	return a.print(w, []string{string(w.Verdict)}, func() error {
		verdict := string(w.Verdict)
		if s := a.screen(); s.colours {
			verdict = painted(stateColour(verdict), verdict)
		}
		if w.Reason != "" && w.Reason != string(w.Verdict) {
			verdict += " (" + plain(w.Reason) + ")"
		}
		fmt.Fprintf(a.out, "%s on %s: %s\n%s\n", plain(w.Entry), w.Peel, verdict, a.folded(w.Text, 0))
		about := 0
		var sources []string
		for _, f := range w.Facts {
			about = max(about, utf8.RuneCountInString(plain(f.About)))
		}
		for _, f := range w.Facts {
			name := plain(f.About)
			space := strings.Repeat(" ", about-utf8.RuneCountInString(name)+columnGap)
			i := slices.Index(sources, f.Source)
			if i < 0 {
				i, sources = len(sources), append(sources, f.Source)
			}
			fmt.Fprintf(a.out, "\n%s%s%s", name, space, a.folded(fmt.Sprintf("%s [%d]", f.Text, i+1), about+columnGap))
		}
		if len(w.Facts) > 0 {
			fmt.Fprint(a.out, "\n\nSources:\n")
		}
		for i, source := range sources {
			fmt.Fprintf(a.out, "%s\n", a.folded(fmt.Sprintf("[%d] %s", i+1, source), len("[1] ")))
		}
		for _, source := range w.Unread {
			fmt.Fprintln(a.errOut, "warning: could not be read:", plain(source))
		}
		return nil
	})
}

// folded wraps a text between words at the width of the terminal. Lines after the first are indented.
func (a *app) folded(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(plain(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case a.columns > 0 && column+1+n > a.columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
