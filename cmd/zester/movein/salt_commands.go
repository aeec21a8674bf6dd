package movein

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// runs makes the state a command that runs unless a test says that nothing is to do.
func (c *conversion) runs(unless string, argv ...string) error {
	c.args["argv"] = argv
	if unless == "" {
		return nil
	}
	if c.fields["unless"] != nil {
		return refuse("argument unless: it has a test of its own here")
	}
	c.fields["unless"] = []string{unless}
	return nil
}

// identifier matches the name of a variable of a shell.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// guardAsCommand gives the guards of a command its shell, directory, variables and user, as Salt does. Here they run as
// the peel does.
func (c *conversion) guardAsCommand() {
	var begin strings.Builder
	env, _ := c.args["env"].(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if identifier.MatchString(name) {
			begin.WriteString("export " + name + "=" + shell.Quote(env[name]) + "; ")
		} else if c.fields["onlyif"] != nil || c.fields["unless"] != nil {
			c.note("onlyif and unless do not have the variable " + name + ", which no shell could give them")
		}
	}
	if dir, ok := c.args["cwd"].(string); ok {
		begin.WriteString("cd " + shell.Quote(dir) + " || exit 1; ")
	}
	user, isOther := c.args["user"].(string)
	isOther = isOther && user != "root"
	if begin.Len() == 0 && !isOther {
		return
	}

	for _, name := range []string{"onlyif", "unless"} {
		guards, _ := c.fields[name].([]string)
		for i, guard := range guards {
			guards[i] = begin.String() + guard
			if isOther {
				guards[i] = "runuser -u " + shell.Word(user) + " -- sh -c " + shell.Quote(guards[i])
			}
		}
	}
}

// packagesOf returns the texts of pkgs, or the name of the declaration.
func (c *conversion) packagesOf() ([]string, error) {
	value, ok := c.take("pkgs")
	if !ok {
		return []string{c.Name}, nil
	}
	all, isList := texts(value)
	if !isList || len(all) == 0 {
		return nil, refuse("argument pkgs: a value of another form")
	}
	return all, nil
}

// nothing leaves out a declaration that changes no host.
func nothing(c *conversion) error {
	c.left, c.isDone = map[string]any{}, true
	return nil
}

// accumulated leaves out a part of a file: the state of the file has it.
func accumulated(c *conversion) error {
	file := c.takeText("filename")
	for _, d := range c.host.Low {
		if d.Name == file && slices.Contains([]string{"file.managed", "file.blockreplace"}, d.Function()) {
			return nothing(c)
		}
	}
	return refuse("a part of a file that no file.managed and no file.blockreplace has")
}

// accumulatedBy returns the parts of the file that states of file.accumulated have for a block.
func (c *conversion) accumulatedBy() ([]string, error) {
	var mine, all []string
	for _, d := range c.host.Low {
		if d.Function() != "file.accumulated" || d.args["filename"] != c.Name {
			continue
		}
		parts, ok := texts(d.args["text"])
		if !ok {
			return nil, refuse("argument text of file.accumulated: a value of another form")
		}
		all = append(all, parts...)
		if slices.ContainsFunc(listOf(c.Declaration.args["require"]), func(e any) bool { return matches(d, e) }) {
			mine = append(mine, parts...)
		}
	}
	if len(mine) > 0 {
		return mine, nil
	}
	return all, nil
}

// script reads a script of salt:// and gives its text to its interpreter.
func script(c *conversion) error {
	source, ok := c.take("source")
	if !ok {
		source = c.Name
	}
	f, err := c.source.find(source)
	if err != nil {
		return err
	}
	if c.isTemplate(string(f.text), "") {
		return refuse("argument source: a template: give the text that Salt rendered as command")
	}
	if len(f.text) > 64<<10 {
		return refuse("a script of more than 64 KiB: give it as file.managed, and run it with cmd.run")
	}
	given := c.takeTexts("args", "shell")
	args := strings.TrimSpace(given[0])
	if _, after, isCut := strings.Cut(c.Name, " "); args == "" && isCut {
		args = strings.TrimSpace(after) // as Salt does
	}
	if strings.ContainsAny(args, shellReads+"'\"\\") {
		return refuse("argument args: characters that a shell reads")
	}
	c.Name = path.Base(plain(source))
	argv := interpreter(string(f.text), given[1])
	if argv == nil {
		return refuse("a script of another program than a shell, Python or Perl")
	}
	c.args["argv"] = slices.Concat(argv, strings.Fields(args))
	return command(c)
}

