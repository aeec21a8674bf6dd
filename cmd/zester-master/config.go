package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/otel"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Config is master.yaml. Fields that are not lists can also be set by a flag or a variable.
type Config struct {
	ID      string        `yaml:"id"`       // unique among the masters; empty: the name in creds, else the host name
	DataDir string        `yaml:"data_dir"` // keys, the embedded server's store, the copy of the repo
	Repo    string        `yaml:"repo"`     // URL or path of the config repo; empty: this master dispatches only
	Branch  string        `yaml:"branch"`   // the branch of the repo that the fleet follows
	Path    string        `yaml:"path"`     // the directory in the repo that counts as its root
	Poll    time.Duration `yaml:"poll"`     // the time between two reads of the branch, ± 10 %
	Bus
	Telemetry
	Web
	Git       Git       `yaml:"git"`       // access to the repo
	Write     Write     `yaml:"write"`     // commits that the master makes on request
	Schedules Schedules `yaml:"schedules"` // made by requests
	Verify    Verify    `yaml:"verify"`    // the keys that must have signed commits
	History   string    `yaml:"history"`   // forbid, approve or allow a rewritten branch
	Hooks     []Hook    `yaml:"hooks"`     // webhooks by which forges announce pushes
	Messages
	// how long the audit log of a new bus is kept; 0: as the bus has, 400d on a new one
	Audit time.Duration `yaml:"audit_retention"`
	// AckWindow is how long a target may be silent before its request is sent again, once; 0: it is not sent again.
	AckWindow time.Duration `yaml:"ack_window"`
	Custody
	file api.ConfigFile // that was read
}

// Given notes the file that the configuration was read from.
func (c *Config) Given(path string, doc *strictyaml.Node) (err error) {
	c.file, err = api.ConfigFileOf(path, doc)
	return err
}

// Restart returns the keys whose values in a later reading of the file hold after a restart alone.
func (c *Config) Restart(later daemon.Config) []string { return c.file.Restart(later.(*Config).file) }

// Custody is the part of master.yaml about keys that are not in the data directory.
type Custody struct {
	Keys Keys `yaml:"keys"` // of the bus
	// Identities are files with age identities, which decrypt the secrets of the repo.
	Identities []string `yaml:"identities"`
}

// Keys says who signs with keys of the bus that are not in the data directory.
type Keys struct {
	Signer struct {
		Command []string `yaml:"command"` // program and arguments; empty: there is none
	} `yaml:"signer"` // a program that signs with them
}

// signer returns the program, nil if there is none.
func (k *Keys) signer() *keystore.Signer {
	if len(k.Signer.Command) == 0 {
		return nil
	}
	return &keystore.Signer{Command: k.Signer.Command}
}

// Bus is the part of master.yaml about the embedded server, or the external one.
type Bus struct {
	Listen string `yaml:"listen"` // HOST:PORT of the embedded server; port 0: the kernel chooses
	Names  string `yaml:"names"`  // names by which other hosts reach the embedded server, separated by commas
	NATS   string `yaml:"nats"`   // URL of an external server to use in place of the embedded one
	Creds  string `yaml:"creds"`  // file with this master's credential for the external server
	// file with the CA certificates for the external server; empty: the ones in creds, else the system's
	CA       string `yaml:"ca"`
	Replicas int    `yaml:"replicas"` // of every bucket and stream on a new cluster; 0: as the bus has, 1 on a new one
}

// Web is the part of master.yaml about what is served over HTTP.
type Web struct {
	REST    REST    `yaml:"rest"`    // the REST API
	Console Console `yaml:"console"` // pages for browsers
	MCP     MCP     `yaml:"mcp"`     // assistants
}

// MCP is the part of master.yaml about assistants. Its flags are --mcp-serve and so on.
type MCP struct {
	Serve bool   `yaml:"serve"` // tools for assistants at /mcp of the REST address
	Allow string `yaml:"allow"` // dispatch, or empty: the tools change nothing
	Limit int    `yaml:"limit"` // hold actions on more peels in an hour; 0: mcp.DefaultLimit
}

