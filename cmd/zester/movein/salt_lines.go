package movein

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// oneLine reads file.line of Salt.
func oneLine(c *conversion) error {
	names := []string{"mode", "content", "match", "after", "before", "location"}
	values := c.takeTexts(names...)
	c.noteDiff()
	c.ifThere("quiet")
	indents := c.takeBool("indent", true)
	given := map[string]string{}
	for i, name := range names {
		given[name] = values[i]
		if name == "match" || name == "after" || name == "before" {
			given[name] = patternOf(values[i])
		}
	}

	hasPlace := (given["after"] == "") != (given["before"] == "")
	switch mode := given["mode"]; {
	case (mode == "ensure" || mode == "insert") && (hasPlace || mode == "insert" && given["location"] == "end"):
		c.args["line"] = given["content"]
		for _, place := range []string{"after", "before"} {
			if given[place] != "" {
				c.args[place] = given[place]
			}
		}
		c.notePlace(given, indents)
	case mode == "replace" && given["match"] != "":
		c.lineReplaced(given, indents)
	case mode == "delete":
		c.args["absent"] = true
		c.args["match"] = cmp.Or(given["match"], patternOf(given["content"]))
	default:
		return refuse("argument mode: %s with these other arguments", mode)
	}
	return nil
}

// patternOf returns a regular expression for what Salt takes for one or for a part of a line.
func patternOf(text string) string {
	isExpression := strings.HasPrefix(text, "^") || strings.HasSuffix(text, "$")
	if re, err := regexp.Compile(text); isExpression || err != nil || re.MatchString(text) {
		return text
	}
	return "(?:" + text + ")|" + regexp.QuoteMeta(text)
}

// notePlace notes what Salt does with the beginning of a new line, and with a file that is missing.
func (c *conversion) notePlace(given map[string]string, indents bool) {
	if given["after"]+given["before"] != "" {
		c.note(forAll + "a line that is anywhere in the file is left, and of several places the last counts: " +
			"Salt looks beside the place, and fails if there are several")
	}
	if indents && !beginsLine.MatchString(given["after"]+given["before"]) {
		c.note("Salt gives the line the indentation of the one beside it, unless indent is false; write it into line")
	}
	if given["location"] == "end" && c.left["create"] != true {
		c.note("a file that is missing is made: Salt fails, unless create is true")
	}
}

// beginsLine matches an expression of lines that have no indentation.
var beginsLine = regexp.MustCompile(`^\^[A-Za-z0-9#]`)

// lineReplaced has the first line that matches replaced, and none added. Salt keeps the indentation.
func (c *conversion) lineReplaced(given map[string]string, indents bool) {
	c.function = "file.replace"
	line := strings.ReplaceAll(given["content"], "$", "$$")
	indentation := ""
	if indents {
		indentation, line = `([ \t]*)`, "${2}"+strings.TrimLeft(line, " \t")
	}
	c.args["pattern"], c.args["repl"] = firstLine+indentation+".*(?:"+given["match"]+").*$", "${1}"+line
	if indents && strings.HasPrefix(given["match"], "^") && !beginsLine.MatchString(given["match"]) {
		c.note("Salt keeps the indentation of a line that it replaces; write it into repl")
	}
}

// pip reads the packages of a virtual environment, which pip.installed makes here.
func pip(c *conversion) error {
	venv := c.takeText("bin_env")
	if venv == "" {
		return refuse("no argument bin_env: here pip installs into a virtual environment alone; give its directory " +
			"as venv, or the package of the distribution, python3-NAME, as pkg.installed")
	}
	if path.Base(path.Dir(venv)) == "bin" { // the path of its pip
		venv = path.Dir(path.Dir(venv))
	}
	c.args["venv"] = venv
	all, err := c.packagesOf()
	if err != nil {
		return err
	}
	_, isFile := c.left["requirements"]
	required, err := c.required()
	if err != nil {
		return err
	}
	if c.Declaration.args["pkgs"] == nil && isFile {
		all = nil
	}
	if all = append(all, required...); len(all) == 1 && !isFile && all[0] == c.Name {
		return nil
	}
	delete(c.args, "name")
	slices.Sort(all)
	c.args["names"] = slices.Compact(all)
	return nil
}
