package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A diagnosis is the result of one check.
type diagnosis struct {
	Check  string   `json:"check"`
	State  severity `json:"state"`
	Detail string   `json:"detail"`
	Next   string   `json:"next,omitempty"` // what to do
}

type severity string

const (
	sound   severity = "ok"
	warning severity = "warning" // works now, and will soon or sometimes not
	broken  severity = "broken"
)

const (
	endsSoon      = 14 * 24 * time.Hour // before its end a credential or certificate should be renewed
	usedLately    = 24 * time.Hour      // a use of the credential of a master's data directory
	clockWarning  = 2 * time.Second
	clockBroken   = time.Minute
	doctorTimeout = 45 * time.Second // longer than the 20 s in which another master takes the lead
)

// A doctor checks an installation from the host of a person. It goes on after a check that fails, if that is possible.
type doctor struct {
	a        *app
	now      time.Time
	Findings []diagnosis `json:"findings"`
}

func (a *app) doctorCommand() *cobra.Command {
	var cutOff bool
	cmd := &cobra.Command{
		Use:   "doctor [TARGET]",
		Short: "Show what is wrong with this installation, and what to do about it",
		Long: `doctor checks your configuration, the dates of your credential and of
certificates, the modes of secret files, the replies of bus, master and settings
service, the console, the conditions of the reconciler, the clocks, and how full
the bus is. It changes nothing.

A warning is about something that works now and may soon stop working. The exit
code is 1 if anything is broken.

` + cutOffManual,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cutOff:
				return a.online(a.cutOff)(cmd, args)
			case len(args) > 0:
				return usageError("%s %s needs --cut-off: without it doctor checks the whole installation",
					cmd.CommandPath(), args[0])
			}
			return a.doctor(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&cutOff, "cut-off", false, "show what still runs if every link is cut now")
	return cmd
}

// doctor prints all checks. It fails if anything is broken.
func (a *app) doctor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	d := doctor{a: a, now: time.Now()}
	d.examine(ctx)
	if err := a.print(&d, d.wrong(), d.print); err != nil {
		return err
	}
	if slices.ContainsFunc(d.Findings, func(f diagnosis) bool { return f.State == broken }) {
		return &failure{code: exitFailed}
	}
	return nil
}

// wrong returns the checks that are not sound.
func (d *doctor) wrong() []string {
	names := []string{}
	for _, f := range d.Findings {
		if f.State != sound {
			names = append(names, f.Check)
		}
	}
	return names
}

// print prints a line for each check, with a hint below it.
func (d *doctor) print() error {
	var b strings.Builder
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "%-7s  %s: %s\n", f.State, f.Check, plain(f.Detail))
		if f.Next != "" {
			fmt.Fprintf(&b, "         hint: %s\n", f.Next)
		}
	}
	_, err := io.WriteString(d.a.out, b.String())
	return err
}

func (d *doctor) found(check string, state severity, next, detail string, args ...any) {
	d.Findings = append(d.Findings, diagnosis{check, state, fmt.Sprintf(detail, args...), next})
}

func (d *doctor) examine(ctx context.Context) {
	c := d.a.connect
	if err := c.applyContext(); err != nil {
		d.found("configuration", broken, "mend or remove the file, or give --url and --creds", "%v", err)
		return
	}
	bus, err := d.a.bus()
	if err != nil {
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = failureOf(err)
		}
		d.found("configuration", broken, f.hint, "%v", err)
		return
	}
	d.found("configuration", sound, "", "the bus is at %s%s", bus.URL, d.a.connect.notUsed(", "))
	if c.url == "" {
		d.ownKeys(c.dataDir)
		d.configFile(c.dataDir)
	} else {
		d.secret("credential file", c.creds)
	}
	d.credential(bus.Creds)
	d.authorities(bus)
	began := time.Now()
	client, err := api.Connect(bus)
	if err != nil {
		d.found(
			"bus", broken, "is the address right, does a server listen there, and does the network let you through?",
			"%v", err,
		)
		return
	}
	defer client.Close()
	d.found("bus", sound, "", "answers after %s", time.Since(began).Round(time.Millisecond))
	if shown := client.Certificate(); shown != nil {
		d.dates("certificate of the bus", shown, "restart the master: it makes a new one, unless you gave it yours")
	}
	d.master(ctx, client, bus)
	d.schedules(ctx, client)
}