// REST is the part of master.yaml about HTTP. Its flags are --rest-listen and so on.
type REST struct {
	Listen string `yaml:"listen"` // HOST:PORT, or off; empty: on loopback, at a port that the kernel chooses
	Cert   string `yaml:"cert"`   // file with the certificate; empty: one that the master's own CA signs
	Key    string `yaml:"key"`    // file with its key
}

// Telemetry is the part of master.yaml about metrics, spans and the log.
type Telemetry struct {
	LogLevel slog.Level `yaml:"log_level"`        // debug, info, warn or error; read again on SIGHUP
	PerPeel  bool       `yaml:"metrics_per_peel"` // metrics of entries have a label for each peel
	OTel     OTel       `yaml:"otel"`             // a collector of OpenTelemetry
}

// OTel is the part of master.yaml about OpenTelemetry. Its flags are --otel-url and --otel-headers-file.
type OTel struct {
	URL         string `yaml:"url"`          // of traces; empty: no spans are sent
	HeadersFile string `yaml:"headers_file"` // file with headers for the collector, such as a credential; empty: none
}

// minAckWindow is twice the time that a peel may take to acknowledge a request.
const minAckWindow = time.Second

func defaults() daemon.Config {
	return &Config{
		DataDir: daemon.DataDir(), Branch: "main", Path: ".", History: string(reconciler.HistoryApprove),
		Poll: 30 * time.Second, Bus: Bus{Listen: "127.0.0.1:4222"}, Web: Web{Console: Console{Serve: true}},
		AckWindow: master.DefaultAckWindow,
	}
}

// Level returns the least level that is logged.
func (c *Config) Level() slog.Level { return c.LogLevel }

