//go:build linux

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// errNoText: file.line and file.block change text only.
var errNoText = errors.New("the file is not UTF-8 text, and only lines in ASCII can be put into text of another kind")

// tooLarge is the format of the error about a file that is not edited, because a plan holds its text several times.
const tooLarge = "%s has %d bytes, and files of at most %d bytes are edited; " +
	"replace it with file.managed, or edit it with cmd.run, for example with sed -i and a guard"

// edit plans a new text of the file f, as [newText] does. The directory of the file must be there.
func edit(w *host.World, f wanted, change func(lines []string) ([]string, error)) ([]host.Step, error) {
	steps, err := newText(w, f, 0o644, change)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if _, err := parents(w, f.path, false, attributes{}); err != nil {
		return nil, err
	}
	return steps, nil
}

// newText plans a new text of the file f. A file that is there keeps its owner, and also its mode unless f has one. A
// new file gets the mode. It is not made if change leaves it empty.
func newText(w *host.World, f wanted, mode uint32, change func(lines []string) ([]string, error)) ([]host.Step, error) {
	name := f.path
	info, err := w.Stat(name)
	if err != nil {
		return nil, err
	}
	var old []byte
	switch info.Kind {
	case safefs.Absent:
	case safefs.File:
		if info.Size > MaxFile {
			return nil, fmt.Errorf(tooLarge, name, info.Size, MaxFile)
		}
		if old, err = w.Read(name, MaxFile); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%s is %s", name, info.Kind)
	}
	if !isText(old) && (!f.isASCII || bytes.IndexByte(old, 0) >= 0) {
		return nil, fmt.Errorf("%s: %w", name, errNoText)
	}
	lines, err := change(split(string(old)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.content = []byte(strings.Join(lines, ""))
	if info.Kind == safefs.Absent && len(f.content) == 0 {
		return nil, nil
	}
	return f.plan(w, info, mode)
}

// split returns the lines of a text with their line breaks.
func split(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// ended returns the lines with a line break at the end of the last one.
func ended(lines []string) []string {
	if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
		lines = slices.Clone(lines)
		lines[n-1] += lineBreak(lines)
	}
	return lines
}

// lineBreak returns the one that a text has.
func lineBreak(lines []string) string {
	if len(lines) > 0 && strings.HasSuffix(lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// Line plans file.line: the file has the line once. The line that match matches is replaced. If it matches several, the
// state fails, or with all the first is replaced and the others are removed. Without such a line the new one comes
// after the last line that after matches, before the first that before matches, or at the end. With absent, the lines
// that match matches, or that equal line, are removed.
func Line(w *host.World, a *state.FileLine) ([]host.Step, error) {
	matches := func(text string) bool { return text == a.Line }
	if a.Match != "" {
		re, err := regexp.Compile(a.Match)
		if err != nil {
			return nil, err
		}
		matches = func(text string) bool { return re.MatchString(text) || !a.Absent && text == a.Line }
	}
	f := wanted{path: a.Path, diff: true, check: a.Check, isASCII: isASCII(a.Line)}
	return edit(w, f, func(lines []string) ([]string, error) {
		isOld := func(line string) bool { return matches(strings.TrimRight(line, "\r\n")) }
		if a.Absent {
			return slices.DeleteFunc(slices.Clone(lines), isOld), nil
		}
		first := slices.IndexFunc(lines, isOld)
		if first < 0 {
			at, err := place(lines, a)
			return slices.Insert(slices.Clone(ended(lines)), at, a.Line+lineBreak(lines)), err
		}
		if !a.All {
			if err := isOne(lines, isOld); err != nil {
				return nil, err
			}
		}
		out := slices.Clone(lines[:first+1])
		if strings.TrimRight(lines[first], "\r\n") != a.Line {
			out[first] = a.Line + lineBreak(lines)
		}
		return append(out, slices.DeleteFunc(slices.Clone(lines[first+1:]), isOld)...), nil
	})
}

// isOne returns an error if several lines are to be replaced.
func isOne(lines []string, isOld func(line string) bool) error {
	var found []string
	for i, line := range lines {
		if isOld(line) {
			found = append(found, strconv.Itoa(i+1))
		}
	}
	if len(found) <= 1 {
		return nil
	}
	const most = 5
	if len(found) > most {
		found = append(found[:most], "…")
	}
	return fmt.Errorf("the lines %s match or equal the line; let match have one of them, "+
		"or all: true replace the first and remove the others", strings.Join(found, ", "))
}

// place returns where a new line goes.
func place(lines []string, a *state.FileLine) (int, error) {
	if a.After == "" && a.Before == "" {
		return len(lines), nil
	}
	re, err := regexp.Compile(a.After + a.Before) // one of them is empty
	if err != nil {
		return 0, err
	}
	if len(lines) == 0 && re.MatchString("") {
		return 0, nil // an empty file has one line, which is empty
	}
	at := -1
	for i, line := range lines {
		if re.MatchString(strings.TrimRight(line, "\r\n")) {
			if a.Before != "" {
				return i, nil
			}
			at = i + 1
		}
	}
	if at < 0 {
		return 0, fmt.Errorf("no line matches %q, so there is no place for the new line", a.After+a.Before)
	}
	return at, nil
}

// Block plans file.block: the file has the content between two lines with the marker.
func Block(ctx context.Context, w *host.World, a *state.FileBlock, in Inputs) ([]host.Step, error) {
	attrs, err := resolve(ctx, w, "", "", a.Mode)
	if err != nil {
		return nil, err
	}
	f := wanted{path: a.Path, secret: in.Secret && !a.Absent, diff: true, attributes: attrs, check: a.Check}
	begin, end := a.Around()
	f.isASCII = isASCII(begin+end) && (a.Absent || isASCII(*a.Content))
	at := func(lines []string, want string) int {
		return slices.IndexFunc(lines, func(line string) bool { return strings.TrimRight(line, "\r\n") == want })
	}
	return edit(w, f, func(lines []string) ([]string, error) {
		first, last := at(lines, begin), at(lines, end)
		switch {
		case first < 0 && last < 0:
			if a.Absent {
				return lines, nil
			}
			lines = ended(lines)
			first, last = len(lines), len(lines)-1
		case first < 0 || last < first || at(lines[last+1:], end) >= 0 || at(lines[first+1:], begin) >= 0:
			return nil, fmt.Errorf("the lines %q and %q do not stand as one pair; mend the file by hand", begin, end)
		}
		var block []string
		if !a.Absent {
			block = slices.Concat([]string{begin + "\n"}, ended(split(*a.Content)), []string{end + "\n"})
		}
		if lineBreak(lines) == "\r\n" {
			for i, line := range block {
				block[i] = strings.TrimRight(line, "\r\n") + "\r\n"
			}
		}
		return slices.Concat(lines[:first], block, lines[last+1:]), nil
	})
}
