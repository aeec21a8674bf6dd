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

// The files and directories that are read.
const (
	PolicyFile  = "zester.yaml"
	TopFile     = "top.yaml"
	TopDir      = "top.d"
	SettingsDir = "settings"
)

// CheckNames returns errors about configuration that would not be read: a name in the root directory that differs by
// case, ending or invisible characters from a name that is read, a top.d that is not a directory, and files in
// directories below top.d, which is in drops. empty reports that the root directory is empty.
func (r *Revision) CheckNames(drops *Dir) (errs strictyaml.Errors, empty bool, err error) {
	entries, err := fs.ReadDir(r.Tree, ".")
	if err != nil {
		return nil, false, CannotRead("the root directory", err)
	}
	for _, e := range entries {
		name := e.Name()
		if meant := meantName(name); meant != "" && meant != name {
			errs = append(errs, refusedName(name, "is not read: its name has to be "+meant))
		}
		if name == TopDir && !e.IsDir() {
			errs = append(errs, refusedName(name, "is not read: it has to be a directory"))
		}
	}
	for _, f := range drops.All {
		if path.Dir(f.Path) != TopDir {
			errs = append(errs, refusedName(f.Path,
				"is not read: the files of top.d have to be in it, and not in a directory below"))
		}
	}
	return errs, len(entries) == 0, nil
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
	if slices.Contains([]string{PolicyFile, TopFile, TopDir, SettingsDir}, plain) {
		return plain
	}
	return ""
}

// refusedName returns the error about a name, with the quoted name if it is not printable.
func refusedName(name, why string) strictyaml.Error {
	it := "it "
	if Printable(name) != name {
		it = fmt.Sprintf("%q ", name)
	}
	return strictyaml.Error{Pos: strictyaml.Pos{File: Printable(name)}, Msg: it + why}
}

// SettingsPath returns the path of the file that a reference names.
func SettingsPath(ref string) string {
	return SettingsDir + "/" + strings.ReplaceAll(ref, ".", "/") + ".yaml"
}

// IsNameable reports whether a reference can name a settings file.
func IsNameable(path string) bool {
	stem := strings.TrimSuffix(strings.TrimPrefix(path, SettingsDir+"/"), ".yaml")
	return SettingsDir+"/"+stem+".yaml" == path && !strings.ContainsFunc(stem, isUnnameable)
}

// ReferenceTo returns the reference to a settings file, with "?" for characters that a reference cannot have.
func ReferenceTo(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, SettingsDir+"/"), ".yaml")
	return strings.Map(func(c rune) rune {
		switch {
		case c == '/':
			return '.'
		case isUnnameable(c):
			return '?'
		}
		return c
	}, name)
}

func isUnnameable(c rune) bool {
	return c > 'z' || !('A' <= c && c <= 'Z' || 'a' <= c || '0' <= c && c <= '9' || c == '_' || c == '/' || c == '-')
}

// Printable returns the name with a replacement for each character that is not printable.
func Printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
}

// unsafeCharacter names the character for which other systems may read the name differently, empty if there is none.
func unsafeCharacter(name string) string {
	switch {
	case strings.Contains(name, `\`):
		return "a backslash"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "a control character"
	}
	return ""
}
