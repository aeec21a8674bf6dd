package movein

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// linkOwner gives a link its owner.
func linkOwner(c *conversion) error {
	given := c.takeTexts("user", "group")
	form, owner := "%U:%G", given[0]+":"+given[1]
	switch {
	case given[1] == "":
		form, owner = "%U", given[0]
	case given[0] == "":
		form = ":%G"
	}
	if owner != "" && owner != "root" && owner != "root:root" {
		c.then = []made{{
			function: "cmd.run", args: map[string]any{"argv": []string{"chown", "-h", "--", owner, c.Name}},
			fields: map[string]any{"unless": []string{
				`test "$(stat -c ` + words(form) + " -- " + words(c.Name) + `)" = ` + words(owner),
			}},
		}}
	}
	if mode, ok := c.left["mode"]; ok && c.left["makedirs"] == true {
		c.note("argument mode: " + plain(mode) + " is left out: makedirs makes the folders above a link with 0755")
	}
	if c.left["force"] == true {
		c.note("argument force: a directory in the place of the link is an error, where Salt removes it")
	}
	return nil
}

func directory(c *conversion) error {
	recurse, _ := c.take("recurse")
	what, isList := texts(recurse)
	if recurse != nil && !isList {
		return refuse("argument recurse: a value of another form")
	}
	if len(what) > 0 {
		what = slices.DeleteFunc(what, func(word string) bool { return word == "silent" })
		c.args["recurse"] = what
	}
	clean := c.takeBool("clean", false)
	if clean {
		c.args["clean"] = true
	}
	if len(what) == 0 {
		c.take("max_depth")
		if !clean {
			c.take("exclude_pat")
		}
	}
	files, hasFiles := c.take("file_mode")
	if dirs, ok := c.take("dir_mode"); ok {
		c.left["mode"] = dirs
	}
	if c.left["follow_symlinks"] == true && len(what) > 0 {
		c.note("argument follow_symlinks: links below the directory are not followed, where Salt follows them")
	}
	dirs, hasDirs := c.left["mode"]
	switch {
	case hasFiles && slices.Contains(what, "mode"):
		c.left["file_mode"] = files
	case hasDirs && slices.Contains(what, "mode"):
		c.left["file_mode"] = dirs // as Salt does
	case hasFiles:
		c.note("argument file_mode is left out: without mode in recurse it changes nothing in Salt either")
	}
	return nil
}

// touched notes what Salt does in each run.
func touched(c *conversion) error {
	c.note("the file is made if it is missing: Salt sets its time in each run, which is a change for what watches it")
	return nil
}

// masked has a unit masked. Salt does not stop it.
func masked(c *conversion) error {
	isRuntime := c.takeBool("runtime", false)
	argv, want := []string{"systemctl", "mask"}, "masked"
	if isRuntime {
		argv, want = append(argv, "--runtime"), "masked-runtime"
	}
	return c.runs(`test "$(systemctl is-enabled -- `+words(c.Name)+` 2>/dev/null)" = `+want,
		append(argv, "--", c.Name)...)
}

// zone notes what Salt does with the clock of the hardware.
func zone(c *conversion) error {
	c.note("the clock of the hardware stays as it is: Salt has it in " +
		map[bool]string{true: "UTC", false: "local time, as utc is False"}[c.takeBool("utc", true)])
	return nil
}

// address reads whether the names of an address lose others.
func address(c *conversion) error {
	cleans := c.takeBool("clean", false)
	addresses, ok := texts(c.left["ip"])
	if !ok || len(addresses) == 0 {
		return refuse("argument ip: a value of another form")
	}
	families := map[bool]int{}
	for _, address := range addresses {
		families[strings.Contains(address, ":")]++
	}
	if families[true] > 1 || families[false] > 1 {
		return c.severalAddresses(addresses, cleans)
	}
	c.left["ip"] = addresses[0]
	for _, address := range addresses[1:] {
		c.more = append(c.more, map[string]any{"name": c.Name, "ip": address})
	}
	if !cleans {
		c.note("another address that has the name loses it: Salt keeps it, unless clean is true")
	}
	return nil
}

// severalAddresses adds a line to /etc/hosts for each address that does not have the name. A host.present would take
// the name from the other addresses of a family.
func (c *conversion) severalAddresses(addresses []string, cleans bool) error {
	if cleans {
		return refuse("argument clean: true, and several addresses of a family: give /etc/hosts as file.managed")
	}
	c.function = "file.line"
	c.take("ip")
	lines := make([]made, len(addresses))
	for i, address := range addresses {
		line := map[string]any{"path": "/etc/hosts", "line": address + "\t" + c.Name}
		search := `^[[:space:]]*` + regexp.QuoteMeta(address) + `[[:space:]]([^#]*[[:space:]])?` +
			regexp.QuoteMeta(c.Name) + `([[:space:]#]|$)`
		lines[i] = made{function: "file.line", args: line, fields: map[string]any{
			"unless": []string{"grep -Eq " + shell.Quote(search) + " /etc/hosts"},
		}}
	}
	last := len(lines) - 1
	c.args, c.first = lines[last].args, lines[:last]
	c.unless = lines[last].fields["unless"].([]string)
	return nil
}

