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
	// owns returns what another state of the peel may own only if it says the same of it.
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
	Doc    string // one line
	reacts bool   // may have watch
	make   func() Arguments
}

var catalogue = map[string]Function{}

func register[T any, P interface {
	*T
	Arguments
}](name, main, doc string, reacts bool) {
	catalogue[name] = Function{name, main, doc, reacts, func() Arguments { return P(new(T)) }}
}

func init() {
	register[FileManaged]("file.managed", "path", "Have a file with a content, an owner and a mode.", false)
	register[FileDirectory]("file.directory", "path", "Have a directory with an owner and a mode.", false)
	register[FileRecurse]("file.recurse", "path", "Have a directory with the files of a directory of the config repo.",
		false)
	register[FileSymlink]("file.symlink", "path", "Have a symbolic link.", false)
	register[FileAbsent]("file.absent", "path", "Remove a file, or a directory with all that is in it.", false)
	register[FileLine]("file.line", "path", "Have a line in a text file, or not.", false)
	register[FileBlock]("file.block", "path", "Have a block of lines between two marked lines of a text file.", false)
	register[FileReplace]("file.replace", "path", "Have parts of a text file replaced by a regular expression.", false)
	register[SSHAuthPresent]("ssh_auth.present", "user", "Have SSH keys with which a user can log in.", false)
	register[SSHAuthAbsent]("ssh_auth.absent", "user", "Remove SSH keys with which a user could log in.", false)
	register[HostPresent]("host.present", "name", "Have names with an address in /etc/hosts.", false)
	register[ServiceEnabled]("service.enabled", "name", "Have a service start at boot.", false)
	register[ServiceDisabled]("service.disabled", "name", "Have a service not start at boot.", false)
	register[SysctlPresent]("sysctl.present", "name", "Have a value of a kernel parameter, also after a boot.", false)
	register[TimezoneSystem]("timezone.system", "name", "Have the time zone of the host.", false)
	register[MountMounted]("mount.mounted", "name", "Have a file system mounted, also after a boot.", false)
	register[DebconfSet]("debconf.set", "name", "Have answers to the questions of a Debian package.", false)
	register[ArchiveExtracted]("archive.extracted", "path", "Have the files of an archive in a directory.", false)
	register[GitLatest]("git.latest", "path", "Have a clone of a Git repository with a revision checked out.", false)
	register[PipInstalled]("pip.installed", "name", "Have Python packages in a virtual environment.", false)
	register[PkgInstalled]("pkg.installed", "name", "Have packages installed.", false)
	register[PkgLatest]("pkg.latest", "name", "Have packages installed in their newest version.", false)
	register[PkgRemoved]("pkg.removed", "name", "Have packages removed.", false)
	register[PkgRepoManaged]("pkgrepo.managed", "file", "Have a package repository with its key.", false)
	register[ServiceRunning]("service.running", "name", "Have a service running.", true)
	register[ServiceDead]("service.dead", "name", "Have a service stopped.", false)
	register[CmdRun]("cmd.run", "command", "Run a command.", true)
	register[CronPresent]("cron.present", "name", "Have a command run by cron.", false)
	register[CronAbsent]("cron.absent", "name", "Remove a file from /etc/cron.d.", false)
	register[UserPresent]("user.present", "name", "Have a user.", false)
	register[UserAbsent]("user.absent", "name", "Remove a user.", false)
	register[GroupPresent]("group.present", "name", "Have a group.", false)
	register[GroupAbsent]("group.absent", "name", "Remove a group.", false)
}

// Functions returns all functions, sorted by name.
func Functions() []Function {
	names := FunctionNames()
	all := make([]Function, len(names))
	for i, name := range names {
		all[i] = catalogue[name]
	}
	return all
}

// FunctionOf returns a function by its name, and whether there is one.
func FunctionOf(name string) (f Function, ok bool) {
	f, ok = catalogue[name]
	return f, ok
}

func FunctionNames() []string { return slices.Sorted(maps.Keys(catalogue)) }

func isModule(name string) bool {
	for f := range catalogue {
		if module, _, _ := strings.Cut(f, "."); module == name {
			return true
		}
	}
	return false
}

// functionsOf returns the functions of a module, sorted.
func functionsOf(module string) []string {
	return slices.DeleteFunc(FunctionNames(), func(f string) bool { return !strings.HasPrefix(f, module+".") })
}

// Ownership is who owns a file and what its mode is. Empty fields leave what an existing file has.
type Ownership struct {
	User  string
	Group string
	Mode  string // three or four octal digits
}

