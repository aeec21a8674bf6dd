//go:build linux

package pkg

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	listsAge    = 24 * time.Hour   // after which lists of packages are old
	listsLock   = 10 * time.Minute // how long a refresh waits for another one
	lockPause   = 2 * time.Second
	listsFolder = "/var/lib/apt/lists"
	dpkgFolder  = "/var/lib/dpkg"
)

// apt is Debian's package manager.
type apt struct {
	test bool // nothing is written, not even caches of the lists
}

// options are those of a transaction. The lock of dpkg is waited for.
var options = []string{
	"-q", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o",
	"DPkg::Lock::Timeout=600", "-o", "APT::Get::Assume-Yes=true",
	"-o", "APT::Get::allow-downgrades=true", "-o", "Dpkg::Use-Pty=0",
}

// simulation are the options of one.
func (a apt) simulation() []string {
	if !a.test {
		return []string{"-s"}
	}
	return []string{"-s", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
}

func (apt) inventory(ctx context.Context) (*inventory, error) {
	if i := inventoryIn(dpkgFolder); i != nil {
		return i, nil
	}
	return askDpkg(ctx)
}

// inventoryIn reads the packages from the file of dpkg, which costs no process. It returns nil if dpkg-query has to be
// asked: dpkg is at work, or the file has another form.
func inventoryIn(folder string) *inventory {
	f, err := os.Open(filepath.Join(folder, "status"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	i := newInventory()
	var p dpkgPackage
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Bytes(); len(line) == 0 {
			i.addPackage(p)
			p = dpkgPackage{}
		} else if !p.read(line) {
			return nil
		}
	}
	i.addPackage(p)

	// dpkg notes here what it did since it wrote the file.
	notes, err := os.ReadDir(filepath.Join(folder, "updates"))
	if err != nil || len(notes) > 0 || lines.Err() != nil {
		return nil
	}
	return i
}

// A dpkgPackage is a paragraph of the file of dpkg.
type dpkgPackage struct {
	name, status, arch, version, provides string
	field                                 string // of the last line
}

// read reads a line. It returns false if a field goes on that dpkg writes in one line.
func (p *dpkgPackage) read(line []byte) bool {
	if line[0] == ' ' || line[0] == '\t' {
		return p.field == ""
	}
	name, value, _ := bytes.Cut(line, []byte(": "))
	var to *string
	switch string(name) {
	case "Package":
		to = &p.name
	case "Status":
		to = &p.status
	case "Architecture":
		to = &p.arch
	case "Version":
		to = &p.version
	case "Provides":
		to = &p.provides
	default:
		p.field = ""
		return true
	}
	p.field, *to = string(name), string(bytes.TrimSpace(value))
	return true
}

// addPackage adds a package if it is installed, or has left configuration files.
func (i *inventory) addPackage(p dpkgPackage) {
	switch {
	case strings.HasSuffix(p.status, " config-files"):
		i.leftover[p.name] = true
	case strings.HasSuffix(p.status, " installed"):
		i.addInstalled(p.name, p.arch, p.version, p.provides)
	}
}

// addInstalled adds an installed package. That of dpkg itself says which architecture the host has.
func (i *inventory) addInstalled(name, arch, version, provides string) {
	if name == "dpkg" {
		i.native = arch
	}
	i.add(name, name+":"+arch, version)
	i.provide(provides)
}

// provide adds the names of a list such as "editor, awk (= 1.3)".
func (i *inventory) provide(list string) {
	for p := range strings.SplitSeq(list, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(p), " ")
		i.provided[name] = true
	}
}

func askDpkg(ctx context.Context) (*inventory, error) {
	out, err := output(ctx, "dpkg-query", "-W", "-f",
		"${db:Status-Status}\t${Package}\t${Architecture}\t${Version}\t${Provides}\n")
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages: %w", err)
	}
	i := newInventory()
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) == 5 && f[0] == "config-files" {
			i.leftover[f[1]] = true
		}
		if len(f) != 5 || f[0] != "installed" {
			continue
		}
		i.addInstalled(f[1], f[2], f[3], f[4])
	}
	return i, lines.Err()
}

