package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/demo"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) demoCommand() *cobra.Command {
	var o demo.Options
	var peels []string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run everything on this machine and walk through it",
		Long: `demo makes a config repo, a bus, a master and three peels in a temporary directory, walks through what an operator
does with them, and removes it all. With --repo it does so on a clone of your own config repo.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, p := range peels {
				id, err := target.ParsePeelID(p)
				if err != nil {
					return usageError("%v", err)
				}
				o.Peels = append(o.Peels, id)
			}
			o.Out, o.Log = a.out, slog.DiscardHandler
			if verbose {
				o.Log = tint.NewHandler(a.errOut, nil)
			}
			err := demo.Run(cmd.Context(), o)
			if errors.Is(err, context.Canceled) || err == nil && cmd.Context().Err() != nil && !o.Keep {
				return &failure{code: exitInterrupted, err: errors.New("interrupted, everything is removed")}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Repo, "repo", "", "show a clone of the config repo at `PATH`")
	flags.StringSliceVar(&peels, "peel", nil, "run a peel with the `ID`; may be given several times")
	flags.BoolVar(&o.Keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show the daemons' logs on stderr")
	return cmd
}
