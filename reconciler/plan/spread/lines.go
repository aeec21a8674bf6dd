package spread

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// errByHand: the lines of an entry are not written so that they can be changed one by one.
var errByHand = errors.New("edit the file by hand")

// A change replaces a part of a line, or inserts text before a field.
type change struct {
	line, from, to int    // bytes of the line, counted from 0
	text           string // in place of them
}

// changes are changes of files, each by its file.
type changes struct {
	files    fs.FS
	byFile   map[string][]change
	inserted map[[3]string]bool // by file, entry and field
}

// besides are the fields before which new ones are inserted, with their other names: the first that begins a line, or
// stands in one, with its value.
var besides = []string{"cron", "when", "schedule", "at", "interval", "every", "module", "command"}

// entry adds the changes of an entry.
func (c *changes) entry(e *plan.DeclaredEntry, p Entry) error {
	splay := max(e.Entry.Splay.Max, p.Splay)
	fields := [][2]string{{"splay", strictyaml.FormatDuration(splay)}, {"splay_mode", "host"}}
	if p.Phase > e.Entry.Clock.Phase {
		fields = append(fields, [2]string{"phase", strictyaml.FormatDuration(p.Phase)})
	}
	var missing [][2]string
	for _, f := range fields {
		at, ok := e.Field(f[0])
		if !ok && f[0] == "splay" {
			at, ok = e.Field("jitter")
		}
		if !ok {
			missing = append(missing, f)
		} else if err := c.replace(at, f[1]); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for _, name := range besides {
		if at, ok := e.Field(name); ok && c.insert(at, name, e.Entry.Name, missing) == nil {
			return nil
		}
	}
	return errByHand
}

// scalar is a value in one line.
var scalar = regexp.MustCompile(`^(?:"[^"]*"|'[^']*'|[^\s,{}\[\]#'"|>&*!][^\s,{}\[\]#]*)`)

// replace replaces the value at a position.
func (c *changes) replace(at strictyaml.Pos, value string) error {
	line, err := c.line(at)
	if err != nil {
		return err
	}
	old := scalar.FindString(line[at.Column-1:])
	if old == "" {
		return errByHand
	}
	c.add(at.File, change{at.Line - 1, at.Column - 1, at.Column - 1 + len(old), value})
	return nil
}

// insert inserts fields of an entry before the field besides, whose value is at a position.
func (c *changes) insert(at strictyaml.Pos, besides, entry string, fields [][2]string) error {
	line, err := c.line(at)
	if err != nil {
		return err
	}
	before, found := strings.CutSuffix(strings.TrimRight(line[:at.Column-1], " "), besides+":")
	if !found {
		return errByHand
	}
	between, after := ", ", ", "
	if strings.TrimSpace(before) == "" && !c.isFlow(at) {
		between, after = "\n"+before, "\n"+before
	}
	var texts []string
	for _, f := range fields {
		if key := [3]string{at.File, entry, f[0]}; !c.inserted[key] { // another peel has the entry from the same lines
			c.inserted[key] = true
			texts = append(texts, f[0]+": "+f[1])
		}
	}
	if len(texts) > 0 {
		c.add(at.File, change{at.Line - 1, len(before), len(before), strings.Join(texts, between) + after})
	}
	return nil
}

// isFlow reports whether the field that begins a line is in braces: it, or the line before, ends with a comma or a
// brace.
func (c *changes) isFlow(at strictyaml.Pos) bool {
	lines := c.lines(at.File)
	for i := at.Line - 1; i >= max(0, at.Line-2); i-- {
		text, _, _ := strings.Cut(lines[i], " #")
		if text = strings.TrimSpace(text); strings.HasSuffix(text, ",") || strings.HasSuffix(text, "{") {
			return true
		}
	}
	return false
}

// add adds a change, once.
func (c *changes) add(file string, ch change) {
	if !slices.Contains(c.byFile[file], ch) {
		c.byFile[file] = append(c.byFile[file], ch)
	}
}

// line returns the line of a position, if the position is in it.
func (c *changes) line(at strictyaml.Pos) (string, error) {
	lines := c.lines(at.File)
	if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || at.Column > len(lines[at.Line-1]) ||
		!isPlain(lines[at.Line-1]) {
		return "", errByHand
	}
	return lines[at.Line-1], nil
}

// lines returns the lines of a file, none if it cannot be read.
func (c *changes) lines(file string) []string {
	data, err := fs.ReadFile(c.files, file)
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\n")
}

// isPlain reports whether a line has the same columns in bytes and in characters.
func isPlain(line string) bool {
	return !strings.ContainsFunc(line, func(r rune) bool { return r > '~' || r == '\t' })
}

// apply returns the changed files.
func (c *changes) apply() (map[string][]byte, error) {
	out := map[string][]byte{}
	for file, list := range c.byFile {
		data, err := fs.ReadFile(c.files, file)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(data), "\n")
		sorting.Func(list, func(a, b change) int { return b.from - a.from }) // the last of a line first
		for _, ch := range list {
			lines[ch.line] = lines[ch.line][:ch.from] + ch.text + lines[ch.line][ch.to:]
		}
		out[file] = []byte(strings.Join(lines, "\n"))
	}
	return out, nil
}