// Flags binds the flags of zester-master.
func (c *Config) Flags(fs *flag.FlagSet) {
	fs.StringVar(
		&c.ID, "id", c.ID,
		"the master's `NAME`, unique among masters (default: the name in the credential, else the host name)",
	)
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "keep keys, buckets and the copy of the repo in `DIR`")
	fs.StringVar(&c.Repo, "repo", c.Repo, "apply the config repo at `URL` (or path) to the fleet")
	fs.StringVar(&c.Branch, "branch", c.Branch, "follow the branch `NAME`")
	fs.StringVar(&c.Path, "path", c.Path, "the `DIR` in the repo that counts as its root")
	daemon.DurationVar(fs, &c.Poll, "poll", "read the branch every `TIME`, ± 10 %")
	fs.StringVar(&c.Listen, "listen", c.Listen, "`HOST:PORT` of the embedded server; port 0: the kernel chooses")
	fs.StringVar(&c.Names, "names", c.Names,
		"`NAMES` by which other hosts reach the embedded server, separated by commas")
	fs.StringVar(&c.NATS, "nats", c.NATS,
		"use the external server at `URL`; two masters need one to take over from each other")
	fs.StringVar(&c.Creds, "creds", c.Creds, "read the credential for the external server from `FILE`")
	fs.StringVar(&c.CA, "ca", c.CA, "check the external server with the CA certificates in `FILE`")
	fs.IntVar(&c.Replicas, "replicas", c.Replicas,
		"keep `N` copies of every bucket and stream on a new cluster; "+
			"on another bus a master that is given another number ends")
	fs.StringVar(&c.Git.User, "git-user", c.Git.User, "reach the repo over https as the user `NAME`")
	fs.StringVar(&c.Git.Password, "git-password", c.Git.Password,
		"reach the repo over https with the password or token in `FILE`")
	fs.StringVar(&c.Git.Token, "git-token", c.Git.Token, "reach the repo over https with the bearer token in `FILE`")
	fs.StringVar(&c.Git.CA, "git-ca", c.Git.CA, "also trust the CA certificates in `FILE` for the repo's server")
	fs.StringVar(&c.Git.Proxy, "git-proxy", c.Git.Proxy, "reach the repo through the proxy at `URL`")
	fs.StringVar(&c.Git.SSHKey, "git-ssh-key", c.Git.SSHKey, "reach the repo over ssh with the private key in `FILE`")
	fs.StringVar(&c.Git.KnownHosts, "git-known-hosts", c.Git.KnownHosts, "trust the ssh hosts in `FILE`")
	fs.StringVar(&c.Verify.SSH, "verify-ssh", c.Verify.SSH,
		"accept only commits that are signed by the allowed signers in `FILE`")
	fs.StringVar(&c.Verify.OpenPGP, "verify-openpgp", c.Verify.OpenPGP,
		"accept only commits that are signed with the OpenPGP keys in `FILE`")
	fs.StringVar(&c.Write.Mode, "write-mode", c.Write.Mode,
		"make the commits for schedules of the API in `MODE`: direct or propose")
	fs.StringVar(&c.Write.MailDomain, "write-mail-domain", c.Write.MailDomain,
		"write authors of these commits as NAME@`DOMAIN`")
	fs.StringVar(&c.Write.SigningKey, "write-signing-key", c.Write.SigningKey,
		"sign these commits with the SSH key in `FILE`")
	fs.StringVar(&c.Write.User, "write-user", c.Write.User, "push over https as the user `NAME`")
	fs.StringVar(&c.Write.Password, "write-password", c.Write.Password,
		"push over https with the password or token in `FILE`")
	fs.StringVar(&c.Write.Token, "write-token", c.Write.Token, "push over https with the bearer token in `FILE`")
	fs.StringVar(&c.Write.SSHKey, "write-ssh-key", c.Write.SSHKey, "push over ssh with the private key in `FILE`")
	fs.StringVar(&c.Write.PullRequests, "write-pull-requests", c.Write.PullRequests,
		"open pull requests on the forge `NAME` of notify")
	fs.StringVar(&c.Schedules.Target, "schedules-target", c.Schedules.Target,
		"give schedules of the API that name no target to `TARGET`")
	fs.IntVar(&c.Schedules.Max, "schedules-max", c.Schedules.Max,
		"allow `N` schedules of the API at a time (default: 1000)")
	fs.StringVar(&c.History, "history", c.History, "`POLICY` for a branch that is rewritten: forbid, approve or allow")
	daemon.DurationVar(fs, &c.Audit, "audit-retention",
		"keep the audit log of a new bus for `TIME`; on another bus a master that is given another time ends")
	daemon.DurationVar(fs, &c.AckWindow, "ack-window",
		"send a request again to targets that are silent for `TIME`; 0: never")
	fs.StringVar(&c.REST.Listen, "rest-listen", c.REST.Listen, "serve REST on `HOST:PORT`, or off")
	fs.StringVar(&c.REST.Cert, "rest-cert", c.REST.Cert, "use the certificate in `FILE` for REST")
	fs.StringVar(&c.REST.Key, "rest-key", c.REST.Key, "read the certificate's key from `FILE`")
	c.Console.flags(fs)
	fs.BoolVar(&c.MCP.Serve, "mcp-serve", c.MCP.Serve, "serve tools for assistants at /mcp of the REST address")
	fs.StringVar(&c.MCP.Allow, "mcp-allow", c.MCP.Allow, "let assistants `DO` more than read and propose: dispatch")
	fs.IntVar(&c.MCP.Limit, "mcp-limit", c.MCP.Limit,
		"hold actions of assistants on more than `N` peels in an hour (default: 10)")
	fs.BoolVar(&c.PerPeel, "metrics-per-peel", c.PerPeel, "give metrics of entries a label for each peel")
	fs.StringVar(&c.OTel.URL, "otel-url", c.OTel.URL,
		"send spans of jobs and runs to the collector of OpenTelemetry at `URL`")
	fs.StringVar(&c.OTel.HeadersFile, "otel-headers-file", c.OTel.HeadersFile,
		"send the headers in `FILE` to that collector")
	fs.TextVar(&c.LogLevel, "log-level", c.LogLevel, "log from `LEVEL` on: debug, info, warn, error")
}

