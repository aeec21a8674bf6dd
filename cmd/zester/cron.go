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

// maxFires is how many fires are listed at most.
const maxFires = 1_000_000

// fires is what `cron next` prints as data.
type fires struct {
	Expression string   `json:"expression"`
	Zone       string   `json:"zone"`
	Fires      []string `json:"fires"`
}

const cronManual = `next lists the next times at which an entry fires: after --from, never at it. It asks no master. EXPRESSION is a cron
expression or an English phrase. An entry that is refused ends it with 1 and the reason.` + entryManual + `

It is as if the entry had not run before --from and no run took time: an interval counts from --from and from each
fire. Windows and not_before, until and max_runs of an entry count; a delay by splay comes on top of each time.

-o json: {"expression": …, "zone": …, "fires": ["2026-03-29T02:00:00+01:00", …]}`

func (a *app) cronCommand() *cobra.Command {
	var source entrySource
	var f nextFlags
	next := &cobra.Command{
		Use:   "next [EXPRESSION]",
		Short: "List when a cron expression, a phrase or an entry of a file fires next",
		Long:  cronManual,
		Args:  atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, expression := range args {
				if err := source.typed(expression); err != nil {
					return err
				}
			}
			return a.listFires(cmd, &source, f)
		},
	}
	source.addFlags(next.Flags())
	f.add(next.Flags())
	return group("cron", "Show when a cron expression or a phrase fires", next)
}

// typed sets --cron, or --when if the expression is a phrase.
func (s *entrySource) typed(expression string) error {
	flag := "cron"
	if first := []rune(expression + " ")[0]; unicode.IsLetter(first) && !strings.HasPrefix(expression, "TZ=") && !strings.HasPrefix(expression, "CRON_TZ=") {
		flag = "when"
	}
	s.expression = expression
	return s.flags.Set(flag, expression)
}

// listFires prints the next fires of the entry that the flags describe.
func (a *app) listFires(cmd *cobra.Command, source *entrySource, f nextFlags) error {
	asked, err := f.span()
	if err != nil {
		return err
	}
	if f.until != "" && !cmd.Flags().Changed("number") {
		asked.n = 0
	}
	s, err := source.read()
	if err != nil {
		return err
	}
	return a.showFires(s, asked)
}

// nextFlags say which fires are listed.
type nextFlags struct {
	from, until string
	n           int
}

// A span says which fires are asked for: those after from, up to and with until if there is one, at most n if that
// is not 0.
type span struct {
	from, until time.Time
	n           int
}

func (f *nextFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "`INSTANT` after which fires are listed, such as 2026-06-01T09:00:00+01:00 (default: now)")
	flags.StringVar(&f.until, "until", "", "`INSTANT` up to which all fires are listed")
	flags.IntVarP(&f.n, "number", "n", 10, "at most `N` fires")
}

func (f *nextFlags) span() (span, error) {
	asked := span{from: time.Now().Truncate(time.Second), n: f.n}
	if f.from != "" {
		var err error
		if asked.from, err = instant("from", f.from); err != nil {
			return span{}, err
		}
	}
	if f.until != "" {
		var err error
		if asked.until, err = instant("until", f.until); err != nil {
			return span{}, err
		}
		if asked.until.Before(asked.from) {
			return span{}, usageError("cannot list fires up to %s: that is before %s", f.until, asked.from.Format(time.RFC3339))
		}
	}
	if f.n < 1 || f.n > maxFires {
		return span{}, usageError("cannot list %d fires: -n is between 1 and %d", f.n, maxFires)
	}
	return asked, nil
}

// instant reads the value of a flag.
func instant(flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usageError("cannot use --%s %q: write date, time and offset from UTC like 2026-06-01T09:00:00+01:00", flag, text)
	}
	return at, nil
}

func (a *app) showFires(s *subject, asked span) error {
	t, err := s.entry.Timing(s.zone)
	if err != nil {
		return err
	}
	from := asked.from.In(s.zone)
	out := fires{Expression: s.expression, Zone: s.zoneName, Fires: []string{}}
	list := table{header: []string{"FIRE", "DAY", "ZONE"}}
	for at := range forecast.Fires(s.entry, t.Seen(from), from, asked.until) {
		if len(out.Fires) == maxFires {
			return fmt.Errorf("cannot list more than %d fires, and there are more up to %s: name an earlier --until",
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
	return a.show(out, list)
}
