// Command zester is the command line: it connects to a master over the bus and prints the replies. It also runs the
// demo and the swarm.
//
// Data goes to stdout, everything else to stderr. Control characters in texts of peels and repos are printed as
// escapes, so that a terminal does not act on them. `zester --help` lists the exit codes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitSomeFailed  = 2
	exitSomeSilent  = 3
	exitBoth        = 4
	exitNoTarget    = 5
	exitDenied      = 6
	exitCanceled    = 7
	exitStillRuns   = 8
	exitWaits       = 9
	exitUsage       = 64
	exitInterrupted = 130
)

const manual = `zester runs a function on the peels that a target expression selects, and prints
what they return:

  zester 'web-*' cmd.run command=uptime
  zester 'G@os:debian and not db-*' test.ping
  zester test.ping                     every peel: test.ping changes nothing
  zester '*' cmd.run command=uptime    every peel

Arguments: NAME=VALUE is text, a number, true or false; NAME='"3"' is the text
3; NAME:='[1, 2]' is YAML; NAME=@FILE is the content of the file. Any other word
is the ID argument, such as the command of cmd.run.

Output: -o table is for people and fits the terminal; wide is never cut and has
more columns; json and yaml are for programs and have the same fields; jsonl is
one JSON object a line, printed as the peels return; name is one name a line.
Data goes to stdout, everything else to stderr.

Exit codes:
    0  all succeeded
    1  it could not be done: connection, server error, invalid repo
    2  some peel failed
    3  some peel did not answer in time
    4  2 and 3
    5  the target matches no peel
    6  not allowed, or not authenticated
    7  the job was canceled, or a guard such as --expect refused it
    8  --wait ended while the job still runs
    9  it waits for a second person: zester approvals
   64  wrong usage
  130  interrupted; a job that was dispatched goes on

The variables ZESTER_URL, ZESTER_CREDS, ZESTER_CA, ZESTER_CONTEXT and
ZESTER_DATA_DIR are the defaults of the flags of these names. A credential
given by --creds or its variable is used with each bus, instead of the one of
the context or of the master on this host. States have
colours on a terminal, unless NO_COLOR is set or --color never is given.`

// A failure ends the command with an exit code. If err is nil nothing is printed, because the output shows what failed.
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
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// An app is one invocation: where it prints, and the values of the flags that commands share.
type app struct {
	out, errOut io.Writer
	output      form
	noHeaders   bool
	connect     connection
	dispatching dispatching
	typed       []string // all words and flags
	columns     int      // characters in a line of the terminal; 0: out is no terminal
	colour      colourMode
}

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	stdout := &sink{Writer: out}
	a := &app{out: stdout, errOut: errOut, output: formTable, typed: args, columns: width(out)}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if f, _ := errors.AsType[*failure](err); stdout.err != nil && (err == nil || f != nil && f.err == nil) {
		err = fmt.Errorf("cannot print all of it: %w", stdout.err)
	}
	return a.exit(cmd, err)
}

// exit prints an error with its hint, and returns the exit code.
func (a *app) exit(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = failureOf(err)
	}
	if f.err != nil {
		fmt.Fprintln(a.errOut, "zester:", plain(f.err.Error()))
	}
	switch {
	case f.hint != "":
	case f.code == exitUsage:
		f.hint = cmd.CommandPath() + " --help shows how it is used"
	case api.CodeOf(err) == api.CodeNotFound:
		f.hint = lister(cmd) + " shows all"
	}
	if f.hint != "" {
		fmt.Fprintln(a.errOut, "hint:", f.hint)
	}
	return f.code
}

// lister returns the list command of the same noun as cmd, for the hint of an error that something was not found.
func lister(cmd *cobra.Command) string {
	for _, c := range cmd.Parent().Commands() {
		if c.Name() == "list" {
			return c.CommandPath()
		}
	}
	return "zester peel list"
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "zester TARGET FUNCTION [ID] [NAME=VALUE …]",
		Short:         "Run functions on peels, and see what Git makes them run",
		Long:          manual,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          a.dispatch,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			a.connect.flags = cmd.Flags()
		},
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &failure{code: exitUsage, err: a.flagError(cmd, err), hint: a.flagHint(cmd, err)}
	})
	a.dispatching.flags(root.Flags())
	a.dispatching.choice(root.Flags())
	root.AddCommand(
		a.jobCommand(),
		a.peelCommand(),
		a.targetCommand(),
		a.scheduleCommand(),
		a.nowCommand(), a.coverageCommand(), a.whyCommand(), a.loadCommand(),
		a.initCommand(), a.lintCommand(), a.blameCommand(),
		a.planCommand(), a.simulateCommand(), a.importCommand(), a.adoptCommand(),
		a.syncCommand(), a.stateCommand(), a.alertCommand(), a.approveCommand(), a.approvalsCommand(),
		a.authCommand(),
		a.loginCommand(), a.logoutCommand(), a.contextCommand(),
		a.auditCommand(), a.consoleCommand(), a.mcpCommand(), a.guideCommand(),
		a.doctorCommand(), a.busCommand(),
		a.demoCommand(),
		a.swarmCommand(),
		a.versionCommand(),
	)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = helpArgs
		}
	}
	a.addLeaves(root)
	a.addCompletion(root)
	return root
}

