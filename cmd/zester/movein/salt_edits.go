package movein

import (
	"cmp"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// maxLines is how many states one file.append may become.
const maxLines = 50

func appended(c *conversion) error {
	parts, err := c.appendedTexts()
	if err != nil {
		return err
	}
	c.note(forAll + "a line that differs in blanks is not taken for it: Salt takes it")
	var lines []string
	for _, part := range parts {
		of := strings.Split(strings.TrimRight(part, "\n"), "\n")
		if len(of) > 1 {
			c.note("a text of several lines: each is added where it is missing, but for empty ones; Salt adds all of " +
				"them unless the file has the whole text")
		}
		lines = append(lines, of...)
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

// appendedTexts returns the argument text, or the texts of the files in source or sources.
func (c *conversion) appendedTexts() (parts []string, err error) {
	for _, argument := range []string{"source", "sources"} {
		value, ok := c.take(argument)
		if !ok {
			continue
		}
		files, ok := texts(value)
		if !ok {
			return nil, refuse("argument %s: a value of another form", argument)
		}
		for _, file := range files {
			f, err := c.source.find(file)
			if err != nil {
				return nil, err
			}
			if c.isTemplate(string(f.text), "jinja") {
				return nil, refuse("argument %s: a template: give the text that Salt rendered as text", argument)
			}
			parts = append(parts, string(f.text))
		}
		c.take("text") // Salt does not read it then
		return parts, nil
	}
	value, _ := c.take("text")
	parts, ok := texts(value)
	if !ok {
		return nil, refuse("argument text: a value of another form")
	}
	return parts, nil
}

// pythonEscape matches what begins with a backslash in a replacement of Python, the reference to a group first.
var pythonEscape = regexp.MustCompile(`(?s)\\g<(\w+)>|\\([1-9][0-9]?)|\\.?`)

// replaced reads file.replace. Salt looks for the regular expression in all of the file.
func replaced(c *conversion) error {
	given := c.takeTexts("pattern", "repl", "not_found_content")
	isLiteral := c.takeBool("backslash_literal", false)
	flags, err := c.flags()
	if err != nil {
		return err
	}
	once := false
	if value, ok := c.take("count"); ok && plain(value) != "0" {
		if once = plain(value) == "1"; !once {
			return refuse("argument count: more than 1: write a pattern that matches these parts alone")
		}
	}
	groups := 0 // that come before the groups of Salt's pattern
	c.args["pattern"] = flags + given[0]
	if once {
		groups = 1
		c.args["pattern"] = `\A((?s:.*?))` + flags + "(?:" + given[0] + ")"
	}
	repl, hasGroups, err := replacement(given[1], groups, isLiteral)
	if err != nil {
		return err
	}
	if once {
		repl = "${1}" + repl
	}
	c.args["repl"] = repl
	c.noteDiff()
	c.ifThere("ignore_if_missing")
	appends, prepends := c.takeBool("append_if_not_found", false), c.takeBool("prepend_if_not_found", false)
	if !appends && !prepends {
		return nil
	}
	line := map[string]any{"path": c.Name, "line": cmp.Or(given[2], given[1])}
	if prepends {
		line["before"] = "^"
	}
	isWhole := line["line"] == given[1] && !hasGroups && !once && strings.Trim(flags, "(?i)") == ""
	return c.ifNotFound(line, given[0], flags, isWhole && isLine(given[0]))
}

// ifNotFound has a line added if the pattern is not in the file. isWhole says that file.replace leaves the line in the
// place of each whole line that the pattern matches.
func (c *conversion) ifNotFound(line map[string]any, pattern, flags string, isWhole bool) error {
	file := " -- " + shell.Quote(c.Name)
	isThere := "grep -Fqx -e " + shell.Quote(plain(line["line"])) + file // it may be there several times
	add := made{function: "file.line", args: line, fields: map[string]any{"unless": []string{isThere}}}
	switch {
	case strings.Contains(plain(line["line"]), "\n"):
		return refuse("argument append_if_not_found: a text of several lines: file.block with begin and end")
	case isWhole:
		c.then = append(c.then, add)
		return nil
	case strings.Trim(flags, "(?i)") != "" || strings.Contains(pattern, `\n`) || strings.Contains(pattern, "\n"):
		return refuse("argument append_if_not_found: a pattern of several lines: file.line with match")
	}
	search := "grep -Pq -e "
	if flags != "" {
		search = "grep -Piq -e "
	}
	add.fields = map[string]any{
		"onlyif": []string{"test -e " + shell.Quote(c.Name)},
		"unless": []string{isThere, search + shell.Quote(pattern) + file},
	}
	c.first = append(c.first, add)
	return nil
}

// isLine reports whether a regular expression matches whole lines.
func isLine(pattern string) bool {
	re, err := syntax.Parse("(?m)"+pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat {
		return false
	}
	last := re.Sub[len(re.Sub)-1]
	isRest := last.Op == syntax.OpStar && last.Flags&syntax.NonGreedy == 0 && last.Sub[0].Op == syntax.OpAnyCharNotNL
	return re.Sub[0].Op == syntax.OpBeginLine && (last.Op == syntax.OpEndLine || isRest)
}

// flagsOf are the flags of regular expressions in Python that have a counterpart, or change nothing for bytes.
var flagsOf = map[string]string{
	"I": "i", "IGNORECASE": "i", "M": "m", "MULTILINE": "m", "S": "s", "DOTALL": "s",
	"U": "", "UNICODE": "", "A": "", "ASCII": "",
}

// flags returns the argument flags as a regular expression here begins with it. Without the argument it is MULTILINE in
// Salt, as it is here.
func (c *conversion) flags() (string, error) {
	value, ok := c.take("flags")
	if !ok {
		return "", nil
	}
	names, ok := texts(value)
	if !ok {
		return "", refuse("argument flags: a value of another form")
	}
	if number, err := strconv.Atoi(strings.Join(names, ",")); err == nil {
		names = nil
		for bit, name := range map[int]string{2: "I", 4: "LOCALE", 8: "M", 16: "S", 32: "U", 64: "VERBOSE", 256: "A"} {
			if number&bit != 0 {
				names = append(names, name)
			}
		}
	}
	var all strings.Builder
	for _, name := range names {
		here, known := flagsOf[strings.ToUpper(name)]
		if !known {
			return "", refuse("argument flags: %s", name)
		}
		all.WriteString(here)
	}
	has := func(flag string) string {
		if strings.Contains(all.String(), flag) {
			return "(?" + flag + ")"
		}
		return ""
	}
	if has("m") == "" {
		return has("i") + has("s") + "(?-m)", nil
	}
	return has("i") + has("s"), nil
}

// replacement returns what replaces a match as it is written here. The groups of Salt's pattern come after others.
func replacement(repl string, after int, isLiteral bool) (here string, hasGroups bool, err error) {
	repl = strings.ReplaceAll(repl, "$", "$$")
	if isLiteral {
		return repl, false, nil
	}
	literals := map[string]string{`\n`: "\n", `\t`: "\t", `\\`: `\`}
	here = pythonEscape.ReplaceAllStringFunc(repl, func(escape string) string {
		m := pythonEscape.FindStringSubmatch(escape)
		if group := m[1] + m[2]; group != "" {
			hasGroups = true
			if n, err := strconv.Atoi(group); err == nil && n > 0 {
				group = strconv.Itoa(n + after)
			}
			return "${" + group + "}"
		}
		if literals[escape] == "" {
			err = refuse("argument repl: %s, which only Python reads", escape)
		}
		return literals[escape]
	})
	return here, hasGroups, err
}

// ifThere has a state skipped if its file is missing, where an argument of Salt says so.
func (c *conversion) ifThere(argument string) {
	if c.takeBool(argument, false) {
		c.needs("test -e " + shell.Quote(c.Name))
	}
}

// needs adds a guard without which the state is skipped.
func (c *conversion) needs(guard string) {
	before := guardsOf(c.fields, "onlyif")
	c.fields["onlyif"] = append(before, guard)
}

// guardsOf returns the commands of a guard.
func guardsOf(fields map[string]any, name string) []string {
	guards, _ := fields[name].([]string)
	return slices.Clone(guards)
}

// keyValue reads a key with its value, or several.
func keyValue(c *conversion) error {
	given := c.takeTexts("key", "value", "separator", "uncomment")
	pairs := map[string]any{given[0]: given[1]}
	if value, ok := c.take("key_values"); ok {
		var isMap bool
		if pairs, isMap = value.(map[string]any); !isMap || len(pairs) == 0 || given[0] != "" {
			return refuse("argument key_values: a value of another form")
		}
	} else if given[0] == "" {
		return refuse("argument key: none, and no key_values")
	}
	if c.takeBool("search_only", false) {
		return refuse("argument search_only: true, which changes nothing")
	}
	c.noteDiff()
	c.ifThere("ignore_if_missing")
	adds := c.takeBool("append_if_not_found", false)
	c.note(forAll + "a line of the same value with other blanks is written again: Salt leaves it")
	switch {
	case !adds:
		c.function = "file.replace" // Salt changes the first such line, and adds none
		c.note(forAll + "further lines of the key stay: Salt removes or rewrites them")
	case given[3] != "":
		c.note("several lines of the key: the state fails, where Salt removes or rewrites those after the " +
			"first that are no comments")
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if !isScalar(pairs[key]) {
			return refuse("argument key_values: a value of another form")
		}
		line := key + cmp.Or(given[2], "=") + plain(pairs[key])
		of := optionPattern(key, cmp.Or(given[2], "="))
		if given[3] != "" {
			of = oneOf(given[3]) + of
		}
		args := map[string]any{
			"path": c.Name, "pattern": firstLine + `[ \t]*` + of + `.*$`,
			"repl": "${1}" + strings.ReplaceAll(line, "$", "$$"),
		}
		if adds {
			args = map[string]any{"path": c.Name, "line": line, "match": `^[ \t]*` + of}
			if given[3] == "" {
				args["all"] = true // Salt removes the further ones
			}
		}
		c.more = append(c.more, args)
	}
	c.args, c.more = c.more[0], c.more[1:]
	return nil
}

// firstLine begins a pattern of file.replace that matches one line of a file, the first. Its group is the text before.
const firstLine = `\A((?s:.*?))^`

// oneOf is a pattern for what Salt removes at the beginning of a line that is to be uncommented: any of the characters,
// as often as they are there.
func oneOf(characters string) string {
	var all []string
	for _, r := range characters {
		all = append(all, regexp.QuoteMeta(string(r)))
	}
	return `(?:(?:` + strings.Join(all, "|") + `)[ \t]*)*`
}

// commented reads file.comment. As in Salt a line begins with what the regular expression matches, whether or not that
// begins with ^, and ends with it if it ends with $.
func commented(c *conversion) error {
	of, marker, err := commentOf(c)
	if err != nil {
		return err
	}
	if c.left["ignore_missing"] != true {
		c.note(forAll + "a file without such a line is left: Salt fails, unless ignore_missing is true")
	}
	c.args["pattern"], c.args["repl"] = "^("+of+")$", strings.ReplaceAll(marker, "$", "$$")+"${1}"
	return nil
}

// uncommented reads file.uncomment. Salt removes the mark alone, and leaves the blanks after it.
func uncommented(c *conversion) error {
	of, marker, err := commentOf(c)
	if err != nil {
		return err
	}
	c.note(forAll + "a file without such a line, with the mark or without, is left: Salt fails")
	c.args["pattern"], c.args["repl"] = "^"+regexp.QuoteMeta(marker)+`([ \t]*`+of+")$", "${1}"
	return nil
}

// commentOf returns the pattern of the lines, without ^ and $, and what begins a comment.
func commentOf(c *conversion) (pattern, marker string, err error) {
	given := c.takeTexts("regex", "char")
	pattern = strings.TrimRight(strings.TrimLeft(given[0], "^"), "$")
	if strings.Contains(pattern, "|") {
		pattern = "(?:" + pattern + ")"
	}
	if !strings.HasSuffix(given[0], "$") {
		pattern += ".*"
	}
	return pattern, cmp.Or(given[1], "#"), nil
}
