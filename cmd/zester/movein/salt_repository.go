package movein

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

var aptLine = regexp.MustCompile(`^deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)\s*(.*)$`)

// repository reads a line of APT.
func repository(c *conversion) error {
	m := aptLine.FindStringSubmatch(c.Name)
	if m == nil {
		return refuse("a repository that is not a line such as deb URI SUITE COMPONENT")
	}
	isDisabled := c.takeBool("disabled", false)
	if isDisabled {
		return refuse("argument disabled: a repository that the host does not use")
	}
	if c.takeBool("clean_file", false) {
		c.note("Salt empties the file of the repository first: remove its other lines, or write it with file.managed")
	}
	if c.isOnlyLine(m) {
		return c.asLine(m)
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

// isOnlyLine reports whether a repository has options or a key that pkgrepo.managed cannot have. match is of aptLine.
func (c *conversion) isOnlyLine(match []string) bool {
	key, _ := c.left["key_url"].(string)
	for option := range strings.FieldsSeq(strings.Trim(match[1], "[] \t")) {
		name, value, _ := strings.Cut(option, "=")
		isOwn := slices.ContainsFunc(c.host.Low, func(d Declaration) bool {
			if d.Function() != "file.managed" || d.Name != value {
				return false
			}
			_, err := c.source.find(d.args["source"])
			return err == nil
		})
		if name != "arch" && name != "signed-by" || name == "signed-by" && key == "" && !isOwn {
			return true
		}
	}
	return strings.HasPrefix(key, "https://")
}

// asLine has the line of a repository in the file that Salt writes it to, and the key in the file that the line names.
func (c *conversion) asLine(match []string) error {
	given := c.takeTexts("file", "dist", "comps", "architectures", "key_url")
	if given[1] != "" && given[1] != match[3] {
		return refuse("argument dist: another suite than the line of the repository has")
	}
	options := strings.Fields(strings.Trim(match[1], "[] \t"))
	if given[3] != "" && !strings.Contains(match[1], "arch=") {
		options = append(options, "arch="+given[3])
	}
	added := strings.FieldsFunc(given[2], func(r rune) bool { return r == ',' || r == ' ' })
	components := union(strings.Fields(match[4]), added)
	words := []string{"deb"}
	if len(options) > 0 {
		words = append(words, "["+strings.Join(options, " ")+"]")
	}
	words = slices.Concat(words, match[2:4], components)
	old := `^[ \t]*deb[ \t]+(?:\[[^\]]*\][ \t]+)?` + regexp.QuoteMeta(match[2]) + `[ \t]+` + regexp.QuoteMeta(match[3])
	if len(components) > 0 { // Salt changes a line that has one of them
		for i, component := range components {
			components[i] = regexp.QuoteMeta(component)
		}
		old += `(?:[ \t].*)?[ \t](?:` + strings.Join(components, "|") + ")"
	}
	c.function, c.args = "file.line", map[string]any{
		"path": cmp.Or(given[0], "/etc/apt/sources.list"), "line": strings.Join(words, " "),
		"match": old + `(?:[ \t]|$)`,
	}
	if c.left["refresh"] != false && c.left["refresh_db"] != false {
		update := map[string]any{"argv": []string{"apt-get", "-q", "update"}}
		c.then = []made{{function: "cmd.run", args: update, reacts: true}}
	}
	if given[4] == "" {
		return nil
	}
	id := strings.Trim(notInNames.ReplaceAllString(c.source.hidden.mask(c.ID), "-"), "-.")
	key := path.Join("/etc/apt/trusted.gpg.d", id[:min(len(id), 100)]+".gpg")
	if m := signedBy.FindStringSubmatch(match[1]); m != nil {
		key = m[1]
	}
	c.note("the key is what its address gives in the first run, as in Salt; pkgrepo.managed has one from files/")
	c.first = []made{{function: "cmd.run", args: map[string]any{"command": fetchKey(given[4], key), "creates": key}}}
	return nil
}

// fetchKey returns the command that gets a key. apt reads a key in ASCII from a file with the ending .asc alone.
func fetchKey(address, file string) string {
	to, fresh := shell.Quote(file), shell.Quote(file+".new")
	lines := []string{
		"set -e", "mkdir -p " + shell.Quote(path.Dir(file)), "curl -fsSL -o " + fresh + " -- " + shell.Quote(address),
	}
	if path.Ext(file) != ".asc" {
		lines = append(lines, "if grep -q 'BEGIN PGP' "+fresh+"; then gpg --dearmor <"+fresh+" >"+to+
			".bin; mv "+to+".bin "+fresh+"; fi")
	}
	return strings.Join(append(lines, "chmod 644 "+fresh, "mv "+fresh+" "+to), "\n")
}

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
