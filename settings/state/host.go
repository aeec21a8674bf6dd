package state

import (
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
)

// Packages are the packages of a state: one by name, or several.
type Packages struct {
	Name  string
	Names []string
}

// All returns the names of the packages.
func (p Packages) All() []string {
	if p.Names != nil {
		return p.Names
	}
	return []string{p.Name}
}

func (p Packages) owns() (all []resource) {
	for _, name := range p.All() {
		all = append(all, resource{"package", name, false})
	}
	return all
}

var packageName = newShape(`^[A-Za-z0-9][A-Za-z0-9+._:-]*$`, 128)

func (c *checks) packages(p Packages) {
	if p.Names != nil && len(p.Names) == 0 {
		c.add("names", "the list is empty")
	}
	for _, name := range p.All() {
		if name != "" && !packageName.MatchString(name) {
			c.add("name", "%q is not a name of a package", name)
		}
	}
	if i := firstRepeated(p.Names); i >= 0 {
		c.add("names", "%q is given twice", p.Names[i])
	}
}

// firstRepeated returns the index of the first element that an earlier one equals, -1 if there is none.
func firstRepeated(list []string) int {
	for i, s := range list {
		if slices.Index(list, s) < i {
			return i
		}
	}
	return -1
}

// PkgInstalled holds the arguments of pkg.installed.
type PkgInstalled struct {
	Name          string   `yaml:"name" doc:"name of the package"`
	Names         []string `yaml:"names" doc:"names of several packages, instead of name"`
	Version       string   `yaml:"version" doc:"the version; default: any"`
	AllowRemovals bool     `yaml:"allow_removals" doc:"other packages may be removed for it"`
	Refresh       *bool    `yaml:"refresh" doc:"true: refresh the lists of packages first; false: never"`
}

func (a *PkgInstalled) setMain(name string) { setMainPackage(&a.Name, a.Names, name) }
func (a *PkgInstalled) owns() []resource    { return Packages{a.Name, a.Names}.owns() }
func (a *PkgInstalled) check(complete bool) []problem {
	c := checks{complete: complete}
	c.packages(Packages{a.Name, a.Names})
	if a.Version != "" && (a.Names != nil || !packageVersion.MatchString(a.Version)) {
		c.add("version", "one version of one package, such as 1.18.0-6")
	}
	return c.problems
}

var packageVersion = newShape(`^[A-Za-z0-9][A-Za-z0-9.+:~^_-]*$`, 128)

// PkgLatest holds the arguments of pkg.latest.
type PkgLatest struct {
	Name  string   `yaml:"name" doc:"name of the package"`
	Names []string `yaml:"names" doc:"names of several packages, instead of name"`
}

func (a *PkgLatest) setMain(name string) { setMainPackage(&a.Name, a.Names, name) }
func (a *PkgLatest) owns() []resource    { return Packages{a.Name, a.Names}.owns() }
func (a *PkgLatest) check(complete bool) []problem {
	c := checks{complete: complete}
	c.packages(Packages{a.Name, a.Names})
	return c.problems
}

// PkgRemoved holds the arguments of pkg.removed.
type PkgRemoved struct {
	Name  string   `yaml:"name" doc:"name of the package"`
	Names []string `yaml:"names" doc:"names of several packages, instead of name"`
	Purge bool     `yaml:"purge" doc:"remove its configuration too"`
}

func (a *PkgRemoved) setMain(name string) { setMainPackage(&a.Name, a.Names, name) }
func (a *PkgRemoved) owns() []resource    { return Packages{a.Name, a.Names}.owns() }
func (a *PkgRemoved) check(complete bool) []problem {
	c := checks{complete: complete}
	c.packages(Packages{a.Name, a.Names})
	return c.problems
}

func setMainPackage(arg *string, names []string, name string) {
	if names == nil {
		setDefault(arg, name)
	}
}

// PkgRepoManaged holds the arguments of pkgrepo.managed.
type PkgRepoManaged struct {
	File       string   `yaml:"file" doc:"name of the file, without directory and ending"`
	URIs       []string `yaml:"uris" doc:"addresses of the repository"`
	Suites     []string `yaml:"suites" doc:"suites, such as bookworm"`
	Components []string `yaml:"components" doc:"components, such as main"`
	Key        string   `yaml:"key" doc:"file below files/ of the config repo with the public key"`
	Absent     bool     `yaml:"absent" doc:"remove the repository"`
}

