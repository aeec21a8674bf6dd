//go:build linux

package file

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// maxMatches bounds the parts that one state replaces.
const maxMatches = 10_000

// errNotStable: the file would not stay as file.replace leaves it.
var errNotStable = errors.New("the pattern matches what it was replaced by, so each run would change the file again; " +
	"write a pattern that does not match the new text")

// Replace plans file.replace. A file that is missing is an error.
func Replace(w *host.World, a *state.FileReplace) ([]host.Step, error) {
	re, err := a.Expression()
	if err != nil {
		return nil, err
	}
	info, err := w.Stat(a.Path)
	if err != nil {
		return nil, err
	}
	if info.Kind == safefs.Absent {
		return nil, w.Lacks("there is no file %s", a.Path)
	}

	return edit(w, wanted{path: a.Path, diff: true}, func(lines []string) ([]string, error) {
		out, err := replace(re, strings.Join(lines, ""), *a.Repl)
		if err != nil {
			return nil, err
		}
		again, err := replace(re, out, *a.Repl)
		if err == nil && again != out {
			err = errNotStable
		}
		return split(out), err
	})
}

// replace returns the text with each match replaced.
func replace(re *regexp.Regexp, text, repl string) (string, error) {
	matches := re.FindAllStringSubmatchIndex(text, maxMatches+1)
	if len(matches) > maxMatches {
		return "", fmt.Errorf("the pattern matches more than %d parts", maxMatches)
	}

	var out []byte
	end := 0
	for _, m := range matches {
		out = append(out, text[end:m[0]]...)
		out = re.ExpandString(out, repl, text, m)
		end = m[1]
		if len(out) > MaxFile {
			return "", fmt.Errorf("the new text has more than %d bytes", MaxFile)
		}
	}
	return string(append(out, text[end:]...)), nil
}