// noAddress takes a name from the lines of its addresses in /etc/hosts, and removes those that have no other name.
func noAddress(c *conversion) error {
	value, _ := c.take("ip")
	addresses, ok := texts(value)
	if !ok || len(addresses) == 0 {
		return refuse("argument ip: a value of another form")
	}
	for i := range addresses {
		addresses[i] = regexp.QuoteMeta(addresses[i])
	}
	which := "(?:" + strings.Join(addresses, "|") + ")"
	line, name := `^([ \t]*`+which+`(?:[ \t]+[^#\s]+)*?)[ \t]+`, regexp.QuoteMeta(c.Name)
	c.args["pattern"], c.args["repl"] = line+name+`([ \t].*)?$`, "${1}${2}"
	c.then = []made{{function: "file.line", args: map[string]any{
		"path": "/etc/hosts", "match": `^[ \t]*` + which + `[ \t]*(#.*)?$`, "absent": true,
	}}}
	return nil
}

func exists(c *conversion) error {
	c.args["command"] = "echo " + shell.Quote(c.Name+" is missing") + "; exit 1"
	c.args["creates"] = c.Name
	return nil
}

// saysChanged matches the output of a stateful command that changed something: JSON, or NAME=VALUE.
const saysChanged = `(?i)\bchanged["']?\s*[=:]\s*["']?(true|yes|1)\b`

// shellReads are the characters, but for quotes and backslashes, that a shell does not give to a program.
const shellReads = "|&;<>()$`*?[#~!{\n"

// shellFor returns the shell in which Salt runs a command or a guard, or "" for /bin/sh. It is the one of the state, or
// of the grains of the host, which only makes a difference for what a shell reads.
func (c *conversion) shellFor(command string) string {
	program, _ := c.Declaration.args["shell"].(string)
	isOwn := c.State == "cmd" || c.State == "module" && command == c.Name // a module has no part in its guards
	if !isOwn || program == "" {
		program, _ = c.host.Grains["shell"].(string)
		if !strings.ContainsAny(command, shellReads) {
			return ""
		}
	}
	if path.Base(program) == "sh" {
		return ""
	}
	return program
}

// command reads the shell of a command.
func command(c *conversion) error {
	c.takeText("shell")
	if c.takeText("user") != "" {
		c.note("Salt ignores user here; runas is its argument")
	}
	if program := c.shellFor(c.Name); program != "" && c.args["argv"] == nil {
		c.args["argv"] = []string{program, "-c", c.Name}
		delete(c.args, "command")
	}
	mask := c.takeText("umask")
	if line, isText := c.args["command"].(string); mask != "" && isText {
		c.args["command"] = "umask " + shell.Word(mask) + "; " + line
	} else if mask != "" {
		return refuse("argument umask: a command without /bin/sh: write umask into it")
	}
	hasShell := c.takeBool("python_shell", true)
	if !hasShell && strings.ContainsAny(c.Name, shellReads) {
		return refuse("argument python_shell: false, and a command with characters that a shell reads: give it as argv")
	}
	if says, isBool := c.left["stateful"].(bool); isBool {
		c.take("stateful")
		if says {
			c.args["changed_if"] = map[string]any{"output": saysChanged}
			c.note("stateful: Salt reads the last line of the output, and changed_if its first 8 KiB")
		}
	}
	return cmp.Or(c.exitCodes(), c.createsAll(), c.checkedAfter())
}

// checkedAfter reads the commands that decide whether the state failed, whatever its own command says.
func (c *conversion) checkedAfter() error {
	line, isText := c.args["command"].(string)
	value, ok := c.take("check_cmd")
	if !ok {
		return nil
	}
	checks, ok := texts(value)
	if !ok || len(checks) == 0 {
		return refuse("argument check_cmd: a value of another form")
	}
	if !isText || c.args["changed_if"] != nil {
		return refuse("argument check_cmd: a command without /bin/sh, or that says what it changed: " +
			"write the check into it")
	}
	c.args["command"] = "(\n" + line + "\n)\n" + strings.Join(checks, " &&\n")
	return nil
}

