package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Config is peel.yaml. Every field but facts and schedule can be given as a flag or a variable too.
type Config struct {
	ID       string           `yaml:"id"`                // the peel's name; empty: the host's name
	DataDir  string           `yaml:"data_dir"`          // where the peel keeps its files
	URL      string           `yaml:"url"`               // of the bus; several are separated by commas
	Creds    string           `yaml:"creds"`             // file with the peel's credential, read at every connect
	CA       string           `yaml:"ca"`                // file with the certificates that sign the bus's; empty: the system's
	Timezone string           `yaml:"schedule_timezone"` // IANA zone for entries that name none; empty: the host's
	Workers  int              `yaml:"workers"`           // how many requests that change the host run at once
	LogLevel slog.Level       `yaml:"log_level"`         // debug, info, warn or error; read again on SIGHUP
	Facts    map[string]any   `yaml:"facts"`             // beside the facts of the host, over which they win
	Schedule *strictyaml.Node `yaml:"schedule"`          // entries that run unless settings name the same
}

func defaults() *Config {
	return &Config{DataDir: daemon.DataDir(), URL: nats.DefaultURL, Workers: 1}
}

// Flags binds the flags of zester-peel.
func (c *Config) Flags(fs *flag.FlagSet) {
	fs.StringVar(&c.ID, "id", c.ID, "the peel's `NAME` (default: the host's name)")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "keep the peel's files in `DIR`")
	fs.StringVar(&c.URL, "url", c.URL, "connect to the bus at `URL`; several are separated by commas")
	fs.StringVar(&c.Creds, "creds", c.Creds, "read the peel's credential from `FILE`")
	fs.StringVar(&c.CA, "ca", c.CA, "check the bus against the certificates in `FILE`")
	fs.StringVar(&c.Timezone, "schedule-timezone", c.Timezone, "`ZONE` of schedule entries that name none (default: the host's)")
	fs.IntVar(&c.Workers, "workers", c.Workers, "run up to `N` requests that change the host at once")
	fs.TextVar(&c.LogLevel, "log-level", c.LogLevel, "log from `LEVEL` on: debug, info, warn, error")
}

// options checks the configuration as a whole.
func (c *Config) options(log *slog.Logger) (o peel.Options, err error) {
	if c.ID == "" {
		if c.ID, err = hostID(); err != nil {
			return o, err
		}
	}
	o = peel.Options{DataDir: c.DataDir, URL: c.URL, Facts: c.Facts, Workers: c.Workers, Log: log}
	if o.ID, err = target.ParsePeelID(c.ID); err != nil {
		return o, err
	}
	if c.Workers < 1 {
		return o, fmt.Errorf("cannot run %d workers: at least 1 is needed", c.Workers)
	}
	if c.Timezone != "" {
		if o.Zone, err = time.LoadLocation(c.Timezone); err != nil {
			return o, fmt.Errorf("cannot use schedule_timezone %q: %w", c.Timezone, err)
		}
	}
	if c.Schedule != nil {
		if o.Schedule, err = schedule.ParseSet(c.Schedule); err != nil {
			return o, err
		}
	}
	if c.Creds != "" {
		o.Connect = append(o.Connect, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		o.Connect = append(o.Connect, nats.RootCAs(c.CA))
	}
	return o, nil
}

// hostID is the host's name, unless that names no host in particular.
func hostID() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot learn the host's name, set id: %w", err)
	}
	switch name {
	case "localhost", "localhost.localdomain", "ip6-localhost", "(none)", "":
		return "", fmt.Errorf("cannot use the host's name %q as the peel's: set id", name)
	}
	return name, nil
}
