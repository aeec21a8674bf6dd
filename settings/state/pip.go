package state

import "strings"

// PipInstalled holds the arguments of pip.installed.
type PipInstalled struct {
	Name      string   `yaml:"name" doc:"Python package, such as requests or requests==2.32.3"`
	Names     []string `yaml:"names" doc:"several packages, instead of name"`
	Venv      string   `yaml:"venv" doc:"directory of the virtual environment, which is made if it is missing"`
	User      string   `yaml:"user" doc:"user who runs pip and owns the environment; default: root"`
	Index     string   `yaml:"index" doc:"address of the package index; default: that of pip"`
	FindLinks string   `yaml:"find_links" doc:"directory on the host with packages, instead of an index"`
}

// A PythonPackage is a package of Python, and the version that is wanted, empty for any.
type PythonPackage struct{ Name, Extras, Version string }

var (
	pythonPackage = newShape(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?`+
		`(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?$`, 200)
	pythonName = strings.NewReplacer("_", "-", ".", "-")
)

// PythonName returns the name of a package under which an index has it: two names that differ in case or in the
// characters between words are one.
func PythonName(name string) string {
	name = pythonName.Replace(strings.ToLower(name))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	return name
}

// Packages returns the packages of the state.
func (a *PipInstalled) Packages() (all []PythonPackage) {
	for _, text := range (Packages{a.Name, a.Names}).All() {
		name, version, _ := strings.Cut(text, "==")
		name, extras, _ := strings.Cut(name, "[")
		all = append(all, PythonPackage{name, strings.TrimSuffix(extras, "]"), version})
	}
	return all
}

func (a *PipInstalled) setMain(name string) { setMainPackage(&a.Name, a.Names, name) }

func (a *PipInstalled) owns() (all []resource) {
	if a.Venv != "" {
		all = append(all, resource{"path", a.Venv + "/.", true}) // another state may own the directory
	}
	for _, p := range a.Packages() {
		all = append(all, resource{"Python package", PythonName(p.Name) + " in " + a.Venv, false})
	}
	return all
}

func (a *PipInstalled) check(complete bool) []problem {
	c := checks{complete: complete}
	if a.Names != nil && len(a.Names) == 0 {
		c.add("names", "the list is empty")
	}
	for _, text := range (Packages{a.Name, a.Names}).All() {
		if text != "" && !pythonPackage.MatchString(text) {
			c.add("name", "%q is no Python package: write NAME or NAME==VERSION, such as requests==2.32.3", text)
		}
	}
	c.path("venv", a.Venv)
	c.removable("venv", a.Venv)
	c.path("find_links", a.FindLinks)
	c.name("user", a.User)
	if a.Venv == "" {
		c.missing("venv", "give venv, the directory of a virtual environment: pip never changes the Python of the host")
	}
	switch {
	case a.Index != "" && a.FindLinks != "":
		c.add("find_links", "give index or find_links, not both")
	case a.Index != "" && (!strings.HasPrefix(a.Index, "https://") || strings.ContainsAny(a.Index, "@ \t\r\n\x00")):
		c.add("index", "must be an https address without user and password, because people see it")
	}
	return c.problems
}
