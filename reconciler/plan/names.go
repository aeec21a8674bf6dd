package plan

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// names refuses what looks like configuration and would not be read: names of the root directory that differ from those
// that are read by case, ending or invisible characters, and a top.d that is no directory or has directories in it.
func (p *pass) names(drops *dir) error {
	entries, err := fs.ReadDir(p.reader.tree, ".")
	if err != nil {
		return cannotRead("the root directory", err)
	}
	for _, e := range entries {
		name := e.Name()
		if meant := meantName(name); meant != "" && meant != name {
			p.refuseName(name, "is not read: its name has to be %s", meant)
		}
		if name == topDir && !e.IsDir() {
			p.refuseName(name, "is not read: it has to be a directory")
		}
	}
	for _, f := range drops.all {
		if path.Dir(f.path) != topDir {
			p.refuseName(f.path, "is not read: the files of %s have to be in it, and not in a directory below", topDir)
		}
	}
	return nil
}

// meantName returns the name that a file or directory of the root directory was probably meant to have, empty if it does
// not look like configuration.
func meantName(name string) string {
	plain := strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	if stem, ok := strings.CutSuffix(plain, ".yml"); ok {
		plain = stem + ".yaml"
	}
	if slices.Contains([]string{policyFile, topFile, topDir, settingsDir}, plain) {
		return plain
	}
	return ""
}

func (p *pass) refuseName(name, format string, args ...any) {
	it := "it "
	if shown(name) != name {
		it = fmt.Sprintf("%q ", name)
	}
	p.problems.add(Invalid, strictyaml.Error{Pos: strictyaml.Pos{File: shown(name)}, Msg: it + fmt.Sprintf(format, args...)})
}

// shown is a name without what a terminal would act on.
func shown(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
}

// unsafe says what in the name of a file of the configuration may be read differently elsewhere, empty if nothing.
func unsafe(name string) string {
	switch {
	case strings.Contains(name, `\`):
		return "a backslash"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a control character"
	}
	return ""
}

// unused warns of settings files that no target names.
func (p *pass) unused() {
	used := make(map[string]bool, len(p.places))
	for ref := range p.places {
		used[settingsPath(ref)] = true
	}
	for name, f := range p.files {
		if !used[name] && f.odd == "" && len(f.errs) == 0 && nameable(name) {
			p.warn(strictyaml.Pos{File: name}, "no target uses this file")
		}
	}
}