// FileManaged holds the arguments of file.managed.
type FileManaged struct {
	Path     string           `yaml:"path" doc:"path of the file"`
	Source   string           `yaml:"source" doc:"file below files/ of the config repo with the content, or an https address, with sha256"`
	SHA256   string           `yaml:"sha256" doc:"of a source from https: its SHA-256, 64 hexadecimal digits"`
	Content  *string          `yaml:"content" doc:"the content, instead of source"`
	Template bool             `yaml:"template" doc:"the content is a template"`
	Vars     *strictyaml.Node `yaml:"vars" doc:"values that the template has under vars"`
	User     string           `yaml:"user" doc:"owner; default: left as it is, root on a new file"`
	Group    string           `yaml:"group" doc:"group; default: as for user"`
	Mode     string           `yaml:"mode" doc:"octal digits in quotes, such as \"0644\"; default: left as it is, 0644 on a new file, and never readable for others if the content is secret"`
	MakeDirs bool             `yaml:"makedirs" doc:"make missing directories above the file"`
	Replace  *bool            `yaml:"replace" doc:"false: make the file if it is missing and leave it alone otherwise"`
	Check    []string         `yaml:"check" doc:"program and arguments that check the new content; {} stands for its file"`
	Diff     *bool            `yaml:"diff" doc:"false: show no diff of the content"`
	Follow   bool             `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
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
	c.from("source", a.Source, a.SHA256)
	if a.Template && IsRemote(a.Source) {
		c.add("template", "only a file of the config repo or content can be a template")
	}
	if a.Template && a.Content != nil {
		if _, err := mustache.Parse("content", *a.Content); err != nil {
			c.add("content", "the template is not valid: %v", err)
		}
	}
	c.vars(a.Vars, a.Template)
	c.check(a.Check)
	return c.problems
}

// FileDirectory holds the arguments of file.directory.
type FileDirectory struct {
	Path     string   `yaml:"path" doc:"path of the directory"`
	User     string   `yaml:"user" doc:"owner; default: left as it is, root on a new directory"`
	Group    string   `yaml:"group" doc:"group; default: as for user"`
	Mode     string   `yaml:"mode" doc:"octal digits in quotes; default: left as it is, 0755 on a new directory"`
	MakeDirs bool     `yaml:"makedirs" doc:"make missing directories above it"`
	Recurse  []string `yaml:"recurse" doc:"which of user, group and mode everything below gets too"`
	FileMode string   `yaml:"file_mode" doc:"with recurse: [mode]: mode of files below; default: mode"`
	Clean    bool     `yaml:"clean" doc:"remove what no state owns"`
	Follow   bool     `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves; the path may be a link to a directory"`
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
	c.mode("file_mode", a.FileMode)
	if a.FileMode != "" && complete && !slices.Contains(a.Recurse, "mode") {
		c.add("file_mode", "only with recurse: [mode]; otherwise nothing below the directory gets a mode")
	}
	if a.Clean {
		c.removable("clean", a.Path)
	} else if len(a.Recurse) > 0 {
		c.ownable("recurse", a.Path)
	}
	return c.problems
}

// FileRecurse holds the arguments of file.recurse.
type FileRecurse struct {
	Path     string           `yaml:"path" doc:"path of the directory"`
	Source   string           `yaml:"source" doc:"directory below files/ of the config repo"`
	User     string           `yaml:"user" doc:"owner of all that is in it"`
	Group    string           `yaml:"group" doc:"group of all that is in it"`
	FileMode string           `yaml:"file_mode" doc:"mode of files, octal digits in quotes; default: 0644, or 0755 if Git says executable; a secret file is never readable for others"`
	DirMode  string           `yaml:"dir_mode" doc:"mode of directories; default: 0755"`
	Template bool             `yaml:"template" doc:"the files are templates"`
	Vars     *strictyaml.Node `yaml:"vars" doc:"values that the templates have under vars"`
	Clean    bool             `yaml:"clean" doc:"remove what no state owns"`
	Follow   bool             `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves; the path may be a link to a directory"`
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
	c.vars(a.Vars, a.Template)
	if a.Clean {
		c.removable("clean", a.Path)
	}
	return c.problems
}

// vars checks the values that templates have beside the settings.
func (c *checks) vars(vars *strictyaml.Node, isTemplate bool) {
	if vars != nil && (!isTemplate || vars.Kind != strictyaml.Map) {
		c.add("vars", "a map, and only with template: true")
	}
}

