// Package edit makes the changes of files by which masters add, change and remove schedule entries of a config repo on
// request.
//
// Call [Read] for a revision, then [Repo.Add], [Repo.Remove], [Repo.SetEnabled] or [Repo.Replace]; the results are
// files with their new contents. [Repo.With] is the revision with a change, to check it. Everything is pure.
//
// An added entry gets a file of its own, settings/api/<entry>.yaml, and a reference in top.d/api.yaml. People may edit
// and move both: an entry is found by the number in its field api, wherever it is. A change touches only the lines of
// its entry; if that is not possible, such as for an entry in flow style, it is refused with [ErrByHand].
package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// The files that are written for new entries.
const (
	Dir = "settings/api"
	Top = "top.d/api.yaml"
)

// Errors of changes.
var (
	// ErrByHand: the lines of the entry cannot be changed without others, such as those of an entry in flow style.
	ErrByHand = errors.New("edit the file by hand")
	// ErrExists: the repo has an entry or a file of this name.
	ErrExists = errors.New("the name is taken")
	// ErrInvalid: the new entry cannot be used.
	ErrInvalid = errors.New("the entry cannot be used")
)

// A Repo is a revision with the places of its entries.
type Repo struct {
	fs      fs.FS
	Entries []*plan.DeclaredEntry // by position
}

// Read reads a revision. The error is one of package plan if the revision has mistakes.
func Read(files fs.FS) (*Repo, error) {
	p, err := plan.NewCompiler().Check(files)
	if err != nil {
		return nil, err
	}
	return &Repo{fs: files, Entries: p.DeclaredEntries()}, nil
}

// ByID returns the entries with the number that a request got: more than one if people copied it.
func (r *Repo) ByID(id int) []*plan.DeclaredEntry {
	return r.all(func(e *schedule.Entry) bool { return e.API.ID == id })
}

// ByName returns the entries of a name. Several files may have one.
func (r *Repo) ByName(name string) []*plan.DeclaredEntry {
	return r.all(func(e *schedule.Entry) bool { return e.Name == name })
}

func (r *Repo) all(is func(*schedule.Entry) bool) (all []*plan.DeclaredEntry) {
	for _, e := range r.Entries {
		if is(e.Entry) {
			all = append(all, e)
		}
	}
	return all
}

// Made counts the entries that requests made, and returns the highest number of one.
func (r *Repo) Made() (n, last int) {
	for _, e := range r.Entries {
		if id := e.Entry.API.ID; id > 0 {
			n, last = n+1, max(last, id)
		}
	}
	return n, last
}

// A New is an entry to add.
type New struct {
	Name   string         // as requested, for people
	Target string         // target expression of the peels that get it
	Fields map[string]any // of the entry, as in a settings file
	ID     int
	By     string
	At     time.Time
}

// EntryName returns the name of the entry for a requested name: lower case, with a dash for all that entries may not
// have.
func EntryName(name string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	text := strings.Trim(b.String(), "-")
	return text[:min(len(text), 100)]
}

// fieldOrder are the fields that come first in a written entry.
var fieldOrder = []string{
	"api", "module", "args", "prompt", "model", "opts", "cron", "interval", "at", "after", "when", "timezone", "splay",
	"enabled",
}

// Add returns the files for a new entry, and its name.
func (r *Repo) Add(n New) (entry string, files map[string][]byte, err error) {
	entry = EntryName(n.Name)
	if entry == "" {
		return "", nil, fmt.Errorf("%w: the name %q has no letter or digit", ErrInvalid, n.Name)
	}
	if n.Target == "" || strings.ContainsFunc(n.Name+n.By+n.Target, unicode.IsControl) {
		return "", nil, fmt.Errorf("%w: name and target are one line each, and the target is not empty", ErrInvalid)
	}
	if was := r.ByName(entry); len(was) > 0 {
		return "", nil, fmt.Errorf("%w: %s has an entry %s", ErrExists, was[0].Pos, entry)
	}
	file := path.Join(Dir, entry+".yaml")
	if _, err := fs.Stat(r.fs, file); !errors.Is(err, fs.ErrNotExist) {
		return "", nil, errors.Join(err, fmt.Errorf("%w: there is a file %s", ErrExists, file))
	}
	fields := maps.Clone(n.Fields)
	fields["api"] = map[string]any{"id": n.ID, "name": n.Name, "by": n.By, "at": n.At.UTC().Format(time.RFC3339)}
	settings, err := written(fmt.Sprintf("# Added by %s on %s. Edit or move it as any other file.", n.By,
		n.At.UTC().Format(time.DateOnly)), entry, fields)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	top, err := r.top(func(refs map[string][]reference) {
		refs[n.Target] = append(refs[n.Target], reference{"api." + entry, ""})
	})
	if err != nil {
		return "", nil, err
	}
	return entry, map[string][]byte{file: settings, Top: top}, nil
}

