package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan/spread"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const spreadManual = `spread proposes delays with which the runs of a fleet begin at different times,
and prints the patch. It changes no file; git apply in DIR does:

  zester schedule spread . --entry 'backup*' | git apply

Each peel gets a delay of its own that stays the same at every fire (splay_mode:
host); intervals from the epoch get different phases too. A delay is shorter
than the time between two fires, stays within the windows of the entry, and is
at most --within. spread takes the shortest delays of which the peak is nearly
as low as of longer ones. Intervals from the start or the end of a run count
from each peel's own runs, so they stay as they are.

--entry is a glob for names of entries. The peels are those of the live fleet or
of --facts. Before and after count the load of all entries, as zester simulate
--expected does. An entry whose lines cannot be changed one by one is named on
stderr, and stays.

-o json:
  {"before": {"runs": …, "at": …},      the minute with the most runs
   "after": the same,
   "entries": [{"entry": …, "splay_seconds": …, "phase_seconds": …}, …],
   "by_hand": ["file:line:column", …],
   "patch": …}                          empty if no delay lowers the peak`

// spreadFlags holds the flags of spread.
type spreadFlags struct {
	forecastFlags
	entry, within string
}

func (a *app) spreadCommand() *cobra.Command {
	var f spreadFlags
	cmd := &cobra.Command{
		Use:   "spread DIR",
		Short: "Propose delays that lower the peak of the load, as a patch",
		Long:  spreadManual,
		Args:  words("directory of the config repo"),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.spread(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.entry, "entry", "", "`GLOB` for the entries to spread")
	flags.StringVar(&f.within, "within", "1h", "longest `TIME` by which a run may be delayed")
	factsFlag(flags, &f.facts, " (default: the live fleet)")
	fromFlag(flags, &f.from, "of the first minute")
	flags.StringVar(&f.length, "for", "24h", "`TIME` of which the load counts, up to 7d")
	zoneFlag(flags, &f.zone)
	return cmd
}

func (a *app) spread(ctx context.Context, dir string, f spreadFlags) error {
	if f.entry == "" {
		return usageError("zester schedule spread needs --entry GLOB, the entries to spread: --entry 'backup*'")
	}
	within, err := strictyaml.ParseDuration(f.within)
	if err != nil {
		return usageError("cannot use --within: %w", err)
	}
	if within < time.Minute {
		return usageError("cannot use --within %s: it is 1m or more", f.within)
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	fleet, err := a.fleet(ctx, f.facts)
	if err != nil {
		return err
	}
	p, err := proposeAt(ctx, dir, fleet, spread.Options{Entries: f.entry, Within: within, Forecast: o})
	if err != nil {
		return err
	}
	return a.showSpread(p)
}

// proposeAt proposes a change of the working tree of a repo.
func proposeAt(ctx context.Context, dir string, fleet *peelindex.Index,
	o spread.Options,
) (p *spread.Proposal, err error) {
	c, err := gitrepo.OpenDirectory(dir, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := snapshot(ctx, c, "")
	if err != nil {
		return nil, err
	}
	return spread.Propose(s.Tree, fleet, o)
}

// spreadAnswer is what spread prints as data.
type spreadAnswer struct {
	Before  peakMinute    `json:"before"`
	After   peakMinute    `json:"after"`
	Entries []spreadEntry `json:"entries"`
	ByHand  []string      `json:"by_hand"`
	Patch   string        `json:"patch"`
}

type peakMinute struct {
	Runs float64   `json:"runs"`
	At   time.Time `json:"at,omitzero"`
}

type spreadEntry struct {
	Entry string  `json:"entry"`
	Splay float64 `json:"splay_seconds"`
	Phase float64 `json:"phase_seconds"`
}

func peakOf(f *forecast.Forecast) (m peakMinute) {
	if len(f.Worst) > 0 {
		m = peakMinute{thousandths(f.Worst[0].Runs), f.Worst[0].At}
	}
	return m
}

func (a *app) showSpread(p *spread.Proposal) error {
	out := spreadAnswer{
		Before:  peakOf(p.Before),
		After:   peakOf(p.After),
		Entries: []spreadEntry{},
		ByHand:  append([]string{}, p.ByHand...),
		Patch:   p.Patch,
	}
	var names []string
	for _, e := range p.Entries {
		out.Entries = append(out.Entries, spreadEntry{e.Name, e.Splay.Seconds(), e.Phase.Seconds()})
		names = append(names, e.Name)
	}
	for _, at := range p.ByHand {
		fmt.Fprintf(a.errOut, "warning: %s: the entry stays as it is: its lines cannot be changed one by one\n",
			plain(at))
	}
	return a.print(out, names, func() error {
		const layout = "2006-01-02 15:04"
		if p.Patch == "" {
			_, err := fmt.Fprintf(a.out, "at most %s runs begin in a minute, %s: no delay lowers that\n",
				forecast.Number(out.Before.Runs), out.Before.At.Format(layout))
			return err
		}
		fmt.Fprintf(a.out, "before: at most %s runs begin in a minute, %s\n", forecast.Number(out.Before.Runs),
			out.Before.At.Format(layout))
		fmt.Fprintf(a.out, "after:  at most %s, %s\n\n", forecast.Number(out.After.Runs), out.After.At.Format(layout))
		patch := p.Patch
		if a.columns > 0 {
			patch = plain(patch)
		}
		_, err := fmt.Fprint(a.out, patch)
		return err
	})
}