// secret checks that only the owner of a file can use it.
func (d *doctor) secret(check, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		d.found(check, broken, "", "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		d.found(check, broken, "chmod go= "+path, "others may use %s, which has mode %04o", path, info.Mode().Perm())
	default:
		d.found(check, sound, "", "only its owner can use %s", path)
	}
}

// ownKeys checks that only their owner can use the keys of the master on this host.
func (d *doctor) ownKeys(dataDir string) {
	dir, open := keystore.Dir(dataDir), []string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // renamed or removed meanwhile
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(path, ".pem") {
			open = append(open, path)
		}
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist): // the master uses another bus and has no keys
	case err != nil:
		d.found("keys", broken, "", "%v", err)
	case len(open) > 0:
		d.found("keys", broken, "chmod -R go= "+dir, "others may use %s", strings.Join(open, ", "))
	default:
		d.found("keys", sound, "", "only their owner can use %s", dir)
	}
}

// maxConfigFile bounds a configuration file in bytes.
const maxConfigFile = 1 << 20

// configFile says which keys of the configuration of the master on this host have changed since it started. It says
// nothing about a file that this user cannot read.
func (d *doctor) configFile(dataDir string) {
	info, err := api.ReadRunInfo(dataDir)
	if err != nil || info.Config.Path == "" {
		return
	}
	stat, err := os.Stat(info.Config.Path)
	if err != nil || !stat.Mode().IsRegular() || stat.Size() > maxConfigFile {
		return
	}
	data, err := os.ReadFile(info.Config.Path)
	if err != nil {
		return
	}
	const check = "configuration of the master"
	doc, err := strictyaml.Parse(info.Config.Path, data)
	if err != nil {
		d.found(check, broken, "zester-master --check --config "+shell.Word(info.Config.Path),
			"the master does not start with it again: %v", err)
		return
	}
	now, err := api.ConfigFileOf(info.Config.Path, doc)
	if err != nil {
		return
	}
	if keys := info.Config.Restart(now); len(keys) > 0 {
		d.found(check, warning, "systemctl restart zester-master", "%s was changed at %s and needs a restart: %s",
			info.Config.Path, when(stat.ModTime()), strings.Join(keys, ", "))
		return
	}
	d.found(check, sound, "", "%s is in use", info.Config.Path)
}

func (d *doctor) credential(creds []byte) {
	user, ends, err := api.CredentialEnds(creds)
	if err != nil {
		d.found("credential", broken, hintCredential, "cannot be read: %v", err)
		return
	}
	if ends.IsZero() {
		d.found("credential", sound, "", "belongs to %s and does not expire", user)
		return
	}
	if d.a.connect.login != "" && d.now.Before(ends) {
		d.found("credential", sound, "", "belongs to %s, by zester login, and expires at %s", user, when(ends))
		return
	}
	next := "zester auth user renew"
	switch {
	case d.a.connect.login != "":
		next = hintLogin
	case !d.now.Before(ends):
		next = "somebody else issues another one with zester auth user add " + user + " --again"
	}
	d.ending("credential", "belongs to "+user, ends, next)
}

const hintAuthority = "copy tls/ca.crt from the data directory of a master"

// authorities checks the CA certificates of the bus: the file of --ca or run.json, else those in the credential.
func (d *doctor) authorities(bus api.ClientOptions) {
	file, text, some := bus.CA, bus.Creds, bus.CA == ""
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			d.found("authority", broken, hintAuthority, "%v", err)
			return
		}
	}
	text = certificates(text)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			d.found("authority", broken, hintAuthority, "%s: %v", file, err)
			return
		}
		some = true
		d.dates("authority", c, "zester auth rotate ca, and then "+hintAuthority)
	}
	if !some {
		d.found("authority", broken, hintAuthority, "%s holds no certificate", file)
	}
}

