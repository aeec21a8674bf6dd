package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master/backup"
	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// saving is zester-master backup.
type saving struct {
	Config
	to, identity string
	plain, check bool
}

func backupCommand() daemon.Command {
	s := &saving{Config: *defaults().(*Config)}
	return daemon.Command{
		Name: "backup", Argument: "FILE", Config: &s.Config, Run: s.run,
		About: "Write the keys and the streams of a running master to FILE, which whoever decrypts it can read.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&s.to, "to", "", "encrypt to the age `RECIPIENT`, which age-keygen prints")
			fs.BoolVar(&s.plain, "plain", false, "do not encrypt: FILE has the keys of the fleet")
			fs.BoolVar(&s.check, "check", false, "read FILE to its end, write nothing")
			fs.StringVar(&s.identity, "identity", "", "with --check: decrypt with the age identity in `KEY`")
		},
	}
}

func (s *saving) run(ctx context.Context, file string, out io.Writer, log *slog.Logger) error {
	if s.check {
		return s.checkFile(file, out)
	}
	if s.to == "" && !s.plain {
		return errors.New("cannot back up without a recipient, because the file has the keys of the fleet: " +
			"give --to RECIPIENT, which age-keygen prints, or --plain")
	}
	if s.to != "" && s.plain {
		return errors.New("cannot use --to and --plain together")
	}
	nc, err := s.busOf(log).Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	f, err := renameio.TempFile(filepath.Dir(file), file)
	if err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	defer f.Cleanup()
	var w io.WriteCloser = f
	if s.to != "" {
		if w, err = sops.EncryptTo(f, s.to); err != nil {
			return err
		}
	}
	o := backup.Options{DataDir: s.DataDir, Version: build.Read().Version, Lacks: s.files()}
	m, err := backup.Write(ctx, nc, o, w)
	if err == nil && s.to != "" {
		err = w.Close()
	}
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has the keys, and %d messages of %d streams\n", file, m.Messages(), len(m.Streams))
	listLacks(out, m)
	return nil
}

func (s *saving) checkFile(file string, out io.Writer) error {
	open, end, err := opener(file, s.identity)
	if err != nil {
		return err
	}
	defer end()
	r, err := open()
	if err != nil {
		return err
	}
	m, err := backup.Check(r)
	if err != nil {
		return fmt.Errorf("cannot use the backup %s: %w", file, err)
	}
	fmt.Fprintf(out, "%s is complete: it was made by zester %s at %s\n", file, m.Version, m.Time.Format(timeLayout))
	fmt.Fprintf(out, "It has the keys, and %d messages of %d streams\n", m.Messages(), len(m.Streams))
	listLacks(out, m)
	return nil
}

// listLacks names the files that are not in a backup.
func listLacks(out io.Writer, m backup.Manifest) {
	if len(m.Lacks) > 0 {
		fmt.Fprintf(out, "It does not contain %s: keep copies of these files\n", strings.Join(m.Lacks, ", "))
	}
}

const timeLayout = "2006-01-02 15:04:05 MST"

// busOf returns the bus of the master with this configuration.
func (c *Config) busOf(log *slog.Logger) backup.Bus {
	return backup.Bus{DataDir: c.DataDir, Signer: c.Keys.signer(), NATS: c.NATS, CA: cmp.Or(c.CA, c.Creds), Log: log}
}

// restoring is zester-master restore.
type restoring struct {
	Config
	identity string
	revoked  string
}

func restoreCommand() daemon.Command {
	r := &restoring{Config: *defaults().(*Config)}
	return daemon.Command{
		Name: "restore", Argument: "FILE", Config: &r.Config, Run: r.run,
		About: "Restore a backup to an empty data directory, and to an empty external bus. Start the master then.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&r.identity, "identity", "", "decrypt with the age identity in `KEY`")
			fs.StringVar(&r.revoked, "revoked", "",
				"also revoke what is revoked in `DIR`, the folder auth of the lost master")
		},
	}
}

func (r *restoring) options() backup.RestoreOptions {
	return backup.RestoreOptions{Replicas: r.Replicas, Revoked: r.revoked}
}

// lost says what a restored master does not know.
const lost = `It does not know what happened since:
- Tokens that were revoked since are valid again, and so are credentials unless --revoked names the folder auth of the
  lost master. Revoke them again, or make new keys: zester auth rotate keys, new files for people, zester auth retire.
- Peels, people and tokens that came since are unknown, and join again.
- Approvals, pins, pauses and silences are those of the backup.
- Records of jobs and of the audit log since are lost. No job runs twice: peels know on their own disks what they ran.
`

func (r *restoring) run(ctx context.Context, file string, out io.Writer, log *slog.Logger) error {
	open, end, err := opener(file, r.identity)
	if err != nil {
		return err
	}
	defer end()
	m, err := backup.Restore(ctx, r.busOf(log), r.options(), open)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has what the master knew at %s\n%s", r.DataDir, m.Time.Format(timeLayout), lost)
	listLacks(out, m)
	fmt.Fprintln(out, "Start the master now.")
	return nil
}

// ageHeader begins each file that age encrypted.
const ageHeader = "age-encryption.org/v1"

// opener returns a function that reads a backup from its beginning and decrypts it if it is encrypted, and one that
// closes the file.
func opener(file, identity string) (open func() (io.Reader, error), end func(), err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the backup: %w", err)
	}
	open = func() (io.Reader, error) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		r := bufio.NewReader(f)
		head, _ := r.Peek(len(ageHeader)) // a shorter file is no backup, which is found later
		if string(head) != ageHeader {
			return r, nil
		}
		if identity == "" {
			return nil, fmt.Errorf("cannot read %s without an identity, because it is encrypted: "+
				"give --identity KEY", file)
		}
		ring, err := sops.ReadRing(identity)
		if err != nil {
			return nil, err
		}
		return ring.Decrypt(r)
	}
	return open, func() { _ = f.Close() }, nil
}

// files returns the paths of the files that the configuration names.
func (c *Config) files() []string {
	named := append([]string{}, c.Identities...)
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	c.Flags(fs)
	fs.VisitAll(func(f *flag.Flag) {
		if kind, _ := flag.UnquoteUsage(f); kind == "FILE" {
			named = append(named, f.Value.String())
		}
	})
	for _, h := range c.Hooks {
		named = append(named, h.Secrets...)
	}
	for _, p := range c.Notify {
		named = append(named, p.URLFile, p.Token, p.Secret, p.Password)
	}
	for _, r := range c.Alerts.Receivers {
		named = append(named, r.URLFile, r.Key, r.Secret, r.Password)
	}
	named = append(named, c.Alerts.Alive.URLFile)
	slices.Sort(named)
	return slices.DeleteFunc(slices.Compact(named), func(file string) bool { return file == "" })
}
