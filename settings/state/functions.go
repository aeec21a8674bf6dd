package state

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// FilesDir is the directory of the config repo with the contents of files.
const FilesDir = "files"

// maySecret are the arguments that may hold secrets.
var maySecret = []string{"content", "vars", "env", "stdin", "password"}

// Arguments are those of one function.
type Arguments interface {
	// setMain gives the main argument the name of the state if it has no value.
	setMain(name string)
	// check returns what is wrong with the arguments. If complete is false, those that are required may be missing.
	check(complete bool) []problem
	// owns returns what no other state of the peel may own.
	owns() []resource
}

// A problem is what is wrong with an argument, or with all of them if arg is empty.
type problem struct{ arg, msg string }

// A resource is a thing on the host.
type resource struct {
	kind, name string
	shared     bool // by states that change parts of it
}

// A Function is a kind of state.
type Function struct {
	Name   string
	Main   string // the argument that defaults to the state's name
	reacts bool   // may have watch
	make   func() Arguments
}

var catalogue = map[string]Function{}

func register[T any, P interface {
	*T
	Arguments
}](name, main string, reacts bool) {
	catalogue[name] = Function{name, main, reacts, func() Arguments { return P(new(T)) }}
}

func init() {
	register[FileManaged]("file.managed", "path", false)
	register[FileDirectory]("file.directory", "path", false)
	register[FileRecurse]("file.recurse", "path", false)
	register[FileSymlink]("file.symlink", "path", false)
	register[FileAbsent]("file.absent", "path", false)
	register[FileLine]("file.line", "path", false)
	register[FileBlock]("file.block", "path", false)
	register[PkgInstalled]("pkg.installed", "name", false)
	register[PkgLatest]("pkg.latest", "name", false)
	register[PkgRemoved]("pkg.removed", "name", false)
	register[PkgRepoManaged]("pkgrepo.managed", "file", false)
	register[ServiceRunning]("service.running", "name", true)
	register[ServiceDead]("service.dead", "name", false)
	register[CmdRun]("cmd.run", "command", false)
	register[CronPresent]("cron.present", "name", false)
	register[CronAbsent]("cron.absent", "name", false)
	register[UserPresent]("user.present", "name", false)
	register[UserAbsent]("user.absent", "name", false)
	register[GroupPresent]("group.present", "name", false)
	register[GroupAbsent]("group.absent", "name", false)
}

// Functions returns all functions, sorted by name.
func Functions() []Function {
	return slices.SortedFunc(maps.Values(catalogue), func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
}

func functionNames() []string { return slices.Sorted(maps.Keys(catalogue)) }

func isModule(name string) bool { return len(functionsOf(name)) > 0 }

// functionsOf returns the functions of a module, sorted.
func functionsOf(module string) []string {
	return slices.DeleteFunc(functionNames(), func(f string) bool { return !strings.HasPrefix(f, module+".") })
}

// Ownership is who owns a file and what its mode is. Empty fields leave what an existing file has.
type Ownership struct {
	User  string
	Group string
	Mode  string // three or four octal digits
}

// FileManaged holds the arguments of file.managed.
type FileManaged struct {
	Path     string           `yaml:"path"`
	Source   string           `yaml:"source"`  // a file below files/ of the config repo
	Content  *string          `yaml:"content"` // instead of source
	Template bool             `yaml:"template"`
	Vars     *strictyaml.Node `yaml:"vars"` // a map
	User     string           `yaml:"user"`
	Group    string           `yaml:"group"`
	Mode     string           `yaml:"mode"`
	MakeDirs bool             `yaml:"makedirs"`
	Replace  *bool            `yaml:"replace"` // false: only creates the file
	Check    []string         `yaml:"check"`   // a command that gets the new file as {}
	Diff     *bool            `yaml:"diff"`
}

func (a *FileManaged) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileManaged) owns() []resource    { return []resource{{"path", a.Path, false}} }
func (a *FileManaged) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.owner(Ownership{a.User, a.Group, a.Mode})
	switch {
	case a.Source != "" && a.Content != nil:
		c.add("content", "give source or content, not both")
	case a.Source == "" && a.Content == nil:
		c.missing("source", "give source, a file below files/, or content")
	}
	c.source("source", a.Source)
	if a.Template && a.Content != nil {
		if _, err := mustache.Parse("content", *a.Content); err != nil {
			c.add("content", "the template is not valid: %v", err)
		}
	}
	if a.Vars != nil && (!a.Template || a.Vars.Kind != strictyaml.Map) {
		c.add("vars", "a map, and only with template: true")
	}
	if a.Check != nil && !slices.ContainsFunc(a.Check, func(w string) bool { return strings.Contains(w, "{}") }) {
		c.add("check", "the command needs {}, which stands for the new file")
	}
	return c.problems
}

