package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/enroll"
	"github.com/seed-c01c3da5/zester/peel/prompt"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Config is peel.yaml. All fields but prompt, facts and schedule can also be set by a flag or a variable.
type Config struct {
	ID      string `yaml:"id"`       // the peel's name; empty: the host's name
	DataDir string `yaml:"data_dir"` // where the peel keeps its files
	URL     string `yaml:"url"`      // of the bus; several are separated by commas
	// file with the peel's credential, which is read at every connect
	Creds string `yaml:"creds"`
	// [TOKEN@]HOST:PORT of a master that issues the credential; empty: creds is used
	Join string `yaml:"join"`
	// file with the CA certificates for the bus; empty: the ones that came with the credential, else the system's
	CA       string `yaml:"ca"`
	Timezone string `yaml:"schedule_timezone"` // IANA zone for entries that name none; empty: the host's
	// number of requests that change the host and run at the same time
	Workers  int        `yaml:"workers"`
	LogLevel slog.Level `yaml:"log_level"` // debug, info, warn or error; read again on SIGHUP
	// the model that prompt.run asks; without a url the peel does not have that function
	Prompt   prompt.Config    `yaml:"prompt"`
	Facts    map[string]any   `yaml:"facts"`    // added to the facts of the host; they replace facts with the same name
	Schedule *strictyaml.Node `yaml:"schedule"` // entries that run unless the settings have an entry with the same name
}

func defaults() daemon.Config {
	return &Config{
		DataDir: dataDir(daemon.DataDir()),
		URL:     "tls://127.0.0.1:4222",
		Workers: 1,
		Prompt:  prompt.Default(),
	}
}

// dataDir returns the default data directory: the master's default with the suffix "-peel". If the master's default has
// the files of a peel and none of a master, as with earlier versions, the peel keeps it.
func dataDir(master string) string {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(master, name))
		return err == nil
	}
	if has("fence") && !has("auth") && !has("bus") {
		return master
	}
	return master + "-peel"
}

// Level returns the least level that is logged.
func (c *Config) Level() slog.Level { return c.LogLevel }

// Flags binds the flags of zester-peel.
func (c *Config) Flags(set *flag.FlagSet) {
	set.StringVar(&c.ID, "id", c.ID, "the peel's `NAME` (default: the host's name)")
	set.StringVar(&c.DataDir, "data-dir", c.DataDir, "keep the peel's files in `DIR`")
	set.StringVar(&c.URL, "url", c.URL, "connect to the bus at `URL`; several are separated by commas")
	set.StringVar(&c.Creds, "creds", c.Creds, "read the peel's credential from `FILE`")
	set.StringVar(&c.Join, "join", c.Join,
		"get the credential from the master at `[TOKEN@]HOST:PORT`, and renew it there")
	set.StringVar(&c.CA, "ca", c.CA, "check the bus with the CA certificates in `FILE`")
	set.StringVar(&c.Timezone, "schedule-timezone", c.Timezone,
		"`ZONE` of schedule entries that name none (default: the host's)")
	set.IntVar(&c.Workers, "workers", c.Workers, "run up to `N` requests that change the host at the same time")
	set.TextVar(&c.LogLevel, "log-level", c.LogLevel, "log from `LEVEL` on: debug, info, warn, error")
}

