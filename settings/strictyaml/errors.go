package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxErrors is how many errors one [Errors] holds at most.
const MaxErrors = 50

// Error is one thing that is wrong with a document. Path is the way to the value by keys and indexes
// ("disk_check.args.list[2]"), empty for the document as a whole.
type Error struct {
	Pos  Pos
	Path string
	Msg  string
}

// Error gives "file:line:col: path: msg".
func (e Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %s", e.Pos, e.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", e.Pos, e.Path, e.Msg)
}

// Errors are the errors of one or several documents. It is the type of every error of this package.
type Errors []Error

// Error gives one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil where there are no errors, else an Errors sorted by position, without repetitions,
// of at most [MaxErrors] elements. e is not changed.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	out := slices.Clone(e)
	slices.SortStableFunc(out, func(a, b Error) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Msg, b.Msg))
	})
	out = slices.Compact(out)
	return out[:min(len(out), MaxErrors)]
}

// Suggest returns `; did you mean "x"?` for the known name that name is most probably a slip of, or "".
// It prefers the only name that name is an abbreviation of: "cmd" is "command", not "cwd".
func Suggest(name string, known []string) string {
	if full := abbreviated(name, known); full != "" {
		return fmt.Sprintf("; did you mean %q?", full)
	}
	best, distance := "", min(3, len(name)/3+1)
	if len(name) > 64 {
		return ""
	}
	for _, k := range known {
		if d := edits(strings.ToLower(name), strings.ToLower(k)); d < distance || d == distance && best == "" {
			best, distance = k, d
		}
	}
	if best == "" || distance >= len(best) {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// abbreviated returns the only known name that begins with the same letter as short and holds all of its letters in their
// order, or "".
func abbreviated(short string, known []string) (full string) {
	const least = 3 // letters
	if len(short) < least || len(short) > 64 {
		return ""
	}
	for _, k := range known {
		if !strings.EqualFold(k[:min(1, len(k))], short[:1]) || len(k) <= len(short) || !inOrder(strings.ToLower(short), strings.ToLower(k)) {
			continue
		}
		if full != "" {
			return ""
		}
		full = k
	}
	return full
}

// inOrder reports whether text holds all bytes of part in their order.
func inOrder(part, text string) bool {
	for i := range len(text) {
		if part != "" && text[i] == part[0] {
			part = part[1:]
		}
	}
	return part == ""
}

// edits counts insertions, deletions, replacements and swaps of neighbours between a and b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
