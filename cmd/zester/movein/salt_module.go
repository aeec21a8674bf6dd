package movein

import (
	"regexp"
	"slices"
	"strings"
)

// noEffect are functions of modules that change nothing on a host, or that nothing needs here, with the reason.
var noEffect = map[string]string{
	"test.ping": "it changes nothing", "test.true": "it changes nothing", "test.nop": "it changes nothing",
	"saltutil.refresh_pillar": "peels get settings at once", "saltutil.sync_all": "peels get settings at once",
	"saltutil.refresh_modules": "peels get settings at once", "mine.update": "there is no mine",
	"saltutil.refresh_grains":  "facts are read again by themselves",
	"saltutil.sync_grains":     "facts are read again by themselves",
	"service.systemctl_reload": "a run of states has systemd read changed units again",
	"systemd.daemon_reload":    "a run of states has systemd read changed units again",
	"pkg.refresh_db":           "lists of packages are read again when they are old",
}

// ofServices are functions of the module service with what systemctl calls them.
var ofServices = map[string]string{
	"service.restart": "restart", "service.reload": "reload", "service.force_reload": "reload-or-restart",
	"service.start": "start", "service.stop": "stop", "service.enable": "enable", "service.disable": "disable",
}

// module reads a call of a function of a module of Salt. Both forms are read: the function as the name, and as a key.
func module(c *conversion) error {
	name, args, err := c.call()
	if err != nil {
		return err
	}
	if why, ok := noEffect[name]; ok {
		c.isDone = true
		c.note(name + " is left out: " + why)
		return nil
	}
	verb, isService := ofServices[name]
	if !isService && name != "cmd.run" {
		return refuse("the function %s of a module", name)
	}
	if len(args) != 1 || args[0] == "" {
		return refuse("the function %s of a module, with other arguments than one", name)
	}
	if isService {
		c.args["argv"] = []string{"systemctl", verb, args[0]}
		return nil
	}
	c.Name = args[0]
	c.args["command"] = c.Name
	return command(c)
}

// call takes the function that a declaration calls, and the values of its arguments.
func (c *conversion) call() (name string, args []string, err error) {
	name = c.Name
	var given []any
	for key, value := range c.left {
		if strings.Contains(key, ".") {
			if name != c.Name || c.Name != c.ID && strings.Contains(c.Name, ".") {
				return "", nil, refuse("a declaration with several functions of modules")
			}
			name = key
			given = append(given, value)
			c.take(key)
		}
	}
	for _, key := range []string{"m_name", "args", "kwargs", "func", "cmd"} {
		if value, ok := c.take(key); ok {
			given = append(given, value)
		}
	}
	for len(given) > 0 {
		value := given[0]
		given = given[1:]
		switch v := value.(type) {
		case nil:
		case []any:
			given = slices.Concat(v, given)
		case map[string]any:
			if len(v) != 1 || v["name"] == nil && v["cmd"] == nil && v["m_name"] == nil {
				return "", nil, refuse("the function %s of a module, with other arguments than one", name)
			}
			for _, one := range v {
				given = append(given, one)
			}
		default:
			args = append(args, plain(v))
		}
	}
	return name, args, nil
}

// blockReplaced reads a block between two lines.
func blockReplaced(c *conversion) error {
	c.args["begin"], c.args["end"] = "#-- start managed zone --", "#-- end managed zone --"
	for argument, here := range map[string]string{"marker_start": "begin", "marker_end": "end"} {
		if marker := c.takeText(argument); marker != "" {
			c.args[here] = marker
		}
	}
	content := c.takeText("content")
	if value, ok := c.take("source"); ok {
		f, err := c.source.find(value)
		switch {
		case err != nil:
			return err
		case c.isTemplate(string(f.text), "jinja"):
			return refuse("argument source: a template: give the text that Salt rendered as content")
		}
		content += string(f.text)
	} else if c.isTemplate(content, "") {
		return refuse("argument content: a template: give the text that Salt rendered")
	}
	parts, err := c.accumulatedBy()
	if err != nil {
		return err
	}
	if content != "" {
		parts = append([]string{content}, parts...)
	}
	c.noteDiff()
	c.note("a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end")
	return c.endOfBlock(strings.Join(parts, "\n"))
}

// endOfBlock reads how the block ends, and where a missing one is made.
func (c *conversion) endOfBlock(content string) error {
	ends := content == "" || strings.HasSuffix(content, "\n")
	value, _ := c.take("append_newline")
	switch newline, isBool := value.(bool); {
	case !isBool && !ends, newline && !ends:
		content += "\n"
	case newline:
		content += "\n" // Salt adds it to each content
	case isBool && !ends:
		return refuse("argument append_newline: false, and the content has no end of a line")
	}
	c.args["content"] = content
	appends, prepends := c.takeBool("append_if_not_found", false), c.takeBool("prepend_if_not_found", false)
	given := c.takeTexts("insert_before_match", "insert_after_match")
	place := map[string]any{"path": c.Name, "line": c.args["begin"]}
	switch {
	case prepends: // as Salt asks
		place["before"] = "^"
	case appends:
		return nil
	case given[0] != "":
		place["before"] = given[0]
	case given[1] != "":
		place["after"] = given[1]
		c.note("of several lines that insert_after_match matches the last counts: Salt takes the first")
	default:
		c.note("a block that is missing is added at the end of the file; Salt fails without append_if_not_found")
		return nil
	}
	c.first = []made{{function: "file.line", args: place}, {function: "file.line", args: map[string]any{
		"path": c.Name, "line": c.args["end"], "after": "^" + regexp.QuoteMeta(plain(c.args["begin"])) + "$",
	}}}
	return nil
}