// FileSymlink holds the arguments of file.symlink.
type FileSymlink struct {
	Path     string `yaml:"path" doc:"path of the link"`
	Target   string `yaml:"target" doc:"path that the link points to"`
	MakeDirs bool   `yaml:"makedirs" doc:"make missing directories above the link"`
	Force    bool   `yaml:"force" doc:"replace a file that is in the place of the link; a directory is never replaced"`
	Follow   bool   `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
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
	Path   string `yaml:"path" doc:"file or directory that should not exist"`
	Follow bool   `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
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
	Path   string `yaml:"path" doc:"path of the file"`
	Line   string `yaml:"line" doc:"the line that the file should have"`
	Match  string `yaml:"match" doc:"regular expression of the line that it replaces"`
	All    bool   `yaml:"all" doc:"match may match several lines: the first is replaced, the others are removed"`
	Absent bool   `yaml:"absent" doc:"remove the lines that match, or equal line"`
	After  string `yaml:"after" doc:"regular expression of the line after which a new one comes"`
	Before string `yaml:"before" doc:"regular expression of the line before which a new one comes"`

	Check  []string `yaml:"check" doc:"program and arguments that check the new file; {} stands for it"`
	Follow bool     `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
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
	c.check(a.Check)
	return c.problems
}

// CmdRun holds the arguments of cmd.run.
type CmdRun struct {
	Command string            `yaml:"command" doc:"text that the shell runs"`
	Argv    []string          `yaml:"argv" doc:"program and arguments, run without a shell, instead of command"`
	Cwd     string            `yaml:"cwd" doc:"directory to run in"`
	Env     map[string]string `yaml:"env" doc:"environment variables, added to PATH, HOME and LC_ALL"`
	User    string            `yaml:"user" doc:"user to run as"`
	Stdin   string            `yaml:"stdin" doc:"standard input"`
	Creates string            `yaml:"creates" doc:"path; the command does not run if it exists, unless a state changed that it watches"`

	ChangedIf *ChangedIf `yaml:"changed_if" doc:"how the command says that it changed something: {exit: [codes]}, which are no failure, {output: regular expression}, or both; default: each run is a change"`
}

// ChangedIf says when a command that ended without a failure changed something. With both fields either is enough.
type ChangedIf struct {
	Exit   []uint32 `yaml:"exit" doc:"exit codes, 0 to 255, that are no failure and say that something changed"`
	Output string   `yaml:"output" doc:"regular expression; if the first 8 KiB of the output match, something changed"`
}

func (c *checks) changedIf(a *ChangedIf) {
	switch {
	case a == nil:
	case len(a.Exit) == 0 && a.Output == "":
		c.add("changed_if", "give exit, a list of exit codes, or output, a regular expression")
	case slices.ContainsFunc(a.Exit, func(code uint32) bool { return code > 255 }):
		c.add("changed_if", "an exit code is from 0 to 255")
	default:
		c.regexp("changed_if", a.Output)
	}
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
	c.changedIf(a.ChangedIf)
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

// check checks a command that gets the name of a file.
func (c *checks) check(command []string) {
	if command != nil && !slices.ContainsFunc(command, func(w string) bool { return strings.Contains(w, "{}") }) {
		c.add("check", "the command needs {}, which stands for the new file")
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

// removable refuses directories whose removal would break the host: / itself, a directory in it, and one right below
// /boot, /home, /usr, /var or a directory of libraries. Nothing but a web server needs /var/www.
func (c *checks) removable(arg, p string) {
	if parts := strings.Split(strings.Trim(p, "/"), "/"); isNearRoot(p) || len(parts) == 2 && parts[0] == "home" {
		c.add(arg, "%q is too near the root to be removed or cleaned", p)
	}
}

// ownable refuses directories whose whole content must not get one owner or mode.
func (c *checks) ownable(arg, p string) {
	if isNearRoot(p) {
		c.add(arg, "%q is too near the root for all that is below it to be changed", p)
	}
}

// isNearRoot reports whether a host needs what is in a directory.
func isNearRoot(p string) bool {
	if p == "" || p[0] != '/' { // path has refused it, or another file gives it
		return false
	}
	parts := strings.Split(strings.Trim(p, "/"), "/")
	isLib := func(name string) bool { return strings.HasPrefix(name, "lib") }
	switch len(parts) {
	case 1:
		return true
	case 2:
		return slices.Contains([]string{"boot", "usr", "var"}, parts[0]) && p != "/var/www" || isLib(parts[0])
	case 3:
		return parts[0] == "usr" && isLib(parts[1]) // what /lib links to
	}
	return false
}

var octal = newShape(`^[0-7]{3,4}$`, 4)

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

var accountName = newShape(`^[a-z_][a-z0-9_.-]{0,31}\$?$`, 33)

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
