// Package daemon has what zester-master and zester-peel share: configuration, logs, systemd notifications and signals.
// Call [Main] from the main function.
//
// The configuration is read from a file, then from the environment, then from flags; the last value wins. Every flag
// --some-name can be given as a variable: ZESTER_SOME_NAME of a master, ZESTER_PEEL_SOME_NAME of a peel. The command
// zester reads the names of masters too; a peel must not, because a shell in which somebody works with a fleet has
// them.
//
// SIGTERM and SIGINT stop the daemon in order; a second one ends the process at once. SIGHUP reads the configuration
// again and applies the log level; other changes need a restart. The exit code is 0 after a stop by a signal, 1 after
// an error of the daemon or its configuration, 64 for wrong flags, and 78 after a [FinalError].
//
// SIGUSR1 asks a peel to start the program that is now at the path of its own, in its place, when no command runs.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/lmittmann/tint"

	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Exit codes. exitUsage and exitFinal are EX_USAGE and EX_CONFIG of sysexits.h; units name exitFinal in
// RestartPreventExitStatus.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
	exitFinal  = 78
)

// A Config is a daemon's configuration: a pointer to a struct that strictyaml can decode.
type Config interface {
	// Flags binds flags to the fields. The fields' values at that moment are the defaults.
	Flags(*flag.FlagSet)
	// Level returns the lowest level that is logged.
	Level() slog.Level
	// Prepare checks the configuration as a whole and returns the daemon. It starts nothing and writes nothing.
	Prepare(log *slog.Logger) (Daemon, error)
}

// A Rereadable is a Config that knows which of its values hold after a restart alone.
type Rereadable interface {
	Config
	// Given is called with the file that was decoded into the Config, and its document.
	Given(path string, doc *strictyaml.Node) error
	// Restart returns the keys of the file that differ in a later reading and need a restart.
	Restart(later Config) []string
}

// A Daemon is ready to run.
type Daemon struct {
	Name string // for people: "master m1"
	// Flaws are errors of the configuration that do not keep the daemon from running. They are logged; --check fails.
	Flaws error
	// Run runs the daemon until ctx ends. It calls ready once, when the daemon does its work.
	Run func(ctx context.Context, ready func()) error
	// Replace, if not nil, gets the path of this program on SIGUSR1, where another one is now: Run then returns
	// ErrReplace at a moment at which that interrupts nothing.
	Replace chan<- string
}

// ErrReplace is the error of a daemon that makes room for the program that is now at the path of its own.
var ErrReplace = errors.New("another program takes the place of this one")

// A FinalError is an error that the same program would have again after each restart.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }
func (e *FinalError) Unwrap() error { return e.Err }

// Main runs the program with the arguments in os.Args and returns the exit code. The names of its environment variables
// begin with env. defaults returns a configuration with the default values. The first argument can be the name of a
// command.
func Main(name, env string, defaults func() Config, commands ...Command) int {
	p := program{
		name: name, prefix: prefix(env), args: os.Args[1:], defaults: defaults, commands: commands,
		out: os.Stdout, errOut: os.Stderr,
	}
	return p.main()
}

// A program is one invocation.
type program struct {
	name        string
	prefix      prefix
	args        []string
	defaults    func() Config
	commands    []Command
	out, errOut io.Writer
	level       slog.LevelVar
	cfg         Config // with which the daemon runs
}

func (p *program) main() int {
	for _, c := range p.commands {
		if len(p.args) > 0 && p.args[0] == c.Name {
			name := p.name + " " + c.Name
			return c.run(&program{name: name, prefix: p.prefix, args: p.args[1:], out: p.out, errOut: p.errOut})
		}
	}
	if slices.Equal(p.args, []string{"--version"}) {
		fmt.Fprintln(p.out, build.Read().Version)
		return exitOK
	}
	// An early SIGHUP must not end the process.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	replaces := make(chan os.Signal, 1)
	signal.Notify(replaces, syscall.SIGUSR1)
	defer signal.Stop(replaces)

	cfg := p.defaults()
	check, err := load(p.args, p.prefix, cfg)
	if errors.Is(err, flag.ErrHelp) {
		p.help()
		return exitOK
	}
	if err != nil {
		return p.fail(err)
	}
	p.cfg = cfg
	p.level.Set(cfg.Level())
	log := p.logger()
	d, err := cfg.Prepare(log)
	if err != nil {
		return p.fail(err)
	}
	if check && d.Flaws != nil {
		return p.fail(d.Flaws)
	}
	if check {
		fmt.Fprintf(p.out, "the configuration of %s is valid\n", d.Name)
		return exitOK
	}
	if d.Flaws != nil {
		log.Error("parts of the configuration are wrong and not used", "err", d.Flaws)
	}
	return p.run(d, hups, replaces, log)
}

