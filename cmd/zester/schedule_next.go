package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

// maxFires is how many fires are listed at most.
const maxFires = 1_000_000

// fires is what `schedule next` prints as data.
type fires struct {
	Expression string   `json:"expression"`
	Zone       string   `json:"zone"`
	Fires      []string `json:"fires"`
}

const nextManual = `With a target, next asks the peels that it selects for the next times of one of their entries, or of all: it is the
function schedule.next, dispatched as a job. Without one it asks no master, and what follows is about that.

next lists the next times at which an entry fires: after --from, never at it. An entry that is
refused ends it with 1 and the reason.` + entryManual + `

It is as if the entry had not run before --from and no run took time: an interval counts from --from and from each
fire. Windows and not_before, until and max_runs of an entry count; a delay by splay comes on top of each time.

-o json: {"expression": …, "zone": …, "fires": ["2026-03-29T02:00:00+01:00", …]}`

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

func (a *app) nextCommand() *cobra.Command {
	var source entrySource
	var f nextFlags
	cmd := &cobra.Command{
		Use:   "next ['<target>' [entry]]",
		Short: "List when an entry fires next, of a peel or of what is typed",
		Long:  nextManual,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) > 0 {
				return a.liveNext(cmd, words, f.n)
			}
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
		},
	}
	source.addFlags(cmd.Flags())
	a.dispatching.following(cmd.Flags())
	cmd.Flags().StringVar(&f.from, "from", "", "list what comes after this `INSTANT`, as in 2026-06-01T09:00:00+01:00 (default: now)")
	cmd.Flags().StringVar(&f.until, "until", "", "list all fires up to and at this `INSTANT`")
	cmd.Flags().IntVarP(&f.n, "number", "n", 10, "list so many `FIRES` at most; with --until, all")
	return cmd
}

// liveNext asks the peels of a target.
func (a *app) liveNext(cmd *cobra.Command, words []string, n int) error {
	const most = 100
	if _, _, err := cron.Parse(words[0]); err == nil {
		return usageError("%q is a cron expression and no target: write --cron '%s'", words[0], words[0])
	}
	args := map[string]any{}
	switch len(words) {
	case 1:
	case 2:
		args["entry"] = words[1]
	default:
		return usageError("%s does not take the argument %q", cmd.CommandPath(), words[2])
	}
	for _, name := range append([]string{"from", "until", "zone", "dst-gap", "dst-overlap", "file", "entry"}, timingFlags...) {
		if cmd.Flags().Changed(name) {
			return usageError("--%s does not go with the target %q: its peels know their entries", name, words[0])
		}
	}
	if cmd.Flags().Changed("number") {
		if n < 1 || n > most {
			return usageError("cannot list %d fires: -n is between 1 and %d for a peel's entries", n, most)
		}
		args["count"] = int64(n)
	}
	return a.callSchedule(cmd, words[0], "schedule.next", args)
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
