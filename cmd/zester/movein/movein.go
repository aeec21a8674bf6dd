// Package movein turns what a fleet has into settings. Call [Crontabs] for tables of cron, or [Hosts] for those of many
// hosts, and [Salt] for what Salt would apply, which [ReadSalt] and [Minions] read. [AdoptFile] and its siblings return
// states that a host fulfils already.
//
// Guarantees of tables of cron: each line becomes an entry, or a [Row] that says why it does not. A proof reads the
// written settings as a peel reads them, and compares the times of each entry with those at which the cronie daemon
// starts the job (package crontab). An entry whose times differ is not written.
//
// Guarantees of Salt, which renders its own templates, includes and pillars:
//   - Each declaration becomes one state or several, or a state with enabled: false and the declaration in a comment.
//     Equal ones of several hosts are in one file.
//   - Each written state was read as lint reads it. The whole repo was compiled for the hosts, with the errors in
//     [SaltResult.Mistakes].
//   - The states of a host run in the order in which Salt runs them, but on hosts in [SaltResult.Reordered]. Where
//     their files do not give this order, a file with their names alone does.
//   - A requisite on what does nothing, or on what is not converted, is carried on to what that one needs.
//   - The next hundred times of each entry of the schedule, in UTC, are those by Salt's rule.
//   - No text or number of 6 bytes or more that the pillar of a host names as a secret is in the files of the repo, and
//     no text that has the shape of a secret.
//
// Known gaps: cron starts a job while its earlier run goes on, and an entry does not, unless it has if_running: allow.
// Mail of output is not sent; MAILTO is written as a comment. A template of Salt becomes one here only if it has
// names, if and for over texts, with values of the context, the pillar and the grains; these values become vars of the
// state. Loops over maps, filters and macros need the text that Salt rendered. A secret that the pillar has in less
// than 6 bytes is not found in texts, nor one that a state has in another form: encoded, hashed, or with other blanks
// before its lines. A password in a URL that no pillar names as a secret is written as it is, and lint warns of it.
// The output of a run that fails is kept as a job.
package movein

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Table is the text of a table of cron.
type Table struct {
	Name string // of its file, for comments and messages
	Text string
	User string // whose table it is; empty if its lines name their user

	hosts     string // that have it, for comments
	isGuarded bool   // lines that look as if they had a secret become no entry
}

// A Row is a line that became no entry.
type Row struct {
	File   string
	Line   int
	Text   string
	Reason string
}

// Imported is what became of tables.
type Imported struct {
	Settings []byte // a settings file
	Entries  int
	Times    int // that were compared and are equal
	Rows     []Row
}

// Crontabs turns tables into one settings file. now is where the proof begins.
func Crontabs(tables []Table, now time.Time) (Imported, error) {
	w := newWriter(map[string]bool{})
	for _, t := range tables {
		if err := w.table(t, now); err != nil {
			return Imported{}, err
		}
	}
	text, err := w.file(tables)
	return Imported{text, w.count(), w.times, w.rows}, err
}

// newWriter returns a writer whose entries have none of the taken names. It adds their names.
func newWriter(taken map[string]bool) *writer {
	return &writer{names: taken, entries: &yaml.Node{Kind: yaml.MappingNode}}
}

// table adds the lines of a table.
func (w *writer) table(t Table, now time.Time) error {
	jobs, refused, err := crontab.Parse(t.Text, t.User)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", t.Name, err)
	}
	first := len(w.rows)
	for _, r := range refused {
		w.refuse(t, r.Line, r.Text, "cron does not run this line: "+r.Reason)
	}
	for _, j := range jobs {
		compared, err := w.add(t, j, now)
		if err != nil {
			w.refuse(t, j.Line, j.Text, err.Error())
			continue
		}
		w.times += compared
	}
	sorting.Stable(w.rows[first:], func(a, b Row) int { return a.Line - b.Line })
	return nil
}

func (w *writer) refuse(t Table, line int, text, reason string) {
	if t.isGuarded {
		text, reason = private.Hide(text), private.Hide(reason)
	}
	w.rows = append(w.rows, Row{t.Name, line, text, reason})
}

