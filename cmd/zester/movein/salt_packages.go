package movein

import (
	"maps"
	"slices"
	"strings"
)

// newest reads the packages of a declaration that wants the newest version of them.
func newest(c *conversion) error {
	refreshes := c.takeBool("refresh", true)
	if !refreshes {
		c.note("argument refresh: False is left out: the lists of packages are refreshed before each pkg.latest")
	}
	return packageNames(c)
}

// latest is the version that has Salt upgrade a package.
const latest = "latest"

// names reads the packages of a declaration, and whether the lists of packages are refreshed.
func names(c *conversion) error {
	refresh, isGiven := c.take("refresh")
	refreshes, isBool := refresh.(bool)
	age, isOld := c.take("cache_valid_time")
	switch {
	case (isGiven || isOld) && c.Fun != "installed":
		return refuse("arguments refresh and cache_valid_time of a package that is removed")
	case isGiven && !isBool:
		return refuse("argument refresh: a value of another form")
	case isOld:
		c.note("argument cache_valid_time: " + plain(age) +
			" is left out: the lists of packages are refreshed if they are a day old or lack the package")
	case isGiven:
		c.args["refresh"] = refreshes
	}
	if c.left["version"] == latest && c.Fun == "installed" && c.left["pkgs"] == nil {
		c.take("version")
		delete(c.args, "refresh")
		c.function = "pkg.latest"
	}
	return packageNames(c)
}

// packageNames reads the packages of a declaration. Those with versions become states of their own.
func packageNames(c *conversion) error {
	value, ok := c.take("pkgs")
	if !ok {
		return nil
	}
	elements, ok := value.([]any)
	if !ok || len(elements) == 0 {
		return refuse("argument pkgs: a value of another form")
	}
	c.take("version") // Salt does not read it beside pkgs
	var all []string
	for _, element := range elements {
		versions, isMap := element.(map[string]any)
		switch {
		case isScalar(element):
			all = append(all, plain(element))
		case isMap && c.Fun == "installed":
			for _, name := range slices.Sorted(maps.Keys(versions)) {
				if versions[name] == latest {
					return refuse("argument pkgs: a package in its latest version: give it as pkg.latest")
				}
				more := map[string]any{"name": name, "version": plain(versions[name])}
				if refresh, isGiven := c.args["refresh"]; isGiven {
					more["refresh"] = refresh
				}
				c.more = append(c.more, more)
			}
		default:
			return refuse("argument pkgs: a value of another form")
		}
	}
	delete(c.args, "name")
	if len(all) == 0 {
		maps.Copy(c.args, c.more[0])
		c.more = c.more[1:]
		return nil
	}
	slices.Sort(all)
	c.args["names"] = slices.Compact(all)
	return nil
}

// answers reads the questions of a package with their types and values.
func answers(c *conversion) error {
	value, _ := c.take("data")
	questions, ok := value.(map[string]any)
	if !ok {
		return refuse("argument data: a value of another form")
	}
	var content strings.Builder
	for _, question := range slices.Sorted(maps.Keys(questions)) {
		answer, ok := questions[question].(map[string]any)
		if !ok || answer["type"] == nil {
			return refuse("argument data: a value of another form")
		}
		value := number(answer["value"], "")
		if answer["type"] == "boolean" {
			value = strings.ToLower(value)
		}
		content.WriteString(strings.TrimSpace(question+" "+plain(answer["type"])+" "+value) + "\n")
	}
	c.args["content"] = content.String()
	return nil
}