// helpArgs refuses words that are not a command.
func helpArgs(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err == nil && len(rest) > 0 && found.HasSubCommands() {
		return needsCommand(found, rest)
	}
	return err
}

// flagError rewrites an error of the flag parser: it says which values the flag takes, or which flag has a similar
// name.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		hint := nearFlag(cmd, unknown)
		if !cmd.HasParent() && a.unquoted(unknown) < 0 {
			hint = cmp.Or(hintForSalt(unknown), hint)
		}
		return fmt.Errorf("%w%s", err, hint)
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	takes := map[string]string{
		"int":      "a whole number",
		"uint64":   "a whole number, 0 or more",
		"duration": "a time with its unit, such as 90s or 1h30m; the units are ms, s, m, h, d and w",
	}[bad.GetFlag().Value.Type()]
	if cause := errors.Unwrap(bad); takes == "" && cause != nil {
		takes = strings.TrimPrefix(cause.Error(), "it is ")
	}
	return fmt.Errorf("cannot use %q for --%s: it is %s", bad.GetValue(), bad.GetFlag().Name, takes)
}

// nearFlag returns a suggestion for a misspelled flag, empty if no name is similar.
func nearFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	if unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := unknown.GetSpecifiedName()
	if same := sameUse[name]; same != "" && slices.Contains(names, same) {
		return fmt.Sprintf("; did you mean %q?", "--"+same)
	}
	if name == "yes" && !slices.Contains(names, "key") {
		return "; no question is asked"
	}
	return strings.Replace(strictyaml.Suggest(name, names), `"`, `"--`, 1)
}

// sameUse names flags of some commands, and the flags of the same use that others have.
var sameUse = map[string]string{"wait": "timeout", "timeout": "wait", "since": "from", "last": "since", "yes": "key"}

// flagHint returns the hint for a shell command without quotes, whose flags are parsed as flags of zester; empty for
// other errors.
func (a *app) flagHint(cmd *cobra.Command, err error) string {
	unknown, _ := errors.AsType[*pflag.NotExistError](err)
	if unknown == nil || cmd.HasParent() || nearFlag(cmd, unknown) != "" {
		return ""
	}
	i := a.unquoted(unknown)
	if i < 0 {
		return ""
	}
	words := append(slices.Clone(a.typed[:i+1]), strings.Join(a.typed[i+1:], " "))
	return "quote the command, or zester takes its flags: " + commandLine(words)
}

// unquoted returns the index of cmd.run among the words, or -1 if the flag does not stand behind the first word of its
// command.
func (a *app) unquoted(unknown *pflag.NotExistError) int {
	i := slices.Index(a.typed, "cmd.run")
	letters := unknown.GetSpecifiedShortnames()
	at := slices.IndexFunc(a.typed, func(word string) bool {
		if isLong := strings.HasPrefix(word, "--"); isLong || letters == "" {
			return isLong && letters == "" && strings.HasPrefix(word[2:], unknown.GetSpecifiedName())
		}
		return strings.HasPrefix(word, "-") && strings.HasSuffix(word, letters)
	})
	if i >= 0 && at > i+1 {
		return i
	}
	return -1
}

// group returns a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: needsCommand}
	g.AddCommand(commands...)
	return g
}

// needsCommand runs for a group without a subcommand, or with an unknown one.
func needsCommand(cmd *cobra.Command, args []string) error {
	names := commandNames(cmd)
	if len(args) == 0 {
		return usageError("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	near := strictyaml.Suggest(args[0], names)
	if near == "" {
		near = "; there is " + strings.Join(names, ", ")
	}
	return usageError("%s has no command %q%s", cmd.CommandPath(), args[0], near)
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// words requires one argument for each name, as wrong usage.
func words(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			missing := names[len(args)]
			if missing == "target" {
				missing += ", such as web-01, or '*' for all peels"
			}
			return usageError("%s needs the %s", cmd.CommandPath(), missing)
		case len(args) > len(names):
			return usageError("%s does not take the argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}
