package facts

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// release is what a distribution says of itself.
type release struct{ id, family, version string }

// families are the distributions that others are derived from, by the IDs that os-release files use for them.
var families = map[string]string{
	"debian": "debian",
	"rhel":   "redhat", "fedora": "redhat", "centos": "redhat",
	"suse": "suse", "opensuse": "suse", "sles": "suse",
	"arch":   "arch",
	"alpine": "alpine",
	"gentoo": "gentoo",
}

// readRelease reads os-release(5). gopsutil is not asked: where there is no /etc/lsb-release it runs lsb_release,
// a script that takes longer than all other facts.
func readRelease() release {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if data, err := os.ReadFile(file); err == nil {
			return parseRelease(string(data))
		}
	}
	return release{id: runtime.GOOS, family: runtime.GOOS}
}

// parseRelease takes the values it needs out of the text of an os-release file. Without an ID the specification
// wants "linux".
func parseRelease(text string) release {
	values := map[string]string{"ID": "linux"}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			values[key] = unquote(value)
		}
	}
	r := release{id: strings.ToLower(values["ID"]), version: values["VERSION_ID"]}
	r.family = r.id
	likes := strings.Fields(strings.ToLower(values["ID_LIKE"]))
	for _, like := range slices.Concat([]string{r.id}, likes) {
		if family, ok := families[like]; ok {
			r.family = family
			break
		}
	}
	return r
}

// unquote takes away what a shell would: one pair of quotes, and the backslashes inside double ones.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
		return s
	}
	inner := s[1 : len(s)-1]
	if s[0] == '\'' || !strings.Contains(inner, `\`) {
		return inner
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`").Replace(inner)
}
