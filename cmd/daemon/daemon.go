// Package daemon is what zester-master and zester-peel do the same way: read a configuration from a file, the
// environment and flags, log, tell systemd how they are, and end on a signal.
//
// The order is file, then environment, then flags; the later wins. Every flag --some-name can be given as the
// variable ZESTER_SOME_NAME.
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
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/lmittmann/tint"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// ExitUsage is the exit code for wrong usage, as in sysexits.h.
const ExitUsage = 64

// A Config is a daemon's configuration: a struct that strictyaml can decode.
type Config interface {
	// Flags binds flags to the fields. Their values at that moment are the defaults.
	Flags(*flag.FlagSet)
}

// Load fills cfg, which holds the defaults, from the file that --config (or ZESTER_CONFIG) names, from the
// environment and from args. It returns [flag.ErrHelp] when help was asked for and has been printed to out.
func Load(name string, args []string, cfg Config, out io.Writer) (check bool, err error) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(out)
	path := fs.String("config", "", "read the configuration from `FILE`")
	fs.BoolVar(&check, "check", false, "check the configuration and exit")
	cfg.Flags(fs)
	fs.Usage = func() {
		fmt.Fprintf(out, "usage: %s [flags]\n\nEvery flag can be given as a variable too: --data-dir as ZESTER_DATA_DIR.\n\n", name)
		fs.PrintDefaults()
	}
	if err := scan(fs, args); err != nil {
		return false, err
	}
	if *path != "" {
		if err := readFile(*path, cfg); err != nil {
			return false, err
		}
	}
	if err := scan(fs, args); err != nil {
		return false, err
	}
	if fs.NArg() > 0 {
		return false, fmt.Errorf("cannot use the argument %q: %s takes flags only", fs.Arg(0), name)
	}
	return check, nil
}

// scan sets what the environment and then args name.
func scan(fs *flag.FlagSet, args []string) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		env := "ZESTER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(env); ok {
			if err := fs.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("cannot use %s=%q: %w", env, v, err))
			}
		}
	})
	return errors.Join(append(errs, fs.Parse(args))...)
}

func readFile(path string, cfg Config) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	node, err := strictyaml.Parse(path, data)
	if err != nil {
		return err
	}
	return strictyaml.Decode(node, cfg)
}

// Main runs a daemon and returns its exit code. ctx ends on SIGINT and SIGTERM; hangup is called on SIGHUP.
func Main(run func(context.Context) error, hangup func()) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	for {
		select {
		case <-hups:
			hangup()
		case <-ctx.Done():
			notify(daemon.SdNotifyStopping)
			return exit(<-done)
		case err := <-done:
			return exit(err)
		}
	}
}

func exit(err error) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "zester:", err)
	return 1
}

// Ready tells systemd that the daemon does its work.
func Ready() { notify(daemon.SdNotifyReady) }

// notify does nothing where systemd did not start the process.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot notify systemd", "err", err)
	}
}

// Logger writes to stderr: for people on a terminal, as JSON elsewhere.
func Logger(level slog.Leveler) *slog.Logger {
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		return slog.New(tint.NewHandler(os.Stderr, &tint.Options{Level: level, NoColor: os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// DataDir is where a daemon keeps its files unless told: /var/lib/zester for root, else the user's state directory
// (XDG Base Directory Specification).
func DataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/zester"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "zester")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "zester"
	}
	return filepath.Join(home, ".local", "state", "zester")
}
