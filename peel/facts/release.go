package facts

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// release describes a distribution.
type release struct{ id, family, version string }

// families maps the IDs in os-release files to families of distributions.
var families = map[string]string{
	"debian": "debian",
	"rhel":   "redhat", "fedora": "redhat", "centos": "redhat",
	"suse": "suse", "opensuse": "suse", "sles": "suse",
	"arch":   "arch",
	"alpine": "alpine",
	"gentoo": "gentoo",
}

// readRelease reads os-release(5). It does not use gopsutil, which without /etc/lsb-release runs the script
// lsb_release; that takes longer than all other facts.
func readRelease() release {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if data, err := os.ReadFile(file); err == nil {
			return parseRelease(string(data))
		}
	}
	return release{id: runtime.GOOS, family: runtime.GOOS}
}

// parseRelease parses the text of an os-release file. The default ID of the specification is "linux".
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

// unquote removes one pair of quotes, and the backslashes within double quotes, as a shell does.
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
