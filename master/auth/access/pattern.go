package access

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// fits reports whether the arguments of a call are exactly those of the patterns.
func fits(patterns map[string]string, args map[string]any) bool {
	if len(args) != len(patterns) {
		return false
	}
	for name, pattern := range patterns {
		switch value := args[name].(type) {
		case string:
			if !fitsText(pattern, value) {
				return false
			}
		case bool, int, int64, uint64, float64:
			if !fitsText(pattern, fmt.Sprint(value)) {
				return false
			}
		default: // absent, or a list or a map
			return false
		}
	}
	return true
}

// fitsText reports whether a pattern matches a whole text. A * stands for one or more letters, digits and characters of
// "_./:@+=,-": a shell reads none of them. It does not begin a word with '-', which would be an option. A text that has
// two dots in a row fits only a pattern that has them.
func fitsText(pattern, text string) bool {
	if strings.Contains(text, "..") && !strings.Contains(pattern, "..") {
		return false
	}
	p, t := 0, 0
	star, used := -1, 0 // the last *, and the end of what it has taken
	for t < len(text) || p < len(pattern) {
		switch {
		case p < len(pattern) && pattern[p] == '*' && t < len(text) && isPlain(text[t]) &&
			(text[t] != '-' || t > 0 && isPlain(text[t-1])):
			star, used = p, t+1
			p, t = p+1, t+1
		case p < len(pattern) && t < len(text) && pattern[p] == text[t] && pattern[p] != '*':
			p, t = p+1, t+1
		case star >= 0 && used < len(text) && isPlain(text[used]):
			used++
			p, t = star+1, used
		default:
			return false
		}
	}
	return true
}

// isBelow reports whether a pattern matches a file or one of the folders that it is in.
func isBelow(pattern, file string) bool {
	for at := file; at != "."; at = path.Dir(at) {
		if ok, _ := path.Match(pattern, at); ok {
			return true
		}
	}
	return false
}

// checkPaths returns an error unless a text is a pattern for files.
func checkPaths(pattern string) error {
	_, err := path.Match(pattern, "")
	if err != nil || !fs.ValidPath(pattern) || pattern == "." || strings.Contains(pattern, `\`) {
		return fmt.Errorf("%.100q is no pattern of files; write one such as settings/web/* or top.d/web.yaml, "+
			"from the folder of the fleet", pattern)
	}
	return nil
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("_./:@+=,-", c) >= 0
}