// written returns a settings file with one entry.
func written(comment, name string, fields map[string]any) ([]byte, error) {
	entry := &yaml.Node{Kind: yaml.MappingNode}
	keys := sorting.Values(maps.Keys(fields), func(a, b string) int {
		ia, ib := slices.Index(fieldOrder, a), slices.Index(fieldOrder, b)
		if ia < 0 {
			ia = len(fieldOrder)
		}
		if ib < 0 {
			ib = len(fieldOrder)
		}
		if ia != ib {
			return ia - ib
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		value := new(yaml.Node)
		if err := value.Encode(fields[key]); err != nil {
			return nil, err
		}
		entry.Content = append(entry.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	doc := mapOf("schedule", mapOf(name, entry))
	var b bytes.Buffer
	b.WriteString(comment + "\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func mapOf(key string, value *yaml.Node) *yaml.Node {
	k := new(yaml.Node)
	k.SetString(key)
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{k, value}}
}

// A reference is a line of top.d/api.yaml with its comment.
type reference struct{ ref, comment string }

// topLabel is the environment that a new top.d/api.yaml has.
const topLabel = "base"

const topComment = "# Written by zester for the entries in settings/api. People may edit it; " +
	"targets and references are sorted.\n"

// top returns top.d/api.yaml after a change, nil if it has no reference any more.
func (r *Repo) top(change func(refs map[string][]reference)) ([]byte, error) {
	refs := map[string][]reference{}
	data, err := fs.ReadFile(r.fs, Top)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrByHand, Top, err)
	}
	if len(doc.Content) > 0 {
		if refs, err = references(doc.Content[0]); err != nil {
			return nil, err
		}
	}
	change(refs)
	var b bytes.Buffer
	for _, expr := range slices.Sorted(maps.Keys(refs)) {
		list := refs[expr]
		if len(list) == 0 {
			continue
		}
		sorting.Func(list, func(a, b reference) int { return strings.Compare(a.ref, b.ref) })
		key, err := yaml.Marshal(expr)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "  %s:\n", bytes.TrimSpace(key))
		for _, l := range list {
			fmt.Fprintln(&b, strings.TrimRight("    - "+l.ref+" "+l.comment, " "))
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	return append([]byte(topComment+topLabel+":\n"), b.Bytes()...), nil
}

// references reads top.d/api.yaml: one environment with lists of references.
func references(doc *yaml.Node) (map[string][]reference, error) {
	byHand := fmt.Errorf("%w: %s is not one map %q of targets with lists of references", ErrByHand, Top, topLabel)
	if doc.Kind != yaml.MappingNode || len(doc.Content) != 2 || doc.Content[0].Value != topLabel ||
		doc.Content[1].Kind != yaml.MappingNode {
		return nil, byHand
	}
	refs := map[string][]reference{}
	pairs := doc.Content[1].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1].Kind != yaml.SequenceNode {
			return nil, byHand
		}
		for _, n := range pairs[i+1].Content {
			if n.Kind != yaml.ScalarNode || strings.ContainsAny(n.Value, "\n#: ") {
				return nil, byHand
			}
			refs[pairs[i].Value] = append(refs[pairs[i].Value], reference{n.Value, n.LineComment})
		}
	}
	return refs, nil
}

// Remove returns the files without an entry. The file of an entry that has one of its own goes, with its reference.
func (r *Repo) Remove(e *plan.DeclaredEntry) (map[string][]byte, error) {
	file := e.Pos.File
	at, err := r.find(e)
	if err != nil {
		return nil, err
	}
	lines, key := at.lines, at.key
	alone := !slices.ContainsFunc(r.Entries, func(o *plan.DeclaredEntry) bool { return o != e && o.Pos.File == file })
	if file == path.Join(Dir, e.Entry.Name+".yaml") && alone && onlySchedule(lines) {
		ref := "api." + e.Entry.Name
		top, err := r.top(func(refs map[string][]reference) {
			for expr, list := range refs {
				refs[expr] = slices.DeleteFunc(list, func(l reference) bool { return l.ref == ref })
			}
		})
		if err != nil {
			return nil, err
		}
		return r.checked(map[string][]byte{file: nil, Top: top}, e, nil)
	}
	for key > 0 && isComment(lines[key-1], indent(lines[key])) {
		key-- // the comment of the entry
	}
	return r.checked(map[string][]byte{file: join(slices.Delete(slices.Clone(lines), key, at.end))}, e, nil)
}

// onlySchedule reports whether a file has no other setting than a schedule.
func onlySchedule(lines []string) bool {
	return !slices.ContainsFunc(lines, func(l string) bool {
		return l != "" && indent(l) == 0 && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "schedule:") &&
			strings.TrimSpace(l) != "---"
	})
}

