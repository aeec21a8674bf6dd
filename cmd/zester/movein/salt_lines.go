package movein

import (
	"path"
	"slices"
)

// oneLine reads file.line of Salt. What it takes for a part of a line or for a regular expression is one here.
func oneLine(c *conversion) error {
	given := map[string]string{}
	for _, name := range []string{"mode", "content", "match", "after", "before", "location"} {
		text, err := c.takeText(name)
		if err != nil {
			return err
		}
		given[name] = text
	}
	for _, name := range []string{"indent", "show_changes", "quiet", "create"} {
		delete(c.left, name)
	}
	set := func(here, salt string) {
		if given[salt] != "" {
			c.args[here] = given[salt]
		}
	}
	hasPlace := (given["after"] == "") != (given["before"] == "")
	switch mode := given["mode"]; {
	case (mode == "ensure" || mode == "insert") && (hasPlace || mode == "insert" && given["location"] == "end"):
		set("line", "content")
		set("after", "after")
		set("before", "before")
	case mode == "replace" && given["match"] != "":
		set("line", "content")
		set("match", "match")
		c.note("Salt keeps the indentation of a line that it replaces; write it into line")
	case mode == "delete":
		c.args["absent"] = true
		set("match", "match")
		if given["match"] == "" {
			set("match", "content")
		}
	default:
		return refuse("argument mode: %s with these other arguments", mode)
	}
	return nil
}

// pip reads the packages of a virtual environment, which pip.installed makes here.
func pip(c *conversion) error {
	venv, err := c.takeText("bin_env")
	if err != nil {
		return err
	}
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