// words are the arguments of apt-get for a transaction.
func (apt) words(t transaction) []string {
	verb := t.verb
	if verb == "latest" {
		verb = "install"
	}
	words := []string{verb, "--"}
	for _, p := range t.packages {
		if p.version != "" {
			p.name += "=" + p.version
		}
		words = append(words, p.name)
	}
	return words
}

func (a apt) simulate(ctx context.Context, t transaction) ([]effect, error) {
	out, err := output(ctx, "apt-get", slices.Concat(a.simulation(), options, a.words(t))...)
	if err != nil {
		for _, text := range []string{"Unable to locate package", "has no installation candidate", "was not found"} {
			if strings.Contains(err.Error(), text) {
				return nil, fmt.Errorf("%w: %w", errNotInLists, err)
			}
		}
		return nil, err
	}
	return parseEffects(string(out)), nil
}

func parseEffects(out string) (effects []effect) {
	unpacks := map[string]bool{}
	for line := range strings.Lines(out) {
		if e, ok := parseEffect(line); ok && !unpacks[e.name] {
			unpacks[e.name] = true
			effects = append(effects, e)
		}
	}
	return effects
}

// parseEffect reads a line such as "Inst nginx [1.1] (1.2 Debian:12 [amd64])", "Remv nginx [1.1]" or "Conf nginx (1.2
// Debian:12 [amd64])". The last one follows the first, or stands alone for a package that is only unpacked.
func parseEffect(line string) (effect, bool) {
	f := strings.Fields(line)
	if len(f) < 2 || !slices.Contains([]string{"Inst", "Conf", "Remv", "Purg"}, f[0]) {
		return effect{}, false
	}
	e := effect{remove: f[0] == "Remv" || f[0] == "Purg", purge: f[0] == "Purg", setUp: f[0] == "Conf", name: f[1]}
	for _, word := range f[2:] {
		switch {
		case e.to == "" && strings.HasPrefix(word, "("):
			e.to = strings.Trim(word, "()")
		case e.from == "" && e.to == "" && strings.HasPrefix(word, "["):
			e.from = strings.Trim(word, "[]")
		}
	}
	return e, true
}

func (a apt) execute(ctx context.Context, t transaction) error {
	argv := slices.Concat([]string{"apt-get"}, options)
	if !t.removals && (t.verb == "install" || t.verb == "latest") {
		argv = append(argv, "--no-remove")
	}
	return run(ctx, append(argv, a.words(t)...))
}

// refresh runs apt-get update. Its option for a lock does not wait for another one, so it is repeated.
func (apt) refresh(ctx context.Context) error {
	deadline := time.Now().Add(listsLock)
	for {
		err := run(ctx, []string{"apt-get", "-q", "update"})
		if err == nil || !strings.Contains(err.Error(), listsFolder+"/lock") || time.Now().After(deadline) {
			return err
		}
		timer := time.NewTimer(lockPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// isStale takes the newest of the times that apt-get update leaves. Lists that were removed are stale, too. Files of
// lists have the times of their servers.
func (apt) isStale() bool {
	var newest time.Time
	for _, name := range []string{
		listsFolder, filepath.Join(listsFolder, "partial"), "/var/lib/apt/periodic/update-success-stamp",
	} {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	lists, err := filepath.Glob(listsFolder + "/*Packages*")
	return err != nil || len(lists) == 0 || time.Since(newest) > listsAge
}

func (a apt) upgrades(ctx context.Context) ([]effect, error) {
	out, err := output(ctx, "apt-get", slices.Concat(a.simulation(), []string{"-q", "upgrade"})...)
	return parseEffects(string(out)), err
}

func (apt) has(installed, version string) bool { return installed == version }
