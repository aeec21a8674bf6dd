package movein

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

var aptLine = regexp.MustCompile(`^deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)\s*(.*)$`)

// repository reads a line of APT.
func repository(c *conversion) error {
	m := aptLine.FindStringSubmatch(c.Name)
	if m == nil {
		return refuse("a repository that is not a line such as deb URI SUITE COMPONENT")
	}
	for option := range strings.FieldsSeq(strings.Trim(m[1], "[] \t")) {
		if name, _, _ := strings.Cut(option, "="); name != "signed-by" && name != "arch" {
			return refuse("a repository with options")
		}
	}
	isDisabled := c.takeBool("disabled", false)
	if isDisabled {
		return refuse("argument disabled: a repository that the host does not use")
	}
	file := c.takeText("file")
	base := path.Base(file)
	if file == "" {
		base = c.source.hidden.mask(c.ID)
	}
	c.args["file"] = strings.Trim(notInNames.ReplaceAllString(strings.TrimSuffix(base, path.Ext(base)), "-"), "-.")
	c.args["uris"], c.args["suites"] = []string{m[2]}, []string{m[3]}
	parts := strings.Fields(m[4])
	given := c.takeTexts("dist", "comps", "architectures")
	if given[0] != "" && given[0] != m[3] {
		return refuse("argument dist: another suite than the line of the repository has")
	}
	for part := range strings.SplitSeq(given[1], ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) > 0 {
		c.args["components"] = parts
	}
	if strings.Contains(m[1], "arch=") || given[2] != "" {
		c.note("the option arch of a repository is left out: APT reads it for all architectures of the host")
	}
	c.note("a repository gets a file .sources of its own: remove its line from " +
		cmp.Or(file, "/etc/apt/sources.list"))
	key := c.takeText("key_url")
	if key == "" && strings.Contains(m[1], "signed-by") {
		return c.ownKey(signedBy.FindStringSubmatch(m[1]))
	}
	if key == "" {
		return nil
	}
	if !strings.HasPrefix(key, "salt://") {
		return refuse("argument key_url: a file that is not salt://: download it into files/ and give it as key")
	}
	var err error
	c.args["key"], err = c.copyFile(key)
	return err
}

var signedBy = regexp.MustCompile(`signed-by=([^\]\s]+)`)

// ownKey takes the key of a repository from the state that makes its file on the host. match is of signedBy.
func (c *conversion) ownKey(match []string) error {
	for _, d := range c.host.Low {
		if match == nil || d.Function() != "file.managed" || d.Name != match[1] || d.args["source"] == nil {
			continue
		}
		var err error
		c.args["key"], err = c.copyFile(d.args["source"])
		return err
	}
	return refuse("a repository whose key is a file of the host")
}

// sourcesDir is where APT reads the repositories of a host, but for the file /etc/apt/sources.list.
const sourcesDir = "/etc/apt/sources.list.d"

// noRepository removes the file of a repository. Salt removes the line of the repository, and the file if it has no
// other.
func noRepository(c *conversion) error {
	file := c.takeText("file")
	if path.Dir(file) != sourcesDir {
		return refuse("a repository without a file of its own in " + sourcesDir)
	}
	for _, d := range c.host.Low {
		if d.Function() == "pkgrepo.managed" && d.args["file"] == file {
			return refuse("a repository whose file another one has")
		}
	}
	c.args["path"] = file
	if key := c.takeText("keyid"); key != "" {
		c.note("argument keyid: the key stays on the host, where Salt removes it")
	}
	c.note("the whole file " + file + " is removed, where Salt removes the line of the repository")
	return nil
}