func (d *doctor) dates(check string, c *x509.Certificate, next string) {
	if d.now.Before(c.NotBefore) {
		d.found(check, broken, "set the clock of this host", "is valid only from %s", when(c.NotBefore))
		return
	}
	d.ending(check, fmt.Sprintf("belongs to %q", c.Subject.CommonName), c.NotAfter, next)
}

func (d *doctor) ending(check, what string, ends time.Time, next string) {
	left := ends.Sub(d.now)
	switch {
	case left <= 0:
		d.found(check, broken, next, "%s and expired at %s", what, when(ends))
	case left < endsSoon:
		d.found(check, warning, next, "%s and expires at %s", what, when(ends))
	default:
		d.found(check, sound, "", "%s and expires at %s", what, when(ends))
	}
}

// master checks the master that replies, and everything that it knows.
func (d *doctor) master(ctx context.Context, client *api.Client, bus api.ClientOptions) {
	asked := time.Now()
	h, err := api.MasterShow.Ask(ctx, client, api.None{})
	took := time.Since(asked)
	if err != nil {
		d.found("master", broken, failureOf(err).hint, "%v", err)
		return
	}
	d.found("master", sound, "", "answers after %s", took.Round(time.Millisecond))
	d.clock(h.Time.Sub(asked.Add(took/2)), took/2)
	if h.Storage != "" {
		d.found(
			"storage", broken,
			"make room on the disk of the bus; then restart the server, unless it is embedded in a master", "%s",
			h.Storage,
		)
	}
	for i := range h.Streams {
		d.stream(&h.Streams[i])
	}
	d.copies(h.Streams)
	d.auditLog(&h.Audit)
	d.console(ctx, h.Console, bus)
	if len(h.Unreadable) > 0 {
		d.found("records", broken,
			"upgrade this master if another one is newer; else revoke what the key names, "+
				"and make it again under another name",
			"%s cannot be decoded: nobody can use what they stand for", strings.Join(h.Unreadable, ", "))
	}
	d.settings(ctx, client)
	held, err := client.Credentials(ctx)
	if err != nil {
		d.found("masters", broken, "", "%v", err)
	}
	d.masters(held)
	hosts, err := client.Enrolled(ctx, api.EnrollQuery{})
	if err != nil && api.CodeOf(err) != api.CodeForbidden { // some see a part of the fleet
		d.found("hosts", broken, "", "%v", err)
	}
	d.hosts(hosts)
	peels, err := client.PeelsWithFacts(ctx, "*")
	if err != nil {
		d.found("peels", broken, "", "%v", err)
		return
	}
	d.peels(peels)
	d.versions(peels, h.Version)
}

// masters checks when the credentials of masters end. A master that renews its own has weeks left.
func (d *doctor) masters(all []credential.Held) {
	for _, h := range all {
		if h.Role == grants.RoleMaster && !h.Expires.IsZero() && h.Expires.Sub(d.now) < endsSoon {
			d.ending("masters", "the credential belongs to the master "+h.Name, h.Expires,
				fmt.Sprintf(
					"zester auth issue master %s --again makes one for creds of its master.yaml; "+
						"if the master is gone, zester auth master revoke %s",
					h.Name, h.Name,
				))
		}
	}
}

// auditLog checks that the entries of the audit log follow each other, as far as the master has looked.
func (d *doctor) auditLog(s *audit.Status) {
	switch {
	case s.Gaps > 0:
		d.found(
			"audit log", broken,
			"zester audit verify shows all of them: somebody with the credential of a master "+
				"wrote to the log or removed entries",
			"%s; %d in all", s.First, s.Gaps,
		)
	case s.Head.Seq > 0:
		d.found("audit log", sound, "", "each entry follows the one before it; the newest is %s", s.Head)
	}
	if !s.Use.At.IsZero() && d.now.Sub(s.Use.At) < usedLately {
		d.found("break-glass", warning, "zester audit list --user local shows all uses; operators have their own names",
			"%s", s.Use)
	}
}