// exitCodes reads the exit codes that are no failure. Each is a change in Salt, as 0 is.
func (c *conversion) exitCodes() error {
	value, ok := c.take("success_retcodes")
	if !ok {
		return nil
	}
	given, ok := texts(value)
	if !ok {
		return refuse("argument success_retcodes: a value of another form")
	}
	if c.args["changed_if"] != nil {
		return refuse("argument success_retcodes: with stateful: give changed_if with exit or output")
	}
	codes := []uint64{0}
	for _, text := range given {
		code, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return refuse("argument success_retcodes: a value of another form")
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	c.args["changed_if"] = map[string]any{"exit": slices.Compact(codes)}
	return nil
}

// createsAll reads several paths. Salt runs the command unless all are there.
func (c *conversion) createsAll() error {
	paths, ok := texts(c.left["creates"])
	if !ok || len(paths) == 0 {
		return nil
	}
	if len(paths) == 1 {
		c.left["creates"] = paths[0]
		return nil
	}
	c.take("creates")
	tests := make([]string, len(paths))
	for i, name := range paths {
		tests[i] = "test -e " + shell.Word(name)
	}
	c.unless = append(c.unless, strings.Join(tests, " && "))
	return nil
}

// fixedRevision matches a whole commit, or a tag such as v1.2, which Salt checks out on no branch, too. A name such as
// 1.2 may be a branch.
var fixedRevision = regexp.MustCompile(`^([0-9a-f]{40}|v[0-9]+(\.[0-9]+)+.*)$`)

// clone reads how much of a repository a clone has, and its branch.
func clone(c *conversion) error {
	if u, err := url.Parse(c.Name); err == nil && u.User != nil {
		if _, hasPassword := u.User.Password(); hasPassword {
			return refuse("a password in the URL, which people see: give the user of the clone a key of ssh")
		}
	}
	if _, ok := c.take("depth"); ok {
		c.note("argument depth is left out: the clone has the whole history")
	}
	if _, ok := c.take("branch"); ok || !fixedRevision.MatchString(number(c.left["rev"], "HEAD")) {
		c.note(forAll + "the clone is on no branch: Salt makes one of the name of the revision, or of branch")
	}
	if c.left["force_reset"] == "remote-changes" {
		c.left["force_reset"] = true
		c.note("argument force_reset: remote-changes: what was changed in the clone is thrown away in each run, " +
			"where Salt waits for a new revision")
	}
	if key := plain(c.left["identity"]); c.left["identity"] != nil && c.isUsualKey(key) {
		c.take("identity")
	}
	if modules := c.takeBool("submodules", false); modules {
		c.submodules()
	}
	resets := c.takeBool("force_reset", false)
	if discards := c.takeBool("force_checkout", false); resets || discards {
		c.args["force"] = true
	}
	if !resets {
		c.note("a revision that does not follow from the one of the clone is checked out: Salt fails, unless " +
			"force_reset is true")
	}
	return nil
}

// submodules has the submodules of a clone as its revision says.
func (c *conversion) submodules() {
	path, user := plain(c.left["target"]), number(c.left["user"], "root")
	test := "cd " + shell.Quote(path) + " && test -z \"$(git submodule status --recursive | grep '^[-+U]')\""
	c.then = []made{{
		function: "cmd.run", args: map[string]any{
			"argv": []string{"git", "submodule", "update", "--init", "--recursive"}, "cwd": path, "user": user,
		},
		fields: map[string]any{"unless": []string{"runuser -u " + shell.Word(user) + " -- sh -c " + shell.Quote(test)}},
	}}
}

// isUsualKey reports whether ssh of the user of a clone tries a key in any case.
func (c *conversion) isUsualKey(key string) bool {
	user := number(c.left["user"], "root")
	home := "/home/" + user
	if user == "root" {
		home = "/root"
	}
	for _, d := range c.host.Low {
		if given, _ := d.args["home"].(string); d.Function() == "user.present" && d.Name == user && given != "" {
			home = given
		}
	}
	name, isThere := strings.CutPrefix(key, path.Join(home, ".ssh")+"/id_")
	return isThere && slices.Contains([]string{"rsa", "ecdsa", "ed25519"}, name)
}

func mountOptions(c *conversion) error {
	options := []string{"defaults"}
	if value, ok := c.take("opts"); ok {
		given, ok := texts(value)
		if !ok {
			return refuse("argument opts: a value of another form")
		}
		options = strings.Split(strings.Join(given, ","), ",")
		c.args["opts"] = options
	}
	if mounts := c.takeBool("mount", true); !mounts {
		return c.inTable(strings.Join(options, ","))
	}
	c.note("what is mounted with other options or from another device stays until the next boot: Salt mounts it again")
	return nil
}

// inTable writes the line of a file system in /etc/fstab as Salt does, and mounts nothing.
func (c *conversion) inTable(options string) error {
	persists := c.takeBool("persist", true)
	given := c.takeTexts("device", "fstype", "dump", "pass_num")
	c.take("mkmnt")
	if !persists {
		return nothing(c)
	}
	c.function = "file.line"
	c.args = map[string]any{
		"path": "/etc/fstab", "match": `^[ \t]*[^#\s]\S*[ \t]+` + regexp.QuoteMeta(c.Name) + `[ \t]`,
		"line": given[0] + "\t\t" + c.Name + "\t" + given[1] + "\t" + options + "\t" + cmp.Or(given[2], "0") + " " +
			cmp.Or(given[3], "0"),
	}
	c.note("the line in /etc/fstab is written again where it has other blanks: Salt leaves it")
	return nil
}

// Characters that names of files, settings files and states cannot have.
var (
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	notInIDs   = regexp.MustCompile(`[^A-Za-z0-9_./@+ -]+`)
)
