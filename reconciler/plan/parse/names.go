package parse

import (
	"strings"
	"unicode"
)

// SettingsPath is the file that a reference names.
func SettingsPath(ref string) string {
	return SettingsDir + "/" + strings.ReplaceAll(ref, ".", "/") + ".yaml"
}

// IsNameable reports whether a reference can name a settings file.
func IsNameable(path string) bool {
	stem := strings.TrimSuffix(strings.TrimPrefix(path, SettingsDir+"/"), ".yaml")
	return SettingsDir+"/"+stem+".yaml" == path && !strings.ContainsFunc(stem, isUnnameable)
}

// ReferenceTo is the reference that names a settings file, if it has letters that a reference may have.
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
