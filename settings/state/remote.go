package state

import (
	"net/url"
	"strings"
)

// IsRemote reports whether a source is no file of the config repo.
func IsRemote(source string) bool { return strings.Contains(source, "://") }

var sha256Digits = newShape(`^[0-9a-f]{64}$`, 64)

// from checks a source below files/, or from https with its hash.
func (c *checks) from(arg, source, sum string) {
	if !IsRemote(source) {
		c.source(arg, source)
		if sum != "" && source != "" {
			c.add("sha256", "only for a source from https; the files of the config repo have hashes")
		}
		return
	}
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		c.add(arg, "must be a file below files/ or an https address")
	case u.User != nil:
		c.add(arg, "must have no user or password, because people see it")
	case sum == "":
		c.missing("sha256", "give the SHA-256 of the source, 64 hexadecimal digits; sha256sum prints it")
	case !sha256Digits.MatchString(sum):
		c.add("sha256", "%q is not a SHA-256: 64 hexadecimal digits, small letters", sum)
	}
}

// ArchiveExtracted holds the arguments of archive.extracted.
type ArchiveExtracted struct {
	Path     string `yaml:"path" doc:"directory that the files come to"`
	Source   string `yaml:"source" doc:"archive below files/ of the config repo, or an https address, with sha256: .tar, .tar.gz, .tgz or .zip"`
	SHA256   string `yaml:"sha256" doc:"of a source from https: its SHA-256, 64 hexadecimal digits"`
	Strip    uint32 `yaml:"strip" doc:"directories that are left out at the beginning of each name"`
	User     string `yaml:"user" doc:"owner of all that is extracted; default: root"`
	Group    string `yaml:"group" doc:"group of all that is extracted; default: root"`
	MakeDirs bool   `yaml:"makedirs" doc:"make missing directories above the path"`
}

// archiveEndings are the names of archives that the peel reads.
var archiveEndings = []string{".tar", ".tar.gz", ".tgz", ".zip"}

func (a *ArchiveExtracted) setMain(name string) { setDefault(&a.Path, name) }

// owns names the directory with a dot, because another state may have the directory itself.
func (a *ArchiveExtracted) owns() []resource { return []resource{{"path", a.Path + "/.", false}} }

// Format returns the ending of the archive's name, empty if it is none that the peel reads.
func (a *ArchiveExtracted) Format() string {
	name, _, _ := strings.Cut(a.Source, "?")
	for _, ending := range archiveEndings {
		if strings.HasSuffix(name, ending) {
			return ending
		}
	}
	return ""
}

func (a *ArchiveExtracted) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.removable("path", a.Path)
	c.owner(Ownership{User: a.User, Group: a.Group})
	if a.Source == "" {
		c.missing("source", "give source, an archive below files/ or an https address")
	}
	c.from("source", a.Source, a.SHA256)
	if a.Source != "" && a.Format() == "" {
		c.add("source", "the name of an archive ends with .tar, .tar.gz, .tgz or .zip")
	}
	if a.Strip > 20 {
		c.add("strip", "must be at most 20")
	}
	return c.problems
}
