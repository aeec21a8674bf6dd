package movein

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// maxLines is how many states one file.append may become.
const maxLines = 50

func appended(c *conversion) error {
	value, _ := c.take("text")
	parts, ok := texts(value)
	if !ok {
		return refuse("argument text: a value of another form")
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

// pythonEscape matches what begins with a backslash in a replacement of Python, the reference to a group first.
var pythonEscape = regexp.MustCompile(`(?s)\\g<(\w+)>|\\([1-9][0-9]?)|\\.?`)

func replaced(c *conversion) error {
	pattern := c.takeText("pattern")
	repl := c.takeText("repl")
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
	c.noteDiff()
	c.ifThere("ignore_if_missing")
	return nil
}

// ifThere has a state skipped if its file is missing, where an argument of Salt says so.
func (c *conversion) ifThere(argument string) {
	if c.takeBool(argument, false) {
		c.needs("test -e " + shell.Quote(c.Name))
	}
}

// needs adds a guard without which the state is skipped.
func (c *conversion) needs(guard string) {
	before, _ := c.fields["onlyif"].([]string)
	c.fields["onlyif"] = append(slices.Clone(before), guard)
}

func keyValue(c *conversion) error {
	key := c.takeText("key")
	value := c.takeText("value")
	separator := c.takeText("separator")
	if separator == "" {
		separator = "="
	}
	if key == "" {
		return refuse("argument key_values")
	}
	if c.takeBool("search_only", false) {
		return refuse("argument search_only: true, which changes nothing")
	}
	c.noteDiff()
	c.ifThere("ignore_if_missing")
	marker := c.takeText("uncomment")
	c.note(forAll + "a line of the same value with other blanks is written again: Salt leaves it")
	of := optionPattern(key, separator)
	if marker != "" {
		of = oneOf(marker) + of
	}
	if c.takeBool("append_if_not_found", false) {
		c.args["line"], c.args["match"] = key+separator+value, `^[ \t]*`+of
		if marker == "" {
			c.args["all"] = true // Salt removes the further ones
		} else {
			c.note("several lines of the key: the state fails, where Salt removes or rewrites those after the " +
				"first that are no comments")
		}
		return nil
	}
	c.note(forAll + "further lines of the key stay: Salt removes or rewrites them")

	// Salt changes the first such line, and adds none.
	c.function = "file.replace"
	c.args["pattern"] = firstLine + `[ \t]*` + of + `.*$`
	c.args["repl"] = "${1}" + strings.ReplaceAll(key+separator+value, "$", "$$")
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