// peels checks that all peels are online, each with one process and a signed key.
func (d *doctor) peels(peels []api.Peel) {
	away, unheard := 0, 0
	var duplicates, rekeyed, unsigned []target.PeelID
	for _, p := range peels {
		switch {
		case p.Unknown:
			unheard++
		case !p.Online:
			away++
		}
		switch {
		case p.PendingKey != "" && p.Key == "":
			unsigned = append(unsigned, p.ID)
		case p.PendingKey != "":
			rekeyed = append(rekeyed, p.ID)
		}
		if p.Duplicate {
			duplicates = append(duplicates, p.ID)
		}
	}
	if len(duplicates) > 0 {
		d.found("peel IDs", broken, "give one of the two hosts another ID: both run every job",
			"two processes are connected as %s", some(duplicates))
	}
	if len(rekeyed) > 0 {
		d.found("sealing keys", warning, "compare the key with the one in the host's log: zester peel rekey",
			"secrets stay sealed to the former key of %s, which has another key now", some(rekeyed))
	}
	if len(unsigned) > 0 {
		d.found("sealing keys", warning, "upgrade zester-peel there",
			"no secrets can be sealed to %s: its credential has not signed its key", some(unsigned))
	}
	if away > 0 {
		d.found("peels", warning, "zester peel list shows which", "%d of %d are offline", away, len(peels))
		return
	}
	if unheard > 0 {
		d.found(
			"peels", sound, "",
			"%d of %d are online; the master has just started and does not know about the others yet",
			len(peels)-unheard, len(peels),
		)
		return
	}
	d.found("peels", sound, "", "all %d are online", len(peels))
}

// clock checks how far the master's clock is ahead of this host's; within is the error of the measurement.
func (d *doctor) clock(ahead, within time.Duration) {
	off := max(ahead.Abs()-within, 0)
	state, next := sound, ""
	if off > clockWarning {
		state, next = warning, "synchronize both hosts' clocks (NTP)"
	}
	if off > clockBroken {
		state = broken
	}
	d.found("clock", state, next, "the master's is %s from this host's", ahead.Abs().Round(time.Millisecond))
}

const (
	nearlyFull   = 0.8  // of a stream that loses its oldest messages
	notTrimmed   = 0.85 // of a stream that masters trim at 80 %
	hintOldest   = "the oldest messages are removed: keep them elsewhere, or run fewer reported entries"
	hintLiveJobs = "zester job active shows the jobs whose returns must stay: wait for the end of one, or cancel one"
)

// copies checks that the loss of one server of a cluster takes no stream away.
func (d *doctor) copies(all []bucket.Usage) {
	alone := slices.DeleteFunc(slices.Clone(all), func(s bucket.Usage) bool { return !s.Clustered || s.Copies > 1 })
	if len(alone) > 0 {
		d.found("copies", warning, "zester bus set --replicas 3",
			"the bus is a cluster, and there is a single copy of %s: the loss of one server can stop everything",
			count(len(alone), "stream"))
	}
}

func (d *doctor) stream(s *bucket.Usage) {
	check := "stream " + s.Name
	full := fmt.Sprintf("is %.0f %% full: %d messages, %d MiB", s.Full()*100, s.Messages, s.Bytes>>20)
	switch {
	case s.Behind > 0:
		d.found(check, broken, "check the servers of the cluster", "%d of its %d copies are offline or behind",
			s.Behind, s.Copies)
	case s.Err() != nil:
		d.found(check, broken, hintLiveJobs, "%s; it refuses more, so peels keep their returns and try again", full)
	case s.Refuses && s.Full() >= notTrimmed:
		d.found(check, warning, hintLiveJobs, "%s; masters cannot purge returns of live jobs", full)
	case !s.Refuses && s.Full() >= nearlyFull:
		d.found(check, warning, hintOldest, "%s", full)
	}
}