// count returns how many entries there are.
func (w *writer) count() int { return len(w.entries.Content) / 2 }

// A writer collects the entries of a settings file.
type writer struct {
	names   map[string]bool
	entries *yaml.Node
	times   int
	rows    []Row
}

// add writes the entry of a job if its times are those of the job, and returns how many were compared.
func (w *writer) add(t Table, j crontab.Job, now time.Time) (int, error) {
	if j.Reboot {
		return 0, errors.New("no entry runs when a host starts; keep the line, or write a unit of systemd")
	}
	if !utf8.ValidString(j.Text) {
		return 0, errors.New("the line is not UTF-8")
	}
	if t.isGuarded && hasSecret(j) {
		return 0, errSecret
	}
	fields, err := fieldsOf(j, now)
	if err != nil {
		return 0, err
	}
	name := w.name(j.Command)
	entry, err := parse(name, fields)
	if err != nil {
		return 0, err
	}
	compared, err := prove(entry, j, now)
	if err != nil {
		return 0, err
	}
	w.names[name] = true
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, HeadComment: comment(t, j)}
	w.entries.Content = append(w.entries.Content, key, fields)
	return compared, nil
}

func comment(t Table, j crontab.Job) string {
	lines := printable(j.Comment)
	if t.isGuarded {
		for i := range lines {
			lines[i] = private.Hide(lines[i])
		}
	}
	lines = append(lines, fmt.Sprintf("%s:%d", printable([]string{t.Name})[0], j.Line))
	if j.MailTo != "" {
		lines = append(lines, "cron mailed the output to "+printable([]string{j.MailTo})[0]+"; see zester guide alerts")
	}
	return "# " + strings.Join(lines, "\n# ")
}

// printable returns lines without control characters, which would end a comment.
func printable(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r == '\ufeff' {
				return '?'
			}
			return r
		}, line)
	}
	return out
}

// name returns a new name for an entry: the program that the command starts with its first argument, such as backup-db.
// If that is taken, the name has another argument or a number.
func (w *writer) name(command string) string {
	base, rest := "job", []string(nil)
	isOperand := false // the word is the folder of cd, the lock of flock, or the time of timeout
	for words := strings.Fields(command); len(words) > 0; words = words[1:] {
		word := path.Base(strings.Trim(words[0], `"'();&`))
		if strings.Contains(word, "=") || strings.ContainsAny(word, "[]{}!$") || commonWords[word] {
			isOperand = isOperand || slices.Contains([]string{"cd", "flock", "sleep", "timeout"}, word)
			continue
		}
		if isOperand && !strings.HasPrefix(word, "-") {
			isOperand = false
			continue
		}
		if word = nameWord(word); word != "" {
			base, rest = word, words[1:]
			break
		}
	}
	for i, word := range rest {
		if strings.ContainsAny(word, ";&|<>`") {
			break
		}
		word = strings.Trim(word, `"'`)
		isName := !strings.HasPrefix(word, "-") && !strings.ContainsAny(word, `=$%*?\(){}[]"'@:,+`)
		if i > 0 && !w.names[base] || !isName {
			continue // an argument after the first one is in a name that is taken otherwise
		}
		if long := base + "-" + nameWord(path.Base(word)); nameWord(word) != "" && len(long) <= 100 && !w.names[long] {
			return long
		}
	}
	return free(base, w.names)
}

// nameWord makes a part of a name of a word of a command.
func nameWord(word string) string {
	word = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(word, ".sh"), ".py"), ".pl")
	word = strings.Trim(strings.Map(nameRune, word), "-.")
	return word[:min(len(word), 100)]
}

// free returns a name that is not taken.
func free(base string, taken map[string]bool) string {
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// commonWords begin a command and say nothing about it.
var commonWords = map[string]bool{
	"cd": true, "test": true, "exec": true, "sh": true, "bash": true, "nice": true, "ionice": true, "env": true,
	"flock": true, "if": true, "then": true, "sleep": true, "sudo": true, "command": true, "timeout": true,
	"chronic": true, "nohup": true, "-n": true, "-x": true, "-c": true, "-lc": true, "-v": true, "/": true, ".": true,
}

func nameRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_.-", r):
		return r
	}
	return '-'
}

