package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
)

// A Command is something that the program of a daemon does besides running: it ends by itself, and has the
// configuration of the daemon and one argument.
type Command struct {
	Name     string // the first argument of the program: backup
	Argument string // the name of the argument: FILE
	About    string // for --help
	Config   Config
	Flags    func(*flag.FlagSet) // binds the flags of the command; those of the daemon are bound already
	Run      func(ctx context.Context, argument string, out io.Writer, log *slog.Logger) error
}

// run runs the command and returns the exit code, as [Main] does. SIGINT, SIGTERM and
// SIGHUP, of a terminal that goes away, end it in order.
func (c Command) run(p *program) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	p.defaults = func() Config { return c.Config }
	argument, err := c.load(p)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return p.fail(err)
	}
	p.level.Set(max(c.Config.Level(), slog.LevelWarn))
	return p.end(c.Run(ctx, argument, p.out, p.logger()))
}

// load reads the flags and the configuration, and returns the argument.
func (c Command) load(p *program) (string, error) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	path := fs.String("config", "", "read the configuration of the daemon from `FILE`")
	c.Config.Flags(fs)
	c.Flags(fs)
	arguments, rest, err := apart(fs, p.args)
	if errors.Is(err, flag.ErrHelp) {
		c.help(p)
		return "", err
	}
	if err != nil {
		return "", &usageError{err}
	}
	if len(arguments) != 1 {
		err := fmt.Errorf("cannot use %d arguments: %s needs one, %s", len(arguments), p.name, c.Argument)
		return "", &usageError{err}
	}
	if err := scan(fs, p.prefix, rest); err != nil {
		return "", err
	}
	return arguments[0], addFile(fs, *path, p.prefix, rest, c.Config)
}

// apart parses flags that stand before and behind arguments, and returns the arguments and the rest.
func apart(fs *flag.FlagSet, args []string) (arguments, rest []string, err error) {
	for len(args) > 0 {
		given := args
		if err := fs.Parse(given); err != nil {
			return nil, nil, err
		}
		args = fs.Args()
		rest = append(rest, given[:len(given)-len(args)]...)
		if len(args) > 0 {
			arguments = append(arguments, args[0])
			args = args[1:]
		}
	}
	return arguments, rest, nil
}

func (c Command) help(p *program) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(p.out)
	c.Flags(fs)
	fmt.Fprintf(p.out, "usage: %s %s [flags]\n\n%s\n", p.name, c.Argument, c.About)
	fmt.Fprint(p.out, "It takes --config FILE and the other flags of the daemon too.\n\n")
	fs.PrintDefaults()
}
