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
		Long: `demo starts a bus, a master and three peels with a config repo in a temporary
directory, shows the work of an operator step by step, and removes everything at
the end.

With --repo it uses a clone of the branch main of your own config repo, with the
peels of --peel. They run their schedules on this machine.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Peels, err = demoPeels(peels, o.Repo); err != nil {
				return err
			}
			o.Out, o.Log, o.Zester = plainWriter{a.out}, slog.DiscardHandler, invocation()
			if verbose {
				o.Log = tint.NewTextHandler(a.errOut, nil)
			}
			signal.Ignore(syscall.SIGPIPE) // remove everything even if the output is closed
			if err = demo.Run(cmd.Context(), o); errors.Is(err, demo.ErrInterrupted) {
				return &failure{code: exitInterrupted, err: err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Repo, "repo", "", "use a clone of the config repo at `PATH`")
	flags.StringSliceVar(&peels, "peel", nil,
		"run a peel with the `ID`; may be given several times (default: web-01, web-02 and db-01)")
	flags.BoolVar(&o.Keep, "keep", false, "leave everything running at the end, until Ctrl-C")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show the daemons' logs on stderr")
	return cmd
}

// demoPeels checks the IDs of --peel.
func demoPeels(names []string, repo string) (peels []target.PeelID, err error) {
	isWeb := func(name string) bool { return strings.HasPrefix(name, "web-") }
	if len(names) > 0 && repo == "" && !slices.ContainsFunc(names, isWeb) {
		return nil, usageError(
			"cannot run the demo with --peel %s: its changes are for web-*, so one peel needs such an ID",
			strings.Join(names, ","),
		)
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

// plainWriter escapes control characters in the output of the demo.
type plainWriter struct{ w io.Writer }

func (p plainWriter) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.w, plain(string(text)))
	return len(text), err
}

// invocation returns the command with which this program was started.
func invocation() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/zester"
	}
	return cmp.Or(os.Args[0], "zester")
}
