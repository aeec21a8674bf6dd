package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

func (a *app) busCommand() *cobra.Command {
	return group("bus", "Show and change what the bus keeps", a.busShowCommand(), a.busSetCommand())
}

func (a *app) busShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the number of copies, and the retention of the audit log",
		Args:  words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			kept, err := api.BusShow.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			return a.show(kept, keptTable(kept))
		}),
	}
}

func keptTable(k *bucket.Kept) table {
	t := table{header: []string{"WHAT", "VALUE"}}
	t.add("copies of each stream", strconv.Itoa(k.Replicas))
	t.add("audit log kept for", duration(k.Audit))
	return t
}

func (a *app) busSetCommand() *cobra.Command {
	var wanted bucket.Kept
	var yes bool
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change the number of copies, or the retention of the audit log",
		Long: `set changes what the bus keeps, for all masters. The first master on a new bus
decides it; later ones that are started with other numbers end.

Fewer copies are removed at once, as are entries of the audit log that are older
than a shorter retention. So set asks first; without a terminal it needs --yes.`,
		Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			if wanted == (bucket.Kept{}) {
				return usageError("zester bus set needs --replicas or --audit-retention")
			}
			now, err := api.BusShow.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			if err := a.confirmKept(*now, wanted.Or(*now), yes); err != nil {
				return err
			}
			kept, err := api.BusSet.Ask(cmd.Context(), client, wanted)
			if err != nil {
				return err
			}
			return a.show(kept, keptTable(kept))
		}),
	}
	f := cmd.Flags()
	f.IntVar(&wanted.Replicas, "replicas", 0, "keep `N` copies of every bucket and stream")
	durationVar(f, &wanted.Audit, "audit-retention", 0, "keep the audit log for `TIME`")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// confirmKept asks before copies or entries of the audit log are removed.
func (a *app) confirmKept(now, wanted bucket.Kept, yes bool) error {
	lost := ""
	switch {
	case wanted.Replicas < now.Replicas:
		lost = fmt.Sprintf("keep %d copies of each stream in place of %d", wanted.Replicas, now.Replicas)
	case wanted.Audit < now.Audit:
		lost = fmt.Sprintf("remove entries of the audit log after %s in place of %s", duration(wanted.Audit),
			duration(now.Audit))
	}
	if lost == "" || yes {
		return nil
	}
	no := &failure{code: exitCanceled, err: errors.New("nothing was changed"), hint: "--yes skips the question"}
	if !a.canAsk() {
		no.err = fmt.Errorf("nothing was changed: to %s needs a yes", lost)
		return no
	}
	return a.ask(lost+"?", no)
}
