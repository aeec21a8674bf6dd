package movein

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// root drops the owner of a link if it is root.
func root(c *conversion) error {
	for _, name := range []string{"user", "group"} {
		owner, err := c.takeText(name)
		if err != nil {
			return err
		}
		if owner != "" && owner != "root" {
			return refuse("argument %s: a link of another user", name)
		}
	}
	delete(c.left, "mode")
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
	clean, err := c.takeBool("clean", false)
	if err != nil {
		return err
	}
	if clean {
		c.args["clean"] = true
	}
	files, hasFiles := c.take("file_mode")
	if dirs, ok := c.take("dir_mode"); ok {
		c.left["mode"] = dirs
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

func exists(c *conversion) error {
	c.args["command"] = "echo " + shell.Quote(c.Name+" is missing") + "; exit 1"
	c.args["creates"] = c.Name
	return nil
}

// maxLines is how many states one file.append may become.
const maxLines = 50

func appended(c *conversion) error {
	value, _ := c.take("text")
	parts, ok := texts(value)
	if !ok {
		return refuse("argument text: a value of another form")
	}
	var lines []string
	for _, part := range parts {
		lines = append(lines, strings.Split(strings.TrimRight(part, "\n"), "\n")...)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) == 0 || len(lines) > maxLines {
		return refuse("argument text: more lines than %d, or none", maxLines)
	}
	c.args["line"] = lines[0]
	for _, line := range lines[1:] {
		c.more = append(c.more, map[string]any{"path": c.Name, "line": line})
	}
	return nil
}

// pythonEscape matches what begins with a backslash in a replacement of Python, the reference to a group first.
var pythonEscape = regexp.MustCompile(`(?s)\\g<(\w+)>|\\([1-9][0-9]?)|\\.?`)

func replaced(c *conversion) error {
	pattern, err := c.takeText("pattern")
	if err != nil {
		return err
	}
	repl, err := c.takeText("repl")
	if err != nil {
		return err
	}
	c.args["pattern"] = pattern
	literals := map[string]string{`\n`: "\n", `\t`: "\t", `\\`: `\`}
	unknown := ""
	c.args["repl"] = pythonEscape.ReplaceAllStringFunc(strings.ReplaceAll(repl, "$", "$$"), func(escape string) string {
		m := pythonEscape.FindStringSubmatch(escape)
		if group := m[1] + m[2]; group != "" {
			return "${" + group + "}"
		}
		if literals[escape] == "" {
			unknown = escape
		}
		return literals[escape]
	})
	if unknown != "" {
		return refuse("argument repl: %s, which only Python reads", unknown)
	}
	for _, name := range []string{"bufsize", "show_changes", "ignore_if_missing"} {
		delete(c.left, name)
	}
	return nil
}

func keyValue(c *conversion) error {
	key, err := c.takeText("key")
	if err != nil {
		return err
	}
	value, err := c.takeText("value")
	if err != nil {
		return err
	}
	separator, err := c.takeText("separator")
	if err != nil {
		return err
	}
	if separator == "" {
		separator = "="
	}
	if key == "" {
		return refuse("argument key_values")
	}
	if only, err := c.takeBool("search_only", false); err != nil || only {
		return cmp.Or(err, refuse("argument search_only: true, which changes nothing"))
	}
	pattern := optionPattern(key, separator)
	for _, name := range []string{"ignore_if_missing", "append_if_not_found", "show_changes"} {
		delete(c.left, name)
	}
	if marker, err := c.takeText("uncomment"); err != nil || marker != "" {
		pattern = `^\s*(` + regexp.QuoteMeta(marker) + `\s*)?` + pattern[len(`^\s*`):]
	}
	c.args["line"], c.args["match"] = key+separator+value, pattern
	return nil
}

func commented(c *conversion) error {
	pattern, marker, err := commentOf(c)
	if err != nil {
		return err
	}
	c.args["pattern"], c.args["repl"] = "^("+pattern+".*)$", strings.ReplaceAll(marker, "$", "$$")+"${1}"
	return nil
}

func uncommented(c *conversion) error {
	pattern, marker, err := commentOf(c)
	if err != nil {
		return err
	}
	c.args["pattern"], c.args["repl"] = "^"+regexp.QuoteMeta(marker)+`\s*(`+pattern+".*)$", "${1}"
	return nil
}

// commentOf returns the pattern of the lines, without ^ and $, and what begins a comment.
func commentOf(c *conversion) (pattern, marker string, err error) {
	if pattern, err = c.takeText("regex"); err != nil {
		return "", "", err
	}
	if marker, err = c.takeText("char"); err != nil {
		return "", "", err
	}
	delete(c.left, "ignore_missing")
	if marker == "" {
		marker = "#"
	}
	return strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$"), marker, nil
}

// names reads the packages of a declaration. Those with versions become states of their own.
func names(c *conversion) error {
	value, ok := c.take("pkgs")
	if !ok {
		return nil
	}
	elements, ok := value.([]any)
	if !ok || len(elements) == 0 {
		return refuse("argument pkgs: a value of another form")
	}
	var all []string
	for _, element := range elements {
		versions, isMap := element.(map[string]any)
		switch {
		case isScalar(element):
			all = append(all, plain(element))
		case isMap && c.Fun == "installed":
			for _, name := range slices.Sorted(maps.Keys(versions)) {
				c.more = append(c.more, map[string]any{"name": name, "version": plain(versions[name])})
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

// saysChanged matches the output of a stateful command that changed something: JSON, or NAME=VALUE.
const saysChanged = `(?i)\bchanged["']?\s*[=:]\s*["']?(true|yes|1)\b`

// shellReads are the characters, but for quotes and backslashes, that a shell does not give to a program.
const shellReads = "|&;<>()$`*?[#~!{\n"

// command reads the shell of a command. Here it is always /bin/sh.
func command(c *conversion) error {
	program, err := c.takeText("shell")
	if err != nil {
		return err
	}
	if program != "" && path.Base(program) != "sh" {
		c.args["argv"] = []string{program, "-c", c.Name}
		delete(c.args, "command")
	}
	mask, err := c.takeText("umask")
	if err != nil {
		return err
	}
	if line, isText := c.args["command"].(string); mask != "" && isText {
		c.args["command"] = "umask " + shell.Word(mask) + "; " + line
	} else if mask != "" {
		return refuse("argument umask: a command without /bin/sh: write umask into it")
	}
	hasShell, err := c.takeBool("python_shell", true)
	if err != nil {
		return err
	}
	if !hasShell && strings.ContainsAny(c.Name, shellReads) {
		return refuse("argument python_shell: false, and a command with characters that a shell reads: give it as argv")
	}
	limit, err := c.takeText("timeout")
	if limit != "" {
		c.left["timeout "] = limit
	}
	if says, isBool := c.left["stateful"].(bool); isBool {
		delete(c.left, "stateful")
		if says {
			c.args["changed_if"] = map[string]any{"output": saysChanged}
			c.note("stateful: Salt reads the last line of the output, and changed_if its first 8 KiB")
		}
	}
	if creates, ok := c.left["creates"].([]any); ok && len(creates) == 1 {
		c.left["creates"] = creates[0]
	}
	return err
}

// cronPresent reads a line of a user's crontab.
func cronPresent(c *conversion) error {
	times := make([]string, 5)
	for i, name := range []string{"minute", "hour", "daymonth", "month", "dayweek"} {
		value, err := c.takeText(name)
		if err != nil {
			return err
		}
		if value == "random" {
			return refuse("argument %s: random", name)
		}
		times[i] = cmp.Or(value, "*")
	}
	special, err := c.takeText("special")
	if err != nil {
		return err
	}
	identifier, err := c.takeText("identifier")
	if err != nil {
		return err
	}
	user, err := c.takeText("user")
	if err != nil {
		return err
	}
	delete(c.left, "comment")
	c.args["name"] = c.cronName(identifier)
	c.args["command"], c.args["cron"] = c.Name, cmp.Or(special, strings.Join(times, " "))
	if user != "" && user != "root" {
		c.args["user"] = user
	}
	c.note("Salt's line stays in the crontab of " + cmp.Or(user, "root") + ", and its job would run twice: remove it")
	return nil
}

// cronName returns the name of the file of a line of cron.
func (c *conversion) cronName(identifier string) string {
	base := c.source.hidden.mask(cmp.Or(identifier, c.ID))
	return strings.Trim(strings.ReplaceAll(notInNames.ReplaceAllString(base, "-"), ".", "-"), "-")
}

// user reads what happens to the groups and the password that a user has already.
func user(c *conversion) error {
	removes, err := c.takeBool("remove_groups", true)
	if err != nil {
		return err
	}
	if groups, _ := texts(c.left["groups"]); removes && len(groups) > 0 {
		c.note("a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false")
	}
	enforces, err := c.takeBool("enforce_password", true)
	if err != nil {
		return err
	}
	if password := c.left["password"]; !enforces && password != nil && password != "" {
		return refuse("argument enforce_password: false, and a password that a person sets would be replaced")
	}
	if groups, isList := texts(c.left["optional_groups"]); isList && len(groups) == 0 {
		delete(c.left, "optional_groups")
	}
	if err := gid(c); err != nil {
		return err
	}
	c.leaveOutMainGroup()
	return nil
}

// leaveOutMainGroup takes the main group of a user out of its other groups. For Salt a user is in the main group, too;
// here groups are those that list the user.
func (c *conversion) leaveOutMainGroup() {
	groups, ok := texts(c.left["groups"])
	if !ok {
		return
	}
	mainGroup := c.Name // Debian makes a group for each user
	if group, ok := c.args["group"].(string); ok {
		mainGroup = group
	}
	others := []any{}
	for _, group := range groups {
		if group != mainGroup {
			others = append(others, group)
		}
	}
	if len(others) == 0 {
		delete(c.left, "groups")
		return
	}
	c.left["groups"] = others
}

// members converts the members of a group.
func members(c *conversion) error {
	_, adds := c.left["addusers"]
	if _, sets := c.left["members"]; sets && adds {
		return refuse("arguments members and addusers of one group")
	} else if sets {
		c.note("members of a group that the state does not name stay: Salt removes them")
	}
	return nil
}

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
	if _, ok := c.take("branch"); ok {
		c.note("argument branch is left out: the clone has the revision checked out, on no branch")
	}
	return nil
}

// gid reads the primary group of a user.
func gid(c *conversion) error {
	group, err := c.takeText("gid")
	if err != nil {
		return err
	}
	fromName, err := c.takeBool("gid_from_name", false)
	if err != nil {
		return err
	}
	if fromName {
		group = c.Name
	}
	if group == "" {
		return nil
	}
	if _, err := strconv.Atoi(group); err == nil {
		name, known := c.host.groupOf(group)
		if !known {
			return refuse("argument gid: a number of a group that no state has")
		}
		group = name
	}
	c.args["group"] = group
	return nil
}

// groupOf returns the name of the group that a state gives a number.
func (h *Minion) groupOf(number string) (name string, known bool) {
	for _, d := range h.Low {
		if d.Function() == "group.present" && d.args["gid"] != nil && plain(d.args["gid"]) == number {
			return d.Name, true
		}
	}
	return "", false
}

func mountOptions(c *conversion) error {
	value, ok := c.take("opts")
	if !ok {
		return nil
	}
	options, ok := texts(value)
	if !ok {
		return refuse("argument opts: a value of another form")
	}
	c.args["opts"] = strings.Split(strings.Join(options, ","), ",")
	for name, value := range c.left {
		if b, isBool := value.(bool); isBool && !b && strings.HasPrefix(name, "match_on") {
			delete(c.left, name)
		}
	}
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
		value := plain(answer["value"])
		if answer["type"] == "boolean" {
			value = strings.ToLower(value)
		}
		fmt.Fprintf(&content, "%s %s %s\n", question, answer["type"], value)
	}
	c.args["content"] = content.String()
	return nil
}

// Characters that names of files, settings files and states cannot have.
var (
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	notInIDs   = regexp.MustCompile(`[^A-Za-z0-9_./@+ -]+`)
)