// SetEnabled returns the file with an entry enabled or disabled. why is one line for people, as a comment; it may be
// empty.
func (r *Repo) SetEnabled(e *plan.DeclaredEntry, enabled bool, why string) (map[string][]byte, error) {
	where, err := r.find(e)
	if err != nil {
		return nil, err
	}
	lines, key, end := slices.Clone(where.lines), where.key, where.end
	line := fmt.Sprintf("enabled: %v", enabled)
	if why != "" {
		line += " # " + why
	}
	first := slices.IndexFunc(lines[key+1:end], func(l string) bool {
		return strings.TrimSpace(l) != "" && !strings.HasPrefix(strings.TrimSpace(l), "#")
	})
	if first < 0 {
		return nil, fmt.Errorf("%w: %s", ErrByHand, e.Pos)
	}
	depth := indent(lines[key+1+first])
	at := slices.IndexFunc(lines[key+1:end], func(l string) bool {
		return indent(l) == depth && strings.HasPrefix(strings.TrimSpace(l), "enabled:")
	})
	line = strings.Repeat(" ", depth) + line
	if at >= 0 {
		lines[key+1+at] = line
	} else {
		lines = slices.Insert(lines, key+1, line)
	}
	return r.checked(map[string][]byte{e.Pos.File: join(lines)}, e, func(now *schedule.Entry) bool {
		changed := *e.Entry
		changed.Enabled = enabled
		return bytes.Equal(changed.Canonical(), now.Canonical())
	})
}

// A place is where an entry is in its file.
type place struct {
	lines []string // of the file
	key   int      // index of the entry's key
	end   int      // index of the first line after the entry
}

// find returns the place of an entry.
func (r *Repo) find(e *plan.DeclaredEntry) (place, error) {
	data, err := fs.ReadFile(r.fs, e.Pos.File)
	if err != nil {
		return place{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	key := e.Pos.Line - 1
	if key < 0 || key >= len(lines) || indent(lines[key]) != e.Pos.Column-1 ||
		!strings.HasSuffix(withoutComment(lines[key]), ":") {
		return place{}, fmt.Errorf("%w: %s: the entry does not begin a line of its own", ErrByHand, e.Pos)
	}
	last := key
	for i := key + 1; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		if text == "" || strings.HasPrefix(text, "#") && indent(lines[i]) <= indent(lines[key]) {
			continue
		}
		if indent(lines[i]) <= indent(lines[key]) {
			break
		}
		last = i
	}
	return place{lines, key, last + 1}, nil
}

func withoutComment(line string) string {
	text, _, _ := strings.Cut(line, " #")
	return strings.TrimSpace(text)
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func isComment(line string, depth int) bool {
	return indent(line) == depth && strings.HasPrefix(strings.TrimSpace(line), "#")
}

func join(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

// checked returns the files if they change the one entry alone: is accepts its new definition, nil stands for no entry.
func (r *Repo) checked(files map[string][]byte, e *plan.DeclaredEntry,
	is func(*schedule.Entry) bool,
) (map[string][]byte, error) {
	after, err := Read(r.With(files))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: the repo would have mistakes without the lines of the entry: %w", ErrByHand,
			e.Pos, err)
	}
	type place struct{ name, file string }
	was, now := map[place]string{}, map[place]string{}
	for _, o := range r.Entries {
		if o != e {
			was[place{o.Entry.Name, o.Pos.File}] = o.Entry.Hash()
		}
	}
	for _, o := range after.Entries {
		at := place{o.Entry.Name, o.Pos.File}
		if at == (place{e.Entry.Name, e.Pos.File}) && is != nil && is(o.Entry) {
			is = nil
			continue
		}
		now[at] = o.Entry.Hash()
	}
	if !maps.Equal(was, now) {
		return nil, fmt.Errorf("%w: %s: the entry cannot be changed without others", ErrByHand, e.Pos)
	}
	return files, nil
}

// Mistakes returns the positions and texts of an error of [Read], nil if it is another error.
func Mistakes(err error) strictyaml.Errors {
	if refused, ok := errors.AsType[*plan.Error](err); ok {
		return refused.Errors
	}
	return nil
}
