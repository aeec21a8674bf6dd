package movein

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
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
	for _, value := range sections {
		if _, isSection := value.(map[string]any); isSection {
			return c.inSections(sections, separator)
		}
	}
	c.note(forAll + "an option of the same value with other blanks is written again: Salt leaves it")
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if !isScalar(sections[name]) {
			return refuse("argument sections: a value of another form")
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

// inSections writes each option below the name of its section.
func (c *conversion) inSections(sections map[string]any, separator string) error {
	c.note("options of sections are set by commands, so that the peel keeps no copy of what they replace")
	var all []made
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		options, ok := sections[section].(map[string]any)
		if !ok {
			return refuse("argument sections: options of a section, and some of none: give these in another state")
		}
		for _, name := range slices.Sorted(maps.Keys(options)) {
			value := plain(options[name])
			if !isScalar(options[name]) || strings.ContainsAny(section+name+value, "\r\n") {
				return refuse("argument sections: a value of another form")
			}
			all = append(all, inSection(c.Name, section, name, separator, value))
		}
	}
	if len(all) == 0 {
		return refuse("argument sections: a value of another form")
	}
	c.function, c.args, c.then = "cmd.run", all[0].args, all[1:]
	c.unless = guardsOf(all[0].fields, "unless")
	return nil
}

// inSection returns the command that sets an option of a section, with a test whether it has the value. It removes the
// option from the section and writes it after the name of the section.
func inSection(file, section, name, separator, value string) made {
	of, word := cmp.Or(strings.TrimSpace(separator), "="), shell.Quote(file)
	basic := func(text string) string { return inBasic.ReplaceAllString(text, `\$0`) }
	header := `^\[` + basic(section) + `\]`
	option := "^[[:space:]]*" + basic(name) + "[[:space:]]*" + basic(of)
	line := strings.ReplaceAll(name+separator+value, `\`, `\\`)
	makes := "grep -q -e " + shell.Quote(header) + " -- " + word + ` || printf '\n[%s]\n' ` + shell.Quote(section) +
		" >> " + word
	sets := "sed -i -e " + shell.Quote("/"+header+`/,/^\[/{/`+option+"/d;}") + " -e " +
		shell.Quote("/"+header+"/a "+line) + " -- " + word
	const above = `\][^\n]*\n(?:(?!\[)[^\n]*\n)*?[ \t]*` // the end of the header, and the lines before the option
	test := `(?m)^\[` + regexp.QuoteMeta(section) + above + regexp.QuoteMeta(name) + `[ \t]*` + regexp.QuoteMeta(of) +
		`[ \t]*` + regexp.QuoteMeta(value) + `[ \t]*$`
	return made{
		function: "cmd.run", args: map[string]any{"command": makes + "\n" + sets},
		fields: map[string]any{"unless": []string{"grep -Pzq -e " + shell.Quote(test) + " -- " + word}},
	}
}

// optionPattern returns the regular expression of the line of an option, after its indentation.
func optionPattern(name, separator string) string {
	word := strings.TrimSpace(separator)
	if word == "" {
		return regexp.QuoteMeta(name) + `[ \t]+`
	}
	return regexp.QuoteMeta(name) + `[ \t]*` + regexp.QuoteMeta(word)
}