// interpreter returns the words that run a script. The arguments of the script follow them. It returns nil for an
// unknown program.
func interpreter(text, otherwise string) []string {
	words := []string{cmp.Or(otherwise, "/bin/sh")}
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "#!") {
		words = strings.Fields(first[2:])
		if len(words) > 1 && path.Base(words[0]) == "env" {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return nil
	}
	switch program := path.Base(words[0]); {
	case slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, program):
		return append(words, "-c", text, "script")
	case strings.HasPrefix(program, "python"):
		return append(words, "-c", text)
	case program == "perl":
		return append(words, "-e", text)
	}
	return nil
}

// environment reads a virtual environment of Python with its packages.
func environment(c *conversion) error {
	names := []string{}
	if value, ok := c.take("pip_pkgs"); ok {
		all, isList := texts(value)
		if !isList {
			return refuse("argument pip_pkgs: a value of another form")
		}
		names = all
	}
	python := c.takeText("python")
	if file, _ := c.left["requirements"].(string); strings.HasPrefix(file, "/") {
		return c.environmentOf(file, python, names)
	}
	required, err := c.required()
	if err != nil {
		return err
	}
	names = append(names, required...)
	if len(names) == 0 {
		c.function = "cmd.run"
		c.args["creates"] = c.Name + "/bin/python"
		return c.runs("", cmp.Or(python, "python3"), "-m", "venv", c.Name)
	}
	if python != "" && python != "python3" && python != "/usr/bin/python3" {
		c.note("argument python: " + python + " is left out: pip.installed makes the environment with python3")
	}
	slices.Sort(names)
	c.args["venv"], c.args["names"] = c.Name, slices.Compact(names)
	return nil
}

// environmentOf makes a virtual environment, and has pip read a file of the host in each run, as Salt has.
func (c *conversion) environmentOf(file, python string, names []string) error {
	c.take("requirements")
	argv := []string{c.Name + "/bin/pip", "install", "-r", file}
	if index := c.takeText("index_url"); index != "" {
		argv = append(argv, "-i", index)
	}
	install := map[string]any{
		"command": "out=$(" + words(append(argv, names...)...) + `) || { echo "$out"; exit 1; }` + "\n" +
			`echo "$out" | grep '^Successfully' || true`,
		"changed_if": map[string]any{"output": "^Successfully"},
	}
	if user := number(c.left["user"], number(c.left["runas"], "")); user != "" {
		install["user"] = user
	}
	c.then = []made{{function: "cmd.run", args: install}}
	c.note("pip reads the requirements in each run, as in Salt, and test=true cannot predict what it installs")
	c.function = "cmd.run"
	c.args["creates"] = c.Name + "/bin/python"
	return c.runs("", cmp.Or(python, "python3"), "-m", "venv", c.Name)
}

// required returns the packages that a file of requirements in salt:// names.
func (c *conversion) required() (names []string, err error) {
	value, ok := c.take("requirements")
	if !ok {
		return nil, nil
	}
	if name, isText := value.(string); isText && strings.HasPrefix(name, "/") {
		return nil, refuse("argument requirements: a file of the host: write its packages as names")
	}
	return c.requiredBy(value, 5)
}

// pipComment matches a comment in a file of requirements. In an address, #egg=NAME is no comment.
var pipComment = regexp.MustCompile(`(^|\s+)#.*`)

// requiredBy returns the packages of a file of requirements and of the files that it names, down to a depth.
func (c *conversion) requiredBy(source any, depth int) (names []string, err error) {
	f, err := c.source.find(source)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(f.text)) {
		line = strings.TrimSpace(pipComment.ReplaceAllString(strings.TrimRight(line, "\r\n"), ""))
		other, isFile := strings.CutPrefix(strings.Replace(line, "--requirement", "-r", 1), "-r")
		switch {
		case line == "":
		case isFile && depth > 0:
			below, err := c.requiredBy("salt://"+path.Join(path.Dir(f.name), strings.TrimLeft(other, " =")), depth-1)
			if err != nil {
				return nil, err
			}
			names = append(names, below...)
		case strings.HasPrefix(line, "-"), strings.ContainsAny(line, ":;@/\\"):
			return nil, refuse("argument requirements: the line %q, which is no package NAME or NAME==VERSION", line)
		default:
			names = append(names, strings.ReplaceAll(line, " ", ""))
		}
	}
	return names, nil
}

