package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

// Config is master.yaml. Every field can be given as a flag or a variable too.
type Config struct {
	ID       string        `yaml:"id"`        // unique among the masters; empty: the host's name
	DataDir  string        `yaml:"data_dir"`  // keys, the embedded server's store, the copy of the repo
	Repo     string        `yaml:"repo"`      // URL or path of the config repo; empty: this master dispatches only
	Branch   string        `yaml:"branch"`    // what the fleet follows
	Path     string        `yaml:"path"`      // the directory in the repo that counts as its root
	Poll     time.Duration `yaml:"poll"`      // how often the branch is asked for, ± 10 %
	Listen   string        `yaml:"listen"`    // HOST:PORT of the embedded server; port 0: the kernel chooses
	NATS     string        `yaml:"nats"`      // URL of an external server to use in place of the embedded one
	Creds    string        `yaml:"creds"`     // file with this master's credential for the external server
	CA       string        `yaml:"ca"`        // file with the certificates that sign the external server's; empty: the system's
	Replicas int           `yaml:"replicas"`  // of every bucket and stream on an external cluster
	LogLevel slog.Level    `yaml:"log_level"` // debug, info, warn or error; read again on SIGHUP
}

func defaults() *Config {
	return &Config{DataDir: daemon.DataDir(), Branch: "main", Path: ".", Poll: 30 * time.Second, Listen: "127.0.0.1:4222", Replicas: 1}
}

// Flags binds the flags of zester-master.
func (c *Config) Flags(fs *flag.FlagSet) {
	fs.StringVar(&c.ID, "id", c.ID, "the master's `NAME`, unique among masters (default: the host's name)")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "keep keys, buckets and the copy of the repo in `DIR`")
	fs.StringVar(&c.Repo, "repo", c.Repo, "bring the config repo at `URL` (or path) to the fleet")
	fs.StringVar(&c.Branch, "branch", c.Branch, "follow the branch `NAME`")
	fs.StringVar(&c.Path, "path", c.Path, "the `DIR` in the repo that counts as its root")
	fs.DurationVar(&c.Poll, "poll", c.Poll, "ask for the branch this often, ± 10 %")
	fs.StringVar(&c.Listen, "listen", c.Listen, "`HOST:PORT` of the embedded server; port 0: the kernel chooses")
	fs.StringVar(&c.NATS, "nats", c.NATS, "use the server at `URL` in place of the embedded one")
	fs.StringVar(&c.Creds, "creds", c.Creds, "read the credential for the external server from `FILE`")
	fs.StringVar(&c.CA, "ca", c.CA, "check the external server against the certificates in `FILE`")
	fs.IntVar(&c.Replicas, "replicas", c.Replicas, "keep `N` copies of every bucket and stream on an external cluster")
	fs.TextVar(&c.LogLevel, "log-level", c.LogLevel, "log from `LEVEL` on: debug, info, warn, error")
}

// options checks the configuration as a whole.
func (c *Config) options(log *slog.Logger) (o master.Options, err error) {
	if c.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return o, fmt.Errorf("cannot learn the host's name, set id: %w", err)
		}
		c.ID = strings.ReplaceAll(host, ".", "_")
	}
	o = master.Options{ID: c.ID, DataDir: c.DataDir, NATS: c.NATS, Replicas: c.Replicas, Log: log, Ready: func(master.Info) { daemon.Ready() }}
	if err := c.bus(&o); err != nil {
		return o, err
	}
	if c.Repo == "" {
		return o, nil
	}
	r, err := reconciler.New(reconciler.Options{
		Repo:  gitrepo.Options{URL: c.Repo, Branch: c.Branch, Path: c.Path, Dir: filepath.Join(c.DataDir, "repo"), Log: log},
		Owner: c.ID, Poll: c.Poll, Log: log,
	})
	if err == nil {
		o.Services = append(o.Services, r.Run)
	}
	return o, err
}

// bus fills in how the master reaches its bus.
func (c *Config) bus(o *master.Options) error {
	if c.NATS != "" {
		if c.Creds == "" {
			return errors.New("cannot use an external server without creds: the file with this master's credential")
		}
		o.Connect = append(o.Connect, nats.UserCredentials(c.Creds))
		if c.CA != "" {
			o.Connect = append(o.Connect, nats.RootCAs(c.CA))
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: want HOST:PORT: %w", c.Listen, err)
	}
	o.Host = host
	if o.Port, err = strconv.Atoi(port); err != nil || o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("cannot listen on %q: %q is not a port", c.Listen, port)
	}
	return nil
}
