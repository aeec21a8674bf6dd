package plan

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-c01c3da5/zester/reconciler/plan/parse"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// root checks the names in the root directory. It refuses a tree without a top file unless the tree is empty:
// an empty tree wants nothing, which [Difference.Guard] judges. It also refuses configuration that would not be read: a
// name that differs by case, ending or invisible characters from a name that is read, a top.d that is not a directory,
// and files in directories below top.d.
func (p *pass) root(top *parse.File, drops *parse.Dir) error {
	entries, err := fs.ReadDir(p.revision.Tree, ".")
	if err != nil {
		return parse.CannotRead("the root directory", err)
	}
	if top == nil && len(entries) > 0 {
		p.lost = true
		p.problems.add(TopMissing, strictyaml.Error{Pos: strictyaml.Pos{File: topFile}, Msg: "there is no top file"})
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
	for _, f := range drops.All {
		if path.Dir(f.Path) != topDir {
			p.refuseName(f.Path, "is not read: the files of %s have to be in it, and not in a directory below", topDir)
		}
	}
	return nil
}

// meantName returns the configuration file or directory that name was probably meant to be, empty if it does not look
// like configuration.
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
	if slices.Contains([]string{policyFile, topFile, topDir, parse.SettingsDir}, plain) {
		return plain
	}
	return ""
}

func (p *pass) refuseName(name, format string, args ...any) {
	it := "it "
	if parse.Printable(name) != name { // the position does not show the real name
		it = fmt.Sprintf("%q ", name)
	}
	p.problems.add(Invalid, strictyaml.Error{Pos: strictyaml.Pos{File: parse.Printable(name)}, Msg: it + fmt.Sprintf(format, args...)})
}

// unused warns of settings files that no target uses.
func (p *pass) unused() {
	used := make(map[string]bool, len(p.places))
	for ref := range p.places {
		used[parse.SettingsPath(ref)] = true
	}
	for name, f := range p.files {
		if !used[name] && f.Oddity == "" && len(f.Errs) == 0 && parse.IsNameable(name) {
			p.warn(strictyaml.Pos{File: name}, "no target uses this file")
		}
	}
}