// FileDirectory holds the arguments of file.directory.
type FileDirectory struct {
	Path     string   `yaml:"path"`
	User     string   `yaml:"user"`
	Group    string   `yaml:"group"`
	Mode     string   `yaml:"mode"`
	MakeDirs bool     `yaml:"makedirs"`
	Recurse  []string `yaml:"recurse"` // of user, group, mode
	Clean    bool     `yaml:"clean"`   // removes what no state owns
}

func (a *FileDirectory) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileDirectory) owns() []resource    { return []resource{{"path", a.Path, false}} }
func (a *FileDirectory) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.owner(Ownership{a.User, a.Group, a.Mode})
	for _, what := range a.Recurse {
		if !slices.Contains([]string{"user", "group", "mode"}, what) {
			c.add("recurse", "%q cannot be applied to all that is below; user, group and mode can", what)
		}
	}
	if a.Clean {
		c.removable("clean", a.Path)
	}
	return c.problems
}

// FileRecurse holds the arguments of file.recurse.
type FileRecurse struct {
	Path     string `yaml:"path"`
	Source   string `yaml:"source"`
	User     string `yaml:"user"`
	Group    string `yaml:"group"`
	FileMode string `yaml:"file_mode"`
	DirMode  string `yaml:"dir_mode"`
	Template bool   `yaml:"template"`
	Clean    bool   `yaml:"clean"`
}

func (a *FileRecurse) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileRecurse) owns() []resource    { return []resource{{"path", a.Path, false}} }
func (a *FileRecurse) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.owner(Ownership{User: a.User, Group: a.Group})
	c.mode("file_mode", a.FileMode)
	c.mode("dir_mode", a.DirMode)
	if a.Source == "" {
		c.missing("source", "give source, a directory below files/")
	}
	c.source("source", a.Source)
	if a.Clean {
		c.removable("clean", a.Path)
	}
	return c.problems
}

// FileSymlink holds the arguments of file.symlink.
type FileSymlink struct {
	Path     string `yaml:"path"`
	Target   string `yaml:"target"`
	MakeDirs bool   `yaml:"makedirs"`
}

func (a *FileSymlink) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileSymlink) owns() []resource    { return []resource{{"path", a.Path, false}} }
func (a *FileSymlink) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	if a.Target == "" {
		c.missing("target", "give target, the path that the link points to")
	}
	c.text("target", a.Target)
	return c.problems
}

// FileAbsent holds the arguments of file.absent.
type FileAbsent struct {
	Path string `yaml:"path"`
}

func (a *FileAbsent) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileAbsent) owns() []resource    { return []resource{{"path", a.Path, false}} }
func (a *FileAbsent) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.removable("path", a.Path)
	return c.problems
}

// FileLine holds the arguments of file.line.
type FileLine struct {
	Path   string `yaml:"path"`
	Line   string `yaml:"line"`
	Match  string `yaml:"match"` // RE2
	Absent bool   `yaml:"absent"`
	After  string `yaml:"after"`  // RE2
	Before string `yaml:"before"` // RE2
}

func (a *FileLine) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileLine) owns() []resource    { return []resource{{"path", a.Path, true}} }
func (a *FileLine) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	c.regexp("match", a.Match)
	c.regexp("after", a.After)
	c.regexp("before", a.Before)
	switch {
	case strings.ContainsAny(a.Line, "\r\n"):
		c.add("line", "must be one line")
	case a.Absent && a.Line == "" && a.Match == "":
		c.missing("line", "give line or match, which is to be removed")
	case !a.Absent && a.Line == "":
		c.missing("line", "give the line that the file should have")
	case a.After != "" && a.Before != "":
		c.add("before", "give after or before, not both")
	}
	return c.problems
}