// run runs d until it ends, and stops it on a signal.
func (p *program) run(d Daemon, hups, replaces <-chan os.Signal, log *slog.Logger) int {
	path := ownPath(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, func() { notify(log, daemon.SdNotifyReady) }) }()
	for {
		select {
		case <-hups:
			p.reload(log)
		case <-replaces:
			askToReplace(d, path, log)
		case err := <-done:
			if errors.Is(err, ErrReplace) {
				err = becomeNext(path, log)
			}
			return p.end(err)
		case <-ctx.Done():
			stop() // the next signal ends the process
			log.Info("stopping")
			notify(log, daemon.SdNotifyStopping)
			if err := <-done; !errors.Is(err, context.Canceled) {
				return p.end(err)
			}
			return exitOK
		}
	}
}

// reload applies the settings that can change without a restart.
func (p *program) reload(log *slog.Logger) {
	again := p.defaults()
	if _, err := load(p.args, p.prefix, again); err != nil {
		log.Error("configuration not read again, the earlier one stays in force", "err", err)
		return
	}
	p.level.Set(again.Level())
	if c, ok := p.cfg.(Rereadable); ok {
		if keys := c.Restart(again); len(keys) > 0 {
			log.Warn("configuration read again: only the log level is applied, and these keys need a restart",
				"log_level", again.Level(), "keys", strings.Join(keys, ", "))
			notify(log, "STATUS=restart needed: the file has changed in "+strings.Join(keys, ", "))
			return
		}
		notify(log, "STATUS=")
	}
	log.Info("configuration read again: the log level is applied, other changes need a restart",
		"log_level", again.Level())
}

func (p *program) end(err error) int {
	if err == nil {
		return exitOK
	}
	return p.fail(err)
}

func (p *program) fail(err error) int {
	err = dial.Explain(err, "")
	fmt.Fprintln(p.errOut, "zester:", err)
	if e, ok := errors.AsType[*ValueError](err); ok {
		fmt.Fprintf(p.errOut, "hint: the value comes from %s; --%s sets another\n", p.source(e.Flag), e.Flag)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(p.errOut, "hint: %s --help shows the flags\n", p.name)
		return exitUsage
	}
	if _, ok := errors.AsType[*FinalError](err); ok {
		return exitFinal
	}
	if bus, ok := errors.AsType[*dial.BusError](err); ok && bus.Hint != "" {
		fmt.Fprintln(p.errOut, "hint:", bus.Hint)
	}
	return exitFailed
}

// notify sends a state to systemd. It does nothing if systemd did not start the process.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot notify systemd", "state", state, "err", err)
	}
}

// logger returns a logger to standard error: as text on a terminal, else as JSON.
func (p *program) logger() *slog.Logger {
	if f, ok := p.errOut.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			return slog.New(tint.NewTextHandler(f, &tint.Options{
				Level:       &p.level,
				ReplaceAttr: explain,
				NoColor:     os.Getenv("NO_COLOR") != "",
			}))
		}
	}
	return slog.New(slog.NewJSONHandler(p.errOut, &slog.HandlerOptions{Level: &p.level, ReplaceAttr: explain}))
}

// explain rewrites logged errors of the bus in plain words.
func explain(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.AnyValue(dial.Explain(err, ""))
	}
	return a
}

// DataDir returns the default data directory: /var/lib/zester for root, else zester in the user's state directory (XDG
// Base Directory Specification).
func DataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/zester"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "zester")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "zester"
	}
	return filepath.Join(home, ".local", "state", "zester")
}
