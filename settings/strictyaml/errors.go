package strictyaml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/spelling"
)

// MaxErrors is how many errors one [Errors] holds at most.
const MaxErrors = 50

// Error is one mistake in a document. Path leads to the value by keys and indexes ("disk_check.args.list[2]"); it is
// empty for the document as a whole.
type Error struct {
	Pos  Pos
	Path string
	Msg  string
}

// Error returns "file:line:col: path: msg".
func (e Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %s", e.Pos, e.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", e.Pos, e.Path, e.Msg)
}

// Errors are the errors of one or several documents. Every error of this package is of this type.
type Errors []Error

// Error returns one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns nil if e is empty, else an Errors sorted by position, without duplicates, of at most [MaxErrors]
// elements. It does not change e.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	out := slices.Clone(e)
	sorting.Stable(out, func(a, b Error) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Msg, b.Msg))
	})
	out = slices.Compact(out)
	return out[:min(len(out), MaxErrors)]
}

// Suggest returns `; did you mean "x"?` for the known name that is most similar to name, or "" if none is, or if name
// is known. If name abbreviates exactly one known name, it suggests that one: "command" for "cmd", not "cwd".
func Suggest(name string, known []string) string {
	if slices.Contains(known, name) {
		return ""
	}
	if full := abbreviated(name, known); full != "" {
		return fmt.Sprintf("; did you mean %q?", full)
	}
	best, distance := "", min(3, len(name)/3+1)
	for _, k := range known {
		if d, ok := spelling.Distance(strings.ToLower(name), strings.ToLower(k), distance); ok &&
			(d < distance || best == "") {
			best, distance = k, d
		}
	}
	if best == "" || distance >= len(best) {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// SuggestKey is [Suggest] for a key of a map. If no known key is similar it lists them, or the nearest three of more
// than eight.
func SuggestKey(name string, known []string) string {
	const most, few = 8, 3
	text := Suggest(name, known)
	switch {
	case text != "" || len(known) == 0:
		return text
	case len(known) <= most:
		return "; the keys are " + strings.Join(known, ", ")
	}

	distance := make(map[string]int, len(known))
	for _, k := range known {
		distance[k] = math.MaxInt
		if d, ok := spelling.Distance(strings.ToLower(name), strings.ToLower(k), len(name)+len(k)); ok {
			distance[k] = d
		}
	}
	nearest := slices.Clone(known)
	sorting.Stable(nearest, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return fmt.Sprintf("; the nearest of %d keys are %s", len(known), strings.Join(nearest[:few], ", "))
}

// abbreviated returns the only known name that begins with the same letter as short and contains all letters of short
// in their order, or "".
func abbreviated(short string, known []string) (full string) {
	const least = 3 // letters
	if len(short) < least || len(short) > 64 {
		return ""
	}
	for _, k := range known {
		if !strings.EqualFold(k[:min(1, len(k))], short[:1]) || len(k) <= len(short) ||
			!inOrder(strings.ToLower(short), strings.ToLower(k)) {
			continue
		}
		if full != "" {
			return ""
		}
		full = k
	}
	return full
}

// inOrder reports whether text contains all bytes of part in their order.
func inOrder(part, text string) bool {
	for i := range len(text) {
		if part != "" && text[i] == part[0] {
			part = part[1:]
		}
	}
	return part == ""
}