// FileBlock holds the arguments of file.block.
type FileBlock struct {
	Path    string  `yaml:"path"`
	Content *string `yaml:"content"`
	Marker  string  `yaml:"marker"`
	Absent  bool    `yaml:"absent"`
}

func (a *FileBlock) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileBlock) owns() []resource    { return []resource{{"path", a.Path, true}} }
func (a *FileBlock) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	if a.Content == nil && !a.Absent {
		c.missing("content", "give the content of the block, or absent: true")
	}
	if strings.ContainsAny(a.Marker, "\r\n") {
		c.add("marker", "must be one line")
	}
	return c.problems
}

// CmdRun holds the arguments of cmd.run.
type CmdRun struct {
	Command string            `yaml:"command"` // for the shell
	Argv    []string          `yaml:"argv"`    // instead of command
	Cwd     string            `yaml:"cwd"`
	Env     map[string]string `yaml:"env"`
	User    string            `yaml:"user"`
	Stdin   string            `yaml:"stdin"`
	Creates string            `yaml:"creates"` // does not run if this path exists
}

func (a *CmdRun) setMain(name string) {
	if a.Argv == nil {
		setDefault(&a.Command, name)
	}
}
func (a *CmdRun) owns() []resource { return nil }
func (a *CmdRun) check(complete bool) []problem {
	c := checks{complete: complete}
	if a.Command != "" && a.Argv != nil {
		c.add("argv", "give command or argv, not both")
	}
	if a.Argv != nil && (len(a.Argv) == 0 || a.Argv[0] == "") {
		c.add("argv", "the first word names the program")
	}
	c.path("cwd", a.Cwd)
	c.path("creates", a.Creates)
	for name := range a.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			c.add("env", "%q is not a name of a variable", name)
		}
	}
	return c.problems
}

// checks collects what is wrong with the arguments of a function.
type checks struct {
	complete bool
	problems []problem
}

func (c *checks) add(arg, format string, args ...any) {
	c.problems = append(c.problems, problem{arg, fmt.Sprintf(format, args...)})
}

// missing adds a problem of an argument that another file may still give.
func (c *checks) missing(arg, msg string) {
	if c.complete {
		c.problems = append(c.problems, problem{"", arg + " is missing: " + msg})
	}
}

// text refuses characters that no path or name on a host has.
func (c *checks) text(arg, s string) {
	if strings.ContainsRune(s, 0) {
		c.add(arg, "must not hold NUL")
	}
}

func (c *checks) path(arg, p string) {
	c.text(arg, p)
	switch {
	case p == "":
	case p[0] != '/':
		c.add(arg, "%q is not an absolute path", p)
	case path.Clean(p) != p:
		c.add(arg, "%q is not a clean path; write %q", p, path.Clean(p))
	}
}

// removable refuses directories whose removal would break the host: / itself, a directory in it, and one right below /usr
// or /home.
func (c *checks) removable(arg, p string) {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	if len(parts) < 2 || len(parts) == 2 && (parts[0] == "usr" || parts[0] == "home") {
		c.add(arg, "%q is too near the root to be removed or cleaned", p)
	}
}

var octal = regexp.MustCompile(`^[0-7]{3,4}$`)

func (c *checks) mode(arg, m string) {
	if m != "" && !octal.MatchString(m) {
		c.add(arg, "%q is not a mode: three or four octal digits in quotes, such as \"0644\"", m)
	}
}

func (c *checks) owner(o Ownership) {
	c.name("user", o.User)
	c.name("group", o.Group)
	c.mode("mode", o.Mode)
}

var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}\$?$`)

// name checks the name of a user or group.
func (c *checks) name(arg, s string) {
	if s != "" && !accountName.MatchString(s) {
		c.add(arg, "%q is not a name of a user or group", s)
	}
}

func (c *checks) source(arg, s string) {
	if s == "" {
		return
	}
	if path.Clean(s) != s || !strings.HasPrefix(s, FilesDir+"/") {
		c.add(arg, "%q is not below files/; contents are in files/ of the config repo", s)
	}
}

func (c *checks) regexp(arg, s string) {
	if _, err := regexp.Compile(s); err != nil {
		c.add(arg, "%v", err)
	}
}

func setDefault(arg *string, name string) {
	if *arg == "" {
		*arg = name
	}
}
