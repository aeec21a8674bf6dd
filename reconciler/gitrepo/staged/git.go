package staged

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	format "github.com/go-git/go-git/v5/plumbing/format/config"
)

// readRules reads the configuration of Git and the rules that hold besides those in the working tree.
func (f *Files) readRules() (in rules, err error) {
	if f.config, err = readConfiguration(f.o.Repo); err != nil {
		return in, err
	}
	ignore, err := readUserFile(f.config.value("core.excludesfile"), "ignore")
	if err != nil {
		return in, err
	}
	attributes, err := readUserFile(f.config.value("core.attributesfile"), "attributes")
	if err != nil {
		return in, err
	}
	in = rules{ignore: parseIgnore(ignore, ""), attributes: parseAttributes(attributes, "")}
	if f.o.Repo == nil {
		return in, nil
	}
	exclude, err := readOptional(filepath.Join(f.o.GitDir, "info", "exclude"))
	if err != nil {
		return in, err
	}
	in.ignore = append(in.ignore, parseIgnore(exclude, "")...)
	over, err := readOptional(filepath.Join(f.o.GitDir, "info", "attributes"))
	f.over = parseAttributes(over, "")
	return in, err
}

// readIndex reads which files Git tracks.
func (f *Files) readIndex() error {
	if f.o.Repo == nil {
		return nil
	}
	index, err := f.o.Repo.Storer.Index()
	if err != nil {
		return fmt.Errorf("cannot read the index: %w", err)
	}
	for _, e := range index.Entries {
		if e.Stage != 0 || e.IntentToAdd {
			continue // of a merge under way, or without content
		}
		f.index[e.Name] = tracked{Entry{e.Name, modeOf(e.Mode), e.Hash}, e.SkipWorktree}
		for dir := path.Dir(e.Name); dir != "." && !f.dirs[dir]; dir = path.Dir(dir) {
			f.dirs[dir] = true
		}
	}
	return nil
}

// modeOf returns a mode of the index as [Entry] has it.
func modeOf(m filemode.FileMode) fs.FileMode {
	switch m {
	case filemode.Executable:
		return 0o755
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Submodule:
		return fs.ModeIrregular
	}
	return 0o644
}

// readOptional reads a file, empty if there is none.
func readOptional(name string) (string, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

// readUserFile reads a file that the configuration names, or else git/NAME in
// the user's directory of configuration.
func readUserFile(named, name string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil // Git has none then either
	}
	if below, ok := strings.CutPrefix(named, "~/"); ok {
		named = filepath.Join(home, below)
	}
	if named == "" {
		named = filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "git", name)
	}
	return readOptional(named)
}

// configuration is the configuration of Git. A file counts over those after it.
type configuration []*format.Config

func readConfiguration(repo *git.Repository) (all configuration, err error) {
	if repo != nil {
		local, err := repo.Storer.Config()
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		all = append(all, local.Raw)
	}
	for _, scope := range []config.Scope{config.GlobalScope, config.SystemScope} {
		if _, err := os.UserHomeDir(); err != nil && scope == config.GlobalScope {
			continue // Git reads none without $HOME
		}
		user, err := config.LoadConfig(scope)
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration of Git: %w", err)
		}
		all = append(all, user.Raw)
	}
	return all, nil
}

// value returns the value of a key such as core.autocrlf or filter.NAME.clean,
// empty if it is not set.
func (c configuration) value(key string) string {
	section, rest, _ := strings.Cut(key, ".")
	for _, one := range c {
		options := one.Section(section).Options
		name := rest
		if i := strings.LastIndexByte(rest, '.'); i >= 0 {
			options, name = one.Section(section).Subsection(rest[:i]).Options, rest[i+1:]
		}
		if v := options.Get(name); v != "" {
			return v
		}
	}
	return ""
}