// Prepare checks the configuration as a whole. Wrong entries of the schedule are paused and returned as Flaws; the
// others run.
func (c *Config) Prepare(log *slog.Logger) (d daemon.Daemon, err error) {
	o, err := c.options()
	if err != nil {
		return d, err
	}
	o.Log = log
	if c.Schedule != nil {
		o.Schedule, d.Flaws = entries(c.Schedule)
	}
	if o.Prompt != nil { // without its key the rest works
		d.Flaws = errors.Join(d.Flaws, o.Prompt.CheckKey())
	}
	replace := make(chan string, 1)
	o.Replace, d.Replace = replace, replace
	d.Name = "peel " + string(o.ID)
	d.Run = func(ctx context.Context, ready func()) error {
		p, err := peel.New(o)
		if errors.Is(err, peel.ErrMasterDir) {
			return &daemon.ValueError{Flag: "data-dir", Err: err}
		}
		if err != nil {
			return removed(err)
		}
		g, ctx := errgroup.WithContext(ctx)
		if c.Join != "" {
			j, err := enroll.New(enroll.Options{ID: o.ID, DataDir: c.DataDir, Join: c.Join, CA: c.CA, Log: log})
			if err != nil {
				return err
			}
			g.Go(func() error { return j.Run(ctx, func() { log.Info("credential received", "peel", o.ID) }) })
		}
		ready()
		g.Go(func() error { return p.Run(ctx) })
		switch err := g.Wait(); {
		case errors.Is(err, peel.ErrReplaced):
			return daemon.ErrReplace
		case isRemoval(err):
			return removed(errors.Join(err, peel.DeleteData(c.DataDir)))
		default:
			return err
		}
	}
	return d, nil
}

// removed makes the error of a host that was removed from the fleet one after which the unit does not start the peel
// again.
func removed(err error) error {
	if isRemoval(err) {
		return &daemon.FinalError{Err: err}
	}
	return err
}

func isRemoval(err error) bool {
	_, is := errors.AsType[*peel.RemovedError](err)
	return is
}

func (c *Config) options() (o peel.Options, err error) {
	if c.Join != "" {
		if c.Creds != "" {
			err := errors.New("cannot use creds and join: with join the credential is in the data directory")
			return o, &daemon.ValueError{Flag: "creds", Err: err}
		}
		c.Creds = filepath.Join(c.DataDir, enroll.CredsFile)
	}
	o = peel.Options{DataDir: c.DataDir, URL: c.URL, Facts: c.Facts, Workers: c.Workers, Boot: scheduler.Boot}
	if o.ID, err = c.name(); err != nil {
		return o, err
	}
	if c.Workers < 1 {
		return o, fmt.Errorf("cannot run %d workers: at least 1 is needed", c.Workers)
	}
	if c.Timezone != "" {
		if o.Zone, err = zoneinfo.Load(c.Timezone); err != nil {
			return o, fmt.Errorf("cannot use schedule_timezone %q: %w", c.Timezone, err)
		}
	}
	if c.Prompt.URL != "" {
		if err := c.Prompt.Check(); err != nil {
			return o, err
		}
		o.Prompt = &c.Prompt
	}
	if c.Creds != "" {
		o.Connect, o.Own = append(o.Connect, enroll.Credential(c.Creds)), append(o.Own, c.Creds)
	}
	switch {
	case c.CA != "":
		o.CA = c.CA
	case enroll.Pins(c.Join):
		o.CA = filepath.Join(c.DataDir, enroll.CAFile) // exists after the first reply of a master
	default:
		o.CA = c.Creds
	}
	return o, nil
}

// entries reads a schedule. Wrong entries are in the set as well, marked as invalid; the error is about them.
func entries(n *strictyaml.Node) (schedule.Set, error) {
	set, err := schedule.ParseSet(n)
	if err != nil {
		schedule.KeepInvalid(set, n, err)
	}
	return set, err
}

// genericNames are names that many hosts have.
var genericNames = []string{
	"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "(none)", "",
}

// name returns the peel's ID. If there is a credential, it must have the same name, because the bus refuses messages
// under another one.
func (c *Config) name() (target.PeelID, error) {
	name := c.ID
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("cannot read the host name, set id: %w", err)
		}
	}
	if slices.Contains(genericNames, name) {
		return "", fmt.Errorf("cannot use %q as the peel's name, because many hosts have it: set id", name)
	}
	id, err := target.ParsePeelID(name)
	if err != nil || c.Creds == "" {
		return id, err
	}
	held, err := daemon.CredentialName(c.Creds)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil // the peel waits for it
	}
	if err == nil && held != id.Wire() {
		err = fmt.Errorf("cannot run as peel %q with the credential of %q", id, held)
	}
	return id, err
}
