//go:build linux

package pkg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// dnf is the package manager of Fedora and its relatives.
type dnf struct{}

func (dnf) inventory(ctx context.Context) (*inventory, error) {
	out, err := output(ctx, "rpm", "-qa", "--qf",
		`%{NAME}\t%{ARCH}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}[\t%{PROVIDENAME}]\n`)
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages: %w", err)
	}
	i := newInventory()
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 4 {
			continue
		}
		version := f[3]
		if f[2] != "0" {
			version = f[2] + ":" + version
		}
		i.add(f[0], f[0]+"."+f[1], version)
		for _, name := range f[4:] {
			i.provided[name] = true
		}
	}
	return i, nil
}

// words are the arguments of dnf for a transaction. It stays with the lists that it has.
func (dnf) words(t transaction) []string {
	words := []string{"--cacheonly"}
	switch {
	case t.verb == "upgrade":
		return append(words, "upgrade")
	case t.verb == "remove" || t.verb == "purge":
		words = append(words, "--noautoremove", "remove")
	case t.removals:
		words = append(words, "--best", "--allowerasing", "install")
	case t.verb == "latest":
		words = append(words, "--best", "install")
	default:
		words = append(words, "install")
	}
	words = append(words, "--")
	for _, p := range t.packages {
		if p.version != "" {
			p.name += "-" + p.version
		}
		words = append(words, p.name)
	}
	return words
}

func (d dnf) simulate(ctx context.Context, t transaction) ([]effect, error) {
	out, err := output(ctx, "dnf", append([]string{"--assumeno"}, d.words(t)...)...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 &&
		strings.Contains(err.Error()+string(out), "Operation aborted") {
		err = nil // that is how a simulation ends
	}
	if err != nil {
		for _, text := range []string{"No match for argument", "Unable to find a match", "no cache for"} {
			if strings.Contains(err.Error(), text) {
				return nil, fmt.Errorf("%w: %w", errNotInLists, err)
			}
		}
		return nil, err
	}
	effects := t.name(parseTable(string(out)))
	now, err := d.inventory(ctx)
	if err != nil {
		return nil, err
	}
	for i, e := range effects {
		if !e.remove {
			effects[i].from = now.versions[e.name]
		}
	}
	return effects, nil
}

// name gives effects the names that the transaction has for their packages: with the architecture, if it has that.
func (t transaction) name(effects []effect) []effect {
	names := t.names()
	for i, e := range effects {
		if full := e.name + "." + e.arch; slices.Contains(names, full) {
			effects[i].name = full
		}
	}
	return effects
}

// parseTable reads the table of a transaction: titles such as "Installing:" and below each lines with name,
// architecture, version, repository and size. The rest of a line with a long name is on the next.
func parseTable(out string) (effects []effect) {
	title, before := "", []string(nil)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "Transaction Summary"):
			title, before = "", nil
			continue
		case line[0] != ' ':
			title, before = strings.TrimSuffix(strings.TrimSpace(line), ":"), nil
			continue
		}
		f = append(before, f...)
		before = nil
		if len(f) == 1 {
			before = f
			continue
		}
		word, _, _ := strings.Cut(title, " ")
		if len(f) < 4 {
			continue
		}
		switch word {
		case "Installing", "Upgrading", "Downgrading", "Reinstalling":
			effects = append(effects, effect{name: f[0], arch: f[1], to: f[2]})
		case "Removing":
			effects = append(effects, effect{name: f[0], arch: f[1], from: f[2], remove: true})
		}
	}
	return effects
}

func (d dnf) execute(ctx context.Context, t transaction) error {
	return run(ctx, append([]string{"dnf", "--assumeyes"}, d.words(t)...))
}

// refresh has dnf download the lists; it waits for the lock of another one by itself.
func (dnf) refresh(ctx context.Context) error {
	return run(ctx, []string{"dnf", "--quiet", "makecache", "--refresh"})
}

func (dnf) isStale() bool {
	files, _ := filepath.Glob("/var/cache/dnf/*.solv")
	more, _ := filepath.Glob("/var/cache/libdnf5/*/repodata/repomd.xml")
	var newest time.Time
	for _, name := range append(files, more...) {
		if info, err := os.Stat(name); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return time.Since(newest) > listsAge
}

func (d dnf) upgrades(ctx context.Context) ([]effect, error) {
	return d.simulate(ctx, transaction{verb: "upgrade"})
}

// has accepts a version without its release and without an epoch.
func (dnf) has(installed, version string) bool {
	_, plain, hasEpoch := strings.Cut(installed, ":")
	if !hasEpoch {
		plain = installed
	}
	for _, v := range []string{installed, plain} {
		if v == version || strings.HasPrefix(v, version+"-") {
			return true
		}
	}
	return false
}
