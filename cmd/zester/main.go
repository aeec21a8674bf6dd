// Command zester is what people type: it asks masters, prints answers, and runs the demo.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as README documents them.
const (
	exitOK          = 0
	exitFailed      = 1 // it could not be done
	exitSomeFailed  = 2 // some peel failed
	exitSomeSilent  = 3 // some peel did not answer in time
	exitBoth        = 4
	exitNoTarget    = 5
	exitDenied      = 6
	exitCanceled    = 7
	exitStillRuns   = 8
	exitUsage       = 64
	exitInterrupted = 130
)

// A failure ends the command with a code. A failure without an error prints nothing: the output has said it all.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

func usageError(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), hint: "zester --help shows the commands"}
}

// An app is one invocation: where it writes, and what the flags that all commands know say.
type app struct {
	out, errOut io.Writer
	output      string // -o
	noHeaders   bool
	connect     connection
	dispatching dispatching
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	a := &app{out: out, errOut: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	return a.exit(root.ExecuteContext(ctx))
}

// exit prints an error as people see it and returns its code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitCode(err), err: err, hint: hint(err)}
	}
	if f.err != nil {
		fmt.Fprintln(a.errOut, "zester:", plain(f.err.Error()))
	}
	if f.hint != "" {
		fmt.Fprintln(a.errOut, "hint:", f.hint)
	}
	return f.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "zester '<target>' <module.function> [id] [key=value …]",
		Short: "Run functions on peels, and see what Git makes them run",
		Long: `zester runs a function on the peels that a target expression selects, and waits for what they return:

  zester 'web-*' cmd.run command=uptime
  zester 'G@os:debian and not db-*' test.ping
  zester test.ping                            every peel

Arguments: key=value is text, a number, true or false; key='"3"' is the text 3; key:='[1, 2]' is YAML; key=@FILE is
what the file holds. A word without = is the job's ID argument.`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          a.dispatch,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &failure{code: exitUsage, err: err} })
	flags := root.PersistentFlags()
	flags.StringVarP(&a.output, "output", "o", "table", "print as `FORM`: table, json, yaml or name")
	flags.BoolVar(&a.noHeaders, "no-headers", false, "print tables without their first line")
	a.connect.flags(flags)
	a.dispatchFlags(root.Flags())
	root.AddCommand(a.jobCommand(), a.peelCommand(), a.syncCommand(), a.targetCommand(), a.authCommand(),
		a.demoCommand(), a.versionCommand())
	return root
}
