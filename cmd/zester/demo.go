package main

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

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
does with them, and removes it all.

With --repo it does so on a clone of the branch main of your own config repo, with the peels that --peel names. They
run their schedules on this machine.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Peels, err = demoPeels(peels, o.Repo); err != nil {
				return err
			}
			o.Out, o.Log, o.Zester = plainWriter{a.out}, slog.DiscardHandler, invocation()
			if verbose {
				o.Log = tint.NewTextHandler(a.errOut, nil)
			}
			signal.Ignore(syscall.SIGPIPE) // everything is removed also where the output goes nowhere
			if err = demo.Run(cmd.Context(), o); errors.Is(err, demo.ErrInterrupted) {
				return &failure{code: exitInterrupted, err: err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Repo, "repo", "", "show a clone of the config repo at `PATH`")
	flags.StringSliceVar(&peels, "peel", nil, "run a peel with the `ID`; may be given several times (default: web-01, web-02 and db-01)")
	flags.BoolVar(&o.Keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show the daemons' logs on stderr")
	return cmd
}

// demoPeels checks the IDs of --peel.
func demoPeels(names []string, repo string) (peels []target.PeelID, err error) {
	isWeb := func(name string) bool { return strings.HasPrefix(name, "web-") }
	if len(names) > 0 && repo == "" && !slices.ContainsFunc(names, isWeb) {
		return nil, usageError("cannot show the example without a peel web-…: its changes are for those")
	}
	wires := map[string]bool{}
	for _, name := range names {
		id, err := target.ParsePeelID(name)
		if err != nil {
			return nil, usageError("%w", err)
		}
		if wires[id.Wire()] {
			return nil, usageError("cannot run peel %s twice", id)
		}
		wires[id.Wire()] = true
		peels = append(peels, id)
	}
	return peels, nil
}

// plainWriter makes what the demo says of repos and commands harmless.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.w, plain(string(text)))
	return len(text), err
}

// invocation is how a person calls this program.
func invocation() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/zester"
	}
	return cmp.Or(os.Args[0], "zester")
}