// fieldsOf returns the entry of a job.
func fieldsOf(j crontab.Job, now time.Time) (*yaml.Node, error) {
	fields := &yaml.Node{Kind: yaml.MappingNode}
	expr, err := expression(j.Times)
	if err != nil {
		return nil, err
	}
	parsed, _, err := cron.Parse(expr)
	if err != nil {
		return nil, err
	}
	set(fields, "module", "cmd.run")
	set(fields, "args", arguments(j))
	set(fields, "cron", expr)
	if j.Zone != "" {
		zone, err := window.Zone(j.Zone)
		if err != nil {
			return nil, fmt.Errorf("CRON_TZ: %w", err)
		}
		set(fields, "timezone", j.Zone)
		// The daemon makes up for no time of a zone that is not its host's.
		if _, end := now.In(zone).ZoneBounds(); !end.IsZero() && !parsed.Wild() {
			set(fields, "dst_gap", string(cron.GapSkip))
			set(fields, "dst_overlap", string(cron.RepeatBoth))
		}
	}
	if delay := delay(j); delay > 0 {
		set(fields, "splay", strictyaml.FormatDuration(delay))
		set(fields, "splay_mode", string(schedule.SplayHost))
	}
	set(fields, "return_job", string(schedule.ReturnFailures)) // cron mails output
	return fields, nil
}

// expression returns the five fields as they are written, or listed if package cron refuses a step that is too large.
func expression(t crontab.Times) (string, error) {
	if _, _, err := cron.Parse(t.Text); err == nil {
		return t.Text, nil
	}
	_, _, err := cron.Parse(t.List())
	return t.List(), err
}

// delay returns the longest delay of a start. The daemon chooses it once for each host.
func delay(j crontab.Job) time.Duration {
	minutes := j.Delay
	if j.Times.Spread > 0 {
		minutes += j.Times.Spread + 1
	}
	return time.Duration(minutes) * time.Minute
}

func arguments(j crontab.Job) *yaml.Node {
	args := &yaml.Node{Kind: yaml.MappingNode}
	set(args, "command", j.Command)
	set(args, "user", j.User)
	for _, v := range []struct{ argument, value string }{
		{"shell", j.Env["SHELL"]},
		{"cwd", j.Env["HOME"]},
		{"stdin", j.Stdin},
	} {
		if v.value != "" {
			set(args, v.argument, v.value)
		}
	}
	if len(j.Env) > 0 {
		set(args, "env", j.Env)
	}
	return args
}

// set appends a key with its value to a map.
func set(fields *yaml.Node, key string, value any) {
	node, ok := value.(*yaml.Node)
	if !ok {
		node = valueNode(value)
	}
	fields.Content = append(fields.Content, valueNode(key), node)
}

// file returns the settings file.
func (w *writer) file(tables []Table) ([]byte, error) {
	var b bytes.Buffer
	for _, t := range tables {
		from := t.Name
		if t.hosts != "" {
			from += " of " + t.hosts
		}
		fmt.Fprintf(&b, "# From %s.\n", printable([]string{from})[0])
	}
	if w.count() > 0 {
		text, err := encode("schedule", w.entries)
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	for _, r := range w.rows {
		lines := printable([]string{r.File, r.Reason, r.Text})
		fmt.Fprintf(&b, "# not imported: %s:%d: %s\n#   %s\n", lines[0], r.Line, lines[1], lines[2])
	}
	return b.Bytes(), nil
}

func encode(key string, value *yaml.Node) ([]byte, error) {
	doc := &yaml.Node{Kind: yaml.MappingNode}
	set(doc, key, value)
	return encodeNode(doc)
}

// encodeNode returns a document as text.
func encodeNode(doc *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(doc), enc.Close())
	return b.Bytes(), err
}
