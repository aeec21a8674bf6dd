package page

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A Form is a page that asks for a confirmation before anything is done.
type Form struct {
	Name    string      // of the page
	Title   string      // the question
	What    [][2]string // what will happen, to whom, and who will see it: words and sentences
	Fields  []Field
	Typed   string // has to be typed to confirm; empty: nothing has
	Button  string
	Hard    bool   // it stops or removes something
	Back    string // the path of the page without the action
	Command string // the same on the command line
	Refused string // why it was refused; empty: it was not
	// Seen stands for what the page shows. The order is refused if that is other by then.
	Seen  string
	Claim [][2]string // what an assistant says, which may be wrong
	Diff  string      // the commit that it leads to; empty: none is shown
	Other *Link       // to another decision; nil: there is none
	// A form without a Button offers Other alone.
}

// A Field is a value that a form sends.
type Field struct {
	Name, Label, Value, Hint string
	Kind                     string // hidden, text, lines or code; empty: text
}

// ArgLines writes arguments as name=JSON, one a line.
func ArgLines(args map[string]any) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value, err := json.Marshal(args[name])
		if err == nil {
			lines = append(lines, name+"="+string(value))
		}
	}
	return strings.Join(lines, "\n")
}