// Prepare checks the configuration as a whole.
func (c *Config) Prepare(log *slog.Logger) (d daemon.Daemon, err error) {
	o := master.Options{
		Signer:    c.Keys.signer(),
		Metrics:   service.NewMetrics(),
		DataDir:   c.DataDir,
		NATS:      c.NATS,
		Replicas:  c.Replicas,
		Audit:     c.Audit,
		AckWindow: c.AckWindow,
		REST:      master.REST{Listen: c.REST.configured(), Cert: c.REST.Cert, Key: c.REST.Key, PerPeel: c.PerPeel},
		Config:    c.file,
		Log:       log,
	}
	if c.Audit != 0 && c.Audit < 24*time.Hour {
		return d, fmt.Errorf("cannot keep the audit log for %v: the least is 1d", c.Audit)
	}
	switch {
	case c.AckWindow == 0:
		o.AckWindow = -1
	case c.AckWindow < minAckWindow:
		return d, fmt.Errorf("cannot send requests again after %v: the least is %v, and 0 turns it off", c.AckWindow,
			minAckWindow)
	}
	if err := c.bus(&o); err != nil {
		return d, err
	}
	if o.ID, err = c.name(); err != nil {
		return d, err
	}
	if err := c.sync(&o); err != nil {
		return d, err
	}
	if err := c.alerts(&o); err != nil {
		return d, err
	}
	if err := c.spans(&o); err != nil {
		return d, err
	}
	if o.REST.MCP, err = c.MCP.options(); err != nil {
		return d, err
	}
	if o.REST.Console, err = c.console(); err != nil {
		return d, err
	}
	if _, err := master.New(o); err != nil {
		return d, err
	}
	// What others reach was checked with the address that is configured, so that no webhook waits on loopback.
	o.REST.Listen = cmp.Or(o.REST.Listen, c.REST.onLoopback())
	return daemon.Daemon{Name: "master " + o.ID, Run: func(ctx context.Context, ready func()) error {
		o.Ready = func(master.Info) { ready() }
		m, err := master.New(o)
		if err != nil {
			return err
		}
		return m.Run(ctx)
	}}, nil
}

// spans adds the service that sends spans. It uses the certificates and the proxy of git, as notifications do.
func (c *Config) spans(o *master.Options) error {
	if c.OTel.URL == "" {
		if c.OTel.HeadersFile != "" {
			return errors.New("cannot use otel.headers_file without a collector: set otel.url")
		}
		return nil
	}
	e, err := otel.New(otel.Options{
		URL: c.OTel.URL, HeadersFile: c.OTel.HeadersFile, Transport: outbound.Options(c.Git).Transport(), Log: o.Log,
	})
	if err != nil {
		return err
	}
	o.Services = append(o.Services, func(ctx context.Context, nc *nats.Conn, _ *fleet.Fleet) error {
		return e.Run(ctx, nc)
	})
	o.REST.Collectors = append(o.REST.Collectors, e)
	return nil
}

// bus sets the options of the bus.
func (c *Config) bus(o *master.Options) error {
	if c.Replicas < 0 {
		return fmt.Errorf("cannot keep %d replicas: at least 1 is needed; 0 means as many as the bus has", c.Replicas)
	}
	if c.NATS != "" {
		if c.Creds == "" {
			return errors.New(
				"cannot use an external server without a credential: " +
					"set creds to the file with this master's credential",
			)
		}
		o.Creds = c.Creds
		o.CA = cmp.Or(c.CA, c.Creds)
		return nil
	}
	if c.Replicas > 1 {
		return fmt.Errorf(
			"cannot keep %d replicas on the embedded server, which is a single one: set nats to the URL of a cluster",
			c.Replicas,
		)
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: write HOST:PORT, such as 0.0.0.0:%[1]s: %w", c.Listen, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %q is not a port", c.Listen, port)
	}
	o.Host, o.Port = host, int(n)
	for name := range strings.SplitSeq(c.Names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			o.Names = append(o.Names, name)
		}
	}
	return nil
}

// validID matches the names that a credential can have.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// name returns the master's ID: the name in the credential if there is one, because permissions depend on it.
func (c *Config) name() (string, error) {
	if c.NATS != "" {
		name, err := daemon.CredentialName(c.Creds)
		if err != nil {
			return "", err
		}
		if c.ID != "" && c.ID != name {
			return "", fmt.Errorf("cannot run as master %q with the credential of %q", c.ID, name)
		}
		return name, nil
	}
	id := c.ID
	if id == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("cannot read the host name, set id: %w", err)
		}
		id = strings.ReplaceAll(host, ".", "_")
	}
	if !validID.MatchString(id) {
		return "", fmt.Errorf("cannot use the master's id %q: want 1 to 64 letters, digits, '_' and '-'", id)
	}
	return id, nil
}
