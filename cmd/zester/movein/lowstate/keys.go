package lowstate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// keys reads SSH keys. The name of the declaration is a key, with or without its type and comment.
func keys(c *conversion) error {
	if source, ok := c.take("source"); ok {
		return c.keysOf(source)
	}
	kind, err := c.takeText("enc")
	if err != nil {
		return err
	}
	comment, err := c.takeText("comment")
	if err != nil {
		return err
	}
	value, _ := c.take("options")
	options, ok := texts(value)
	if value != nil && !ok {
		return refuse("argument options: a value of another form")
	}
	line := c.Name
	if !strings.Contains(line, " ") {
		line = strings.TrimSpace(cmp.Or(kind, "ssh-rsa") + " " + line + " " + comment)
	}
	if len(options) > 0 {
		line = strings.Join(options, ",") + " " + line
	}
	c.args["keys"] = []string{line}
	return nil
}

// keysOf reads the keys in a file of Salt.
func (c *conversion) keysOf(source any) error {
	_, text, err := c.source.find(source)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return refuse("argument source: a file without keys")
	}
	for _, name := range []string{"enc", "comment", "options", "source_hash"} {
		delete(c.left, name)
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
	separator, err := c.takeText("separator")
	if err != nil {
		return err
	}
	if strict, err := c.takeBool("strict", false); err != nil || strict {
		return cmp.Or(err, refuse("argument strict: true, which removes other options"))
	}
	packed, err := c.takeBool("no_spaces", false)
	if err != nil {
		return err
	}
	if separator = cmp.Or(separator, "="); separator != " " && !packed {
		separator = " " + separator + " " // as Salt writes it
	}
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if !isScalar(sections[name]) {
			return refuse("argument sections: options below the name of a section")
		}
		all = append(all, map[string]any{
			"path": c.Name, "line": name + separator + plain(sections[name]), "match": optionPattern(name, separator),
		})
	}
	maps.Copy(c.args, all[0])
	c.more = all[1:]
	return nil
}

// optionPattern returns the regular expression of the line of an option.
func optionPattern(name, separator string) string {
	word := strings.TrimSpace(separator)
	if word == "" {
		return `^\s*` + regexp.QuoteMeta(name) + `\s+`
	}
	return `^\s*` + regexp.QuoteMeta(name) + `\s*` + regexp.QuoteMeta(word)
}
