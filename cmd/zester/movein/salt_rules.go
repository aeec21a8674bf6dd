package movein

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// root drops the owner of a link if it is root.
func root(c *conversion) error {
	for _, name := range []string{"user", "group"} {
		owner := c.takeText(name)
		if owner != "" && owner != "root" {
			return refuse("argument %s: a link of another user", name)
		}
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
	if !c.takeBool("clean", false) {
		c.note("another address that has the name loses it: Salt keeps it, unless clean is true")
	}
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
	if creates, ok := c.left["creates"].([]any); ok && len(creates) == 1 {
		c.left["creates"] = creates[0]
	}
	return nil
}

// percent matches a percent sign that ends a command for cron. Salt writes it as it is.
var percent = regexp.MustCompile(`(^|[^\\])(\\\\)*%`)

// cronPresent reads a line of a user's crontab.
func cronPresent(c *conversion) error {
	times := make([]string, 5)
	for i, name := range []string{"minute", "hour", "daymonth", "month", "dayweek"} {
		value := c.takeText(name)
		if value == "random" {
			return refuse("argument %s: random", name)
		}
		times[i] = cmp.Or(value, "*")
	}
	special := c.takeText("special")
	identifier := c.identifier()
	user := c.takeText("user")
	if percent.MatchString(c.Name) {
		return refuse(`a %% in the command, after which cron takes the text as its input: write \%% for the character`)
	}
	c.args["name"] = c.cronName(identifier)
	c.args["command"], c.args["cron"] = c.Name, cmp.Or(special, strings.Join(times, " "))
	if user != "" && user != "root" {
		c.args["user"] = user
	}
	c.note("Salt's line stays in the crontab of " + cmp.Or(user, "root") + ", and its job would run twice: remove it")
	return nil
}

// identifier returns what tells a line of cron from others, or "" if that is its command.
func (c *conversion) identifier() string {
	if c.left["identifier"] == false {
		c.take("identifier")
	}
	return c.takeText("identifier")
}

// cronName returns the name of the file of a line of cron.
func (c *conversion) cronName(identifier string) string {
	base := c.source.hidden.mask(cmp.Or(identifier, c.ID))
	return strings.Trim(strings.ReplaceAll(notInNames.ReplaceAllString(base, "-"), ".", "-"), "-")
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

func mountOptions(c *conversion) error {
	c.note("what is mounted with other options or from another device stays until the next boot: Salt mounts it again")
	value, ok := c.take("opts")
	if !ok {
		return nil
	}
	options, ok := texts(value)
	if !ok {
		return refuse("argument opts: a value of another form")
	}
	c.args["opts"] = strings.Split(strings.Join(options, ","), ",")
	return nil
}

// Characters that names of files, settings files and states cannot have.
var (
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	notInIDs   = regexp.MustCompile(`[^A-Za-z0-9_./@+ -]+`)
)
