package movein

import (
	"maps"
	"regexp"
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
	version := number(c.left["version"], latest)
	if c.Fun == "installed" && c.left["pkgs"] == nil && !exactVersion.MatchString(version) {
		c.take("version")
		c.note("the package " + c.Name + " is installed in any version: Salt wants " + version)
	}
	if c.left["update_holds"] == true {
		c.take("update_holds")
		c.note("a held package that is to be changed makes the state fail: Salt changes it, as update_holds is true")
	}
	hold, hasHold := c.left["hold"].(bool)
	if hasHold && c.Fun == "installed" {
		c.take("hold")
		defer c.holds(hold)
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
				if c.inVersion(name, versions[name]) {
					all = append(all, name)
				}
			}
		default:
			return refuse("argument pkgs: a value of another form")
		}
	}
	delete(c.args, "name")
	switch {
	case len(all) > 0:
		slices.Sort(all)
		c.args["names"] = slices.Compact(all)
	case len(c.more) > 0:
		maps.Copy(c.args, c.more[0])
		c.more = c.more[1:]
	default: // all in their latest version
		c.function, c.args, c.then = c.then[0].function, c.then[0].args, nil
	}
	return nil
}

// exactVersion matches the version of a package, without a sign before it and without a * in it.
var exactVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+:~^_-]*$`)

// inVersion makes a state of a package in a version, or reports that the package is one of those without a version.
func (c *conversion) inVersion(name string, version any) (isAny bool) {
	switch {
	case version == nil:
		return true
	case version == latest && len(c.then) == 0:
		c.then = []made{{function: "pkg.latest", args: map[string]any{"names": []string{name}}}}
		return false
	case version == latest:
		names := c.then[0].args["names"].([]string)
		c.then[0].args["names"] = append(names, name)
		return false
	case !exactVersion.MatchString(plain(version)):
		c.note("the package " + name + " is installed in any version: Salt wants " + plain(version))
		return true
	}
	more := map[string]any{"name": name, "version": plain(version)}
	if refresh, isGiven := c.args["refresh"]; isGiven {
		more["refresh"] = refresh
	}
	c.more = append(c.more, more)
	return false
}

// holds has packages that are installed held in their version, or no longer held.
func (c *conversion) holds(hold bool) {
	if family, _ := c.host.Grains["os_family"].(string); family != "" && family != "Debian" {
		if c.err == nil {
			c.err = refuse("argument hold: apt-mark is not on this host")
		}
		return
	}
	all, ok := c.args["names"].([]string)
	if !ok {
		all = []string{plain(c.args["name"])}
	}
	for _, more := range c.more {
		all = append(slices.Clone(all), plain(more["name"]))
	}
	for _, m := range c.then {
		all = append(slices.Clone(all), m.args["names"].([]string)...)
	}
	verb, guard := "hold", "unless"
	tests := make([]string, len(all))
	for i, name := range all {
		tests[i] = "apt-mark showhold | grep -Fqx " + words(name)
	}
	test := strings.Join(tests, " && ")
	if !hold {
		verb, guard, test = "unhold", "onlyif", strings.Join(tests, " || ")
	}
	c.then = append(c.then, made{
		function: "cmd.run", args: map[string]any{"argv": slices.Concat([]string{"apt-mark", verb}, all)},
		fields: map[string]any{guard: []string{test}},
	})
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
