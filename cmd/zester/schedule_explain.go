package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

// maxFires is the largest number of fires that are listed.
const maxFires = 1_000_000

// explanation is the data of schedule explain.
type explanation struct {
	Expression  string   `json:"expression"`
	Explanation string   `json:"explanation"`
	Zone        string   `json:"zone"`
	Fires       []string `json:"fires"`
}

const explainManual = `explain prints one sentence that says when and how an entry runs, and the times
after --from at which it fires. It needs no master. EXPRESSION is a cron
expression or an English phrase. The exit code is 1 if the entry is invalid.` + entryManual + `

For the times, explain assumes that the entry has not run before --from and that
runs take no time: an interval counts from --from and then from each fire. The
windows of an entry, not_before, until and max_runs are applied. A splay is not:
it delays each run. -o name prints the times alone.

-o json:
  {"expression": …, "explanation": …, "zone": …,
   "fires": ["2026-03-29T02:00:00+01:00", …]}`

func (a *app) explainCommand() *cobra.Command {
	var source entrySource
	var f firesFlags
	cmd := &cobra.Command{
		Use:   "explain [EXPRESSION]",
		Short: "Explain in English when an entry runs, and list its next times",
		Long:  explainManual,
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, expression := range args {
				if err := source.typed(expression); err != nil {
					return err
				}
			}
			return a.explain(cmd, &source, f)
		},
	}
	source.addFlags(cmd.Flags())
	f.add(cmd.Flags())
	return cmd
}

// typed sets --cron, or --when if the expression is a phrase.
func (s *entrySource) typed(expression string) error {
	flag := "cron"
	words := strings.Fields(expression + " .")
	isCron := strings.ContainsAny(expression, "*@=") // also CRON_TZ=
	start := strings.Join(words[:min(2, len(words))], " ")
	if !isCron && (strings.ContainsFunc(start, unicode.IsLetter) || strings.Contains(words[0], ":")) {
		flag = "when"
	}
	s.expression = expression
	return s.flags.Set(flag, expression)
}

// explain prints what the entry means that the flags describe, and its next fires.
func (a *app) explain(cmd *cobra.Command, source *entrySource, f firesFlags) error {
	asked, err := f.span()
	if err != nil {
		return err
	}
	if f.until != "" && !cmd.Flags().Changed("number") {
		asked.n = 0
	}
	s, err := source.read(asked.from)
	if err != nil {
		return err
	}
	return a.showFires(s, asked)
}

// firesFlags holds the flags that say which fires are listed.
type firesFlags struct {
	from, until string
	n           int
}

// A span selects fires: those after from, up to and including until unless it is zero, and at most n unless that is 0.
type span struct {
	from, until time.Time
	n           int
}

func (f *firesFlags) add(flags *pflag.FlagSet) {
	fromFlag(flags, &f.from, "after which fires are listed")
	flags.StringVar(&f.until, "until", "", "`INSTANT` up to which all fires are listed")
	flags.IntVarP(&f.n, "number", "n", 10, "at most `N` fires")
}

func (f *firesFlags) span() (span, error) {
	from, err := fromInstant(f.from)
	if err != nil {
		return span{}, err
	}
	asked := span{from: from, n: f.n}
	if f.until != "" {
		if asked.until, err = instant("until", f.until); err != nil {
			return span{}, err
		}
		if asked.until.Before(asked.from) {
			return span{}, usageError("cannot list fires up to %s: that is before %s", f.until,
				asked.from.Format(time.RFC3339))
		}
	}
	if f.n < 1 || f.n > maxFires {
		return span{}, usageError("cannot list %d fires: -n is between 1 and %d", f.n, maxFires)
	}
	return asked, nil
}

func (a *app) showFires(s *subject, asked span) error {
	t, err := s.entry.Timing(s.zone)
	if err != nil {
		return err
	}
	from := asked.from.In(s.zone)
	out := explanation{
		Expression: s.expression, Explanation: s.entry.Explain(), Zone: s.zoneName, Fires: []string{},
	}
	list := table{header: []string{"FIRE", "DAY", "ZONE"}}
	for at := range forecast.Fires(s.entry, t.Seen(from), from, asked.until) {
		if len(out.Fires) == maxFires {
			return fmt.Errorf("cannot list more than %d fires, and there are more up to %s: give an earlier --until",
				maxFires, asked.until.Format(time.RFC3339))
		}
		at = at.In(s.zone)
		text := at.Format(time.RFC3339Nano)
		out.Fires = append(out.Fires, text)
		list.add(text, at.Format("Mon"), at.Format("MST"))
		if len(out.Fires) == asked.n {
			break
		}
	}
	switch {
	case !s.entry.Enabled:
		fmt.Fprintln(a.errOut, "never: the entry is not enabled")
	case len(out.Fires) == 0:
		fmt.Fprintln(a.errOut, "no fires")
	}
	return a.print(out, out.Fires, func() error {
		fmt.Fprintln(a.out, plain(out.Explanation))
		if len(out.Fires) == 0 {
			return nil
		}
		fmt.Fprintln(a.out)
		return a.printTable(list)
	})
}