var fileName = newShape(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`, 64)

func (a *PkgRepoManaged) setMain(name string) { setDefault(&a.File, name) }
func (a *PkgRepoManaged) owns() []resource    { return []resource{{"package repository", a.File, false}} }

func (a *PkgRepoManaged) check(complete bool) []problem {
	c := checks{complete: complete}
	c.fileName("file", a.File)
	c.source("key", a.Key)
	if a.URIs == nil && !a.Absent {
		c.missing("uris", "give the addresses of the repository")
	}
	for _, uri := range a.URIs {
		if name, isPPA := strings.CutPrefix(uri, "ppa:"); isPPA {
			c.add("uris", "apt knows no %s: write https://ppa.launchpadcontent.net/%s/ubuntu, and its key as key", uri,
				name)
		}
	}
	for _, list := range [][]string{a.URIs, a.Suites, a.Components} {
		for _, word := range list {
			if word == "" || strings.ContainsAny(word, " \t\r\n\x00") {
				c.add("", "%q is not one word", word)
			}
		}
	}
	return c.problems
}

func (c *checks) fileName(arg, name string) {
	if name != "" && !fileName.MatchString(name) {
		c.add(arg, "%q is not a name of a file: letters, digits and _ . -, without a directory", name)
	}
}

// ServiceRunning holds the arguments of service.running.
type ServiceRunning struct {
	Name   string `yaml:"name" doc:"name of the unit"`
	Enable *bool  `yaml:"enable" doc:"true: start it at boot; false: do not; default: left as it is"`
	Reload bool   `yaml:"reload" doc:"react to changes by a reload instead of a restart"`
	Unmask bool   `yaml:"unmask" doc:"start the unit though it is masked, which is taken back"`
}

var unitName = newShape(`^[A-Za-z0-9:_.\\@-]+$`, 255)

func (c *checks) unit(name string) {
	if name != "" && !unitName.MatchString(name) {
		c.add("name", "%q is not a name of a unit", name)
	}
}

// unitTypes are the endings of names of units.
var unitTypes = []string{
	".service", ".socket", ".timer", ".path", ".mount", ".automount", ".swap", ".target", ".slice", ".scope", ".device",
}

// UnitName returns the full name of a unit: one without the ending of a type of units is a service.
func UnitName(name string) string {
	if slices.Contains(unitTypes, path.Ext(name)) {
		return name
	}
	return name + ".service"
}

func (a *ServiceRunning) setMain(name string) { setDefault(&a.Name, name) }
func (a *ServiceRunning) owns() []resource    { return []resource{{"service", UnitName(a.Name), false}} }

func (a *ServiceRunning) check(complete bool) []problem {
	c := checks{complete: complete}
	c.unit(a.Name)
	return c.problems
}

// ServiceDead holds the arguments of service.dead.
type ServiceDead struct {
	Name   string `yaml:"name" doc:"name of the unit"`
	Enable *bool  `yaml:"enable" doc:"false: do not start it at boot"`
	Mask   bool   `yaml:"mask" doc:"make it impossible to start"`
}

func (a *ServiceDead) setMain(name string) { setDefault(&a.Name, name) }
func (a *ServiceDead) owns() []resource    { return []resource{{"service", UnitName(a.Name), false}} }

func (a *ServiceDead) check(complete bool) []problem {
	c := checks{complete: complete}
	c.unit(a.Name)
	if a.Enable != nil && *a.Enable {
		c.add("enable", "a service that should not run cannot be enabled; write enable: false or leave it out")
	}
	return c.problems
}

// ServiceEnabled holds the arguments of service.enabled.
type ServiceEnabled struct {
	Name string `yaml:"name" doc:"name of the unit"`
}

func (a *ServiceEnabled) setMain(name string) { setDefault(&a.Name, name) }
func (a *ServiceEnabled) owns() []resource {
	return []resource{{"start at boot of", UnitName(a.Name), false}}
}

func (a *ServiceEnabled) check(complete bool) []problem {
	c := checks{complete: complete}
	c.unit(a.Name)
	return c.problems
}

// ServiceDisabled holds the arguments of service.disabled.
type ServiceDisabled struct {
	Name string `yaml:"name" doc:"name of the unit"`
}

func (a *ServiceDisabled) setMain(name string) { setDefault(&a.Name, name) }
func (a *ServiceDisabled) owns() []resource {
	return []resource{{"start at boot of", UnitName(a.Name), false}}
}

func (a *ServiceDisabled) check(complete bool) []problem {
	c := checks{complete: complete}
	c.unit(a.Name)
	return c.problems
}

// CronPresent holds the arguments of cron.present, which is a file in /etc/cron.d.
type CronPresent struct {
	Name    string            `yaml:"name" doc:"name of the file in /etc/cron.d"`
	Command string            `yaml:"command" doc:"command that cron runs"`
	User    string            `yaml:"user" doc:"user to run as; default: root"`
	Cron    string            `yaml:"cron" doc:"the times, such as \"30 2 * * *\" or @reboot"`
	Env     map[string]string `yaml:"env" doc:"variables of the crontab"`
}

var cronName = newShape(`^[A-Za-z0-9_-]+$`, 64) // cron ignores files with other characters

func (c *checks) cronFile(name string) {
	if name != "" && !cronName.MatchString(name) {
		c.add("name", "%q is not a name of a file in /etc/cron.d: letters, digits, _ and -", name)
	}
}

func (a *CronPresent) setMain(name string) { setDefault(&a.Name, name) }
func (a *CronPresent) owns() []resource    { return []resource{{"path", "/etc/cron.d/" + a.Name, false}} }

func (a *CronPresent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.cronFile(a.Name)
	c.name("user", a.User)
	switch {
	case a.Command == "":
		c.missing("command", "give the command that cron runs")
	case strings.ContainsAny(a.Command, "\r\n\x00"):
		c.add("command", "must be one line")
	}
	if a.Cron == "" {
		c.missing("cron", "give the time, such as \"30 2 * * *\"")
	} else if err := crontab.Check(a.Cron); err != nil {
		c.add("cron", "%v", err)
	}
	for name, value := range a.Env {
		if !cronVariable.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			c.add("env", "%q is not a variable of a crontab", name)
		}
	}
	return c.problems
}

var cronVariable = newShape(`^[A-Za-z_][A-Za-z0-9_]*$`, anyLength)

// CronAbsent holds the arguments of cron.absent.
type CronAbsent struct {
	Name string `yaml:"name" doc:"name of the file in /etc/cron.d"`
}

func (a *CronAbsent) setMain(name string) { setDefault(&a.Name, name) }
func (a *CronAbsent) owns() []resource    { return []resource{{"path", "/etc/cron.d/" + a.Name, false}} }

func (a *CronAbsent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.cronFile(a.Name)
	return c.problems
}

// UserPresent holds the arguments of user.present.
type UserPresent struct {
	Name       string   `yaml:"name" doc:"name of the user"`
	UID        *uint32  `yaml:"uid" doc:"number of the user"`
	Group      string   `yaml:"group" doc:"primary group"`
	Groups     []string `yaml:"groups" doc:"further groups; others that the user has stay"`
	Home       string   `yaml:"home" doc:"home directory"`
	Shell      string   `yaml:"shell" doc:"login shell"`
	Comment    *string  `yaml:"comment" doc:"comment, such as the full name"`
	Password   string   `yaml:"password" doc:"hash as in /etc/shadow"`
	System     bool     `yaml:"system" doc:"a system user"`
	CreateHome *bool    `yaml:"create_home" doc:"make the home directory"`
}

func (a *UserPresent) setMain(name string) { setDefault(&a.Name, name) }
func (a *UserPresent) owns() []resource    { return []resource{{"user", a.Name, false}} }
func (a *UserPresent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.name("name", a.Name)
	c.name("group", a.Group)
	for _, g := range a.Groups {
		c.name("groups", g)
	}
	c.path("home", a.Home)
	c.path("shell", a.Shell)
	if a.Comment != nil && strings.ContainsAny(*a.Comment, ":\r\n\x00") {
		c.add("comment", "must be one line without a colon")
	}
	if a.Password != "" && (strings.ContainsAny(a.Password, ":\r\n\x00") ||
		a.Password[0] != '$' && a.Password != "!" && a.Password != "*") {
		c.add("password", "must be a hash as in /etc/shadow, such as the output of mkpasswd")
	}
	return c.problems
}

// UserAbsent holds the arguments of user.absent.
type UserAbsent struct {
	Name       string `yaml:"name" doc:"name of the user"`
	RemoveHome bool   `yaml:"remove_home" doc:"remove the home directory too"`
}

func (a *UserAbsent) setMain(name string) { setDefault(&a.Name, name) }
func (a *UserAbsent) owns() []resource    { return []resource{{"user", a.Name, false}} }
func (a *UserAbsent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.name("name", a.Name)
	if a.Name == "root" {
		c.add("name", "root cannot be removed")
	}
	return c.problems
}

// GroupPresent holds the arguments of group.present.
type GroupPresent struct {
	Name   string  `yaml:"name" doc:"name of the group"`
	GID    *uint32 `yaml:"gid" doc:"number of the group"`
	System bool    `yaml:"system" doc:"a system group"`

	Members []string `yaml:"members" doc:"users who are in the group; others in it stay"`
}

func (a *GroupPresent) setMain(name string) { setDefault(&a.Name, name) }
func (a *GroupPresent) owns() []resource    { return []resource{{"group", a.Name, false}} }
func (a *GroupPresent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.name("name", a.Name)
	for _, user := range a.Members {
		c.name("members", user)
	}
	return c.problems
}

// GroupAbsent holds the arguments of group.absent.
type GroupAbsent struct {
	Name string `yaml:"name" doc:"name of the group"`
}

func (a *GroupAbsent) setMain(name string) { setDefault(&a.Name, name) }
func (a *GroupAbsent) owns() []resource    { return []resource{{"group", a.Name, false}} }
func (a *GroupAbsent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.name("name", a.Name)
	if a.Name == "root" {
		c.add("name", "root cannot be removed")
	}
	return c.problems
}