// serialized writes a value as the text of a file.
func serialized(c *conversion) error {
	value, ok := c.take("dataset")
	if key := c.takeText("dataset_pillar"); !ok {
		value, ok = lookup(c.host.Pillar, strings.Split(key, ":"))
	}
	if !ok {
		return refuse("argument dataset_pillar: a value that is not in the pillar; give --pillar")
	}
	given := c.takeTexts("formatter", "serializer")
	indent, err := c.indentation()
	if err != nil {
		return err
	}
	c.hideDiff()
	c.note(replacesLink)
	if text, isKnown := c.source.rendered(c.host.ID, c.Name); isKnown {
		c.args["content"] = string(text)
		return nil
	}
	var text bytes.Buffer
	switch form := cmp.Or(given[0], given[1], "yaml"); form {
	case "json":
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", strings.Repeat(" ", indent))
		err = enc.Encode(value)
	case "yaml":
		var plainValue any
		if raw, _ := json.Marshal(value); yaml.Unmarshal(raw, &plainValue) != nil {
			return refuse("argument dataset: a value of another form")
		}
		var out []byte
		out, err = encodeNode(valueNode(plainValue))
		text.Write(out)
		c.note("the text of a dataset may have other blanks than Salt's; --pushed keeps that text")
	default:
		return refuse("argument formatter: %s", form+pushFirst)
	}
	c.args["content"] = text.String()
	return err
}

// indentation reads the options of a serializer: the blanks before what is in something else. The keys are sorted.
func (c *conversion) indentation() (indent int, err error) {
	indent = 2
	value, _ := c.take("serializer_opts")
	options, ok := variables(value)
	if value == nil {
		return indent, nil
	}
	for name, option := range options {
		n, err := strconv.ParseUint(option, 10, 4)
		switch {
		case name == "indent" && err == nil:
			indent = int(n)
		case name != "sort_keys" || option != "True":
			ok = false
		}
	}
	if !ok || c.left["formatter"] == "yaml" {
		return 0, refuse("argument serializer_opts: other options than indent and sort_keys%s", pushFirst)
	}
	return indent, nil
}

// copied copies a file of the host to a place where nothing is.
func copied(c *conversion) error {
	given := c.takeTexts("source", "user", "group", "mode")
	if c.takeBool("force", false) {
		return refuse("argument force: true, which copies again: give the file in files/ as file.managed")
	}
	from, to := shell.Quote(given[0]), shell.Quote(c.Name)
	line := "cp -rH --preserve=mode -- " + from + " " + to
	keeps := c.takeBool("preserve", false)
	if keeps {
		line = "cp -aH -- " + from + " " + to
		given = make([]string, len(given)) // Salt does not read the others then
	}
	if c.takeBool("makedirs", false) {
		line = "mkdir -p -- " + shell.Quote(path.Dir(c.Name)) + " && " + line
	}
	if owner := given[1] + ":" + given[2]; owner != ":" { // "user:" is with its main group
		line += " && chown -hR " + shell.Quote(owner) + " " + to
	}
	if given[3] != "" {
		line += " && chmod " + shell.Quote(given[3]) + " " + to
	}
	c.args["command"], c.args["creates"] = line, c.Name
	return nil
}

// renamed moves a file of the host to a place where nothing is.
func renamed(c *conversion) error {
	from := c.takeText("source")
	if c.takeBool("force", false) {
		return refuse("argument force: true, which replaces what is there")
	}
	c.needs("test -e " + shell.Quote(from))
	c.args["creates"] = c.Name
	return c.runs("", "mv", "--", from, c.Name)
}

// prepended writes lines before all others.
func prepended(c *conversion) error {
	if err := appended(c); err != nil {
		return err
	}
	all := []any{c.args["line"]}
	for _, more := range c.more {
		all = append(all, more["line"])
	}
	slices.Reverse(all) // each new line is the first
	c.args["line"], c.args["before"] = all[0], "^"
	for i, more := range c.more {
		more["line"], more["before"] = all[i+1], "^"
	}
	return nil
}
