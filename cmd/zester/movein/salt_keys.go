package movein

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// keys reads SSH keys. The name of the declaration is a key, with or without its type and comment.
func keys(c *conversion) error {
	file := c.takeText("config")
	if !slices.Contains([]string{"", ".ssh/authorized_keys", "%h/.ssh/authorized_keys"}, file) {
		return refuse("argument config: another file than .ssh/authorized_keys")
	}
	if source, ok := c.take("source"); ok {
		return c.keysOf(source)
	}
	kind := c.takeText("enc")
	comment := c.takeText("comment")
	options, err := c.keyOptions()
	if err != nil {
		return err
	}
	line := c.Name
	if !strings.Contains(line, " ") {
		line = strings.TrimSpace(cmp.Or(keyKinds[kind], kind, "ssh-rsa") + " " + line + " " + comment)
	}
	c.args["keys"] = []string{options + line}
	return nil
}

// keyKinds are the short names that Salt has for types of keys.
var keyKinds = map[string]string{
	"rsa": "ssh-rsa", "dsa": "ssh-dss", "ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256",
}

// keyOptions returns the argument options as it is before a key: with a blank at its end, or empty.
func (c *conversion) keyOptions() (string, error) {
	value, _ := c.take("options")
	options, ok := texts(value)
	switch {
	case value != nil && !ok:
		return "", refuse("argument options: a value of another form")
	case len(options) == 0:
		return "", nil
	}
	return strings.Join(options, ",") + " ", nil
}

// keysOf reads the keys in a file of Salt. Salt puts options only before a line that begins with a type of key.
func (c *conversion) keysOf(source any) error {
	f, err := c.source.find(source)
	if err != nil {
		return err
	}
	options, err := c.keyOptions()
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(f.text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if options != "" && !strings.HasPrefix(line, "ssh-") && !strings.HasPrefix(line, "ecdsa-") {
			return refuse("argument options: a line of the file does not begin with ssh- or ecdsa-")
		}
		lines = append(lines, options+line)
	}
	if len(lines) == 0 {
		return refuse("argument source: a file without keys")
	}
	c.args["keys"] = lines
	return nil
}

// options writes each option of a file that has no sections as a line of its own.
func options(c *conversion) error {
	value, _ := c.take("sections")
	sections, ok := value.(map[string]any)
	if !ok || len(sections) == 0 {
		return refuse("argument sections: a value of another form")
	}
	separator := c.takeText("separator")
	if c.takeBool("strict", false) {
		return refuse("argument strict: true, which removes other options")
	}
	packed := c.takeBool("no_spaces", false)
	if separator = cmp.Or(separator, "="); separator != " " && !packed {
		separator = " " + separator + " " // as Salt writes it
	}
	c.note(forAll + "an option of the same value with other blanks is written again: Salt leaves it")
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if !isScalar(sections[name]) {
			return refuse("argument sections: options below the name of a section")
		}
		all = append(all, map[string]any{
			"path": c.Name, "line": name + separator + plain(sections[name]),
			"match": `^[ \t]*` + optionPattern(name, separator),
		})
	}
	maps.Copy(c.args, all[0])
	c.more = all[1:]
	return nil
}

// optionPattern returns the regular expression of the line of an option, after its indentation.
func optionPattern(name, separator string) string {
	word := strings.TrimSpace(separator)
	if word == "" {
		return regexp.QuoteMeta(name) + `[ \t]+`
	}
	return regexp.QuoteMeta(name) + `[ \t]*` + regexp.QuoteMeta(word)
}
