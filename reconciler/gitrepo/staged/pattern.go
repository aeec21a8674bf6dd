package staged

import (
	"path"
	"strings"
)

// A pattern is the left side of a line of .gitignore or .gitattributes.
type pattern struct {
	dir      string   // of the file that holds it, "" for the top
	segments []string // between slashes; one without anchored matches the last name of a path
	anchored bool     // it matches the whole path below dir
	dirOnly  bool     // it ends with a slash
}

// parsePattern reads a pattern of the file in dir, ok is false if it can match nothing.
func parsePattern(text, dir string) (p pattern, ok bool) {
	p.dir = dir
	if text, p.dirOnly = strings.CutSuffix(text, "/"); text == "" {
		return p, false
	}
	p.anchored = strings.Contains(text, "/")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "/"), "[!", "[^")
	for segment := range strings.SplitSeq(text, "/") {
		if n := len(p.segments); segment == "**" && n > 0 && p.segments[n-1] == "**" {
			continue // equal to one of them
		}
		p.segments = append(p.segments, segment)
	}
	if p.anchored && p.segments[len(p.segments)-1] == "**" {
		p.segments = append(p.segments, "*") // at least one name below
	}
	return p, true
}

// matches reports whether the pattern matches a path from the top. What lies in a directory that it matches is not
// looked at.
func (p pattern) matches(name string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if p.dir != "" {
		below, ok := strings.CutPrefix(name, p.dir+"/")
		if !ok {
			return false
		}
		name = below
	}
	if !p.anchored {
		ok, err := path.Match(p.segments[0], path.Base(name))
		return ok && err == nil
	}
	return matchSegments(p.segments, strings.Split(name, "/"))
}

// matchSegments matches names against patterns of which "**" stands for any number of names. After a mismatch the last "**"
// takes one name more, so the cost is at most the product of both lengths.
func matchSegments(patterns, names []string) bool {
	i, j, star, taken := 0, 0, -1, 0
	for j < len(names) {
		if i < len(patterns) && patterns[i] == "**" {
			star, taken = i, j
			i++
			continue
		}
		if i < len(patterns) {
			if ok, err := path.Match(patterns[i], names[j]); ok && err == nil {
				i, j = i+1, j+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		taken++
		i, j = star+1, taken
	}
	for i < len(patterns) && patterns[i] == "**" {
		i++
	}
	return i == len(patterns)
}

// lines returns the lines of a file of Git that are no comments and not empty.
func lines(data string) (all []string) {
	for line := range strings.SplitSeq(strings.TrimPrefix(data, "\uFEFF"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// An ignoreRule is a line of .gitignore.
type ignoreRule struct {
	pattern
	keep bool // the line begins with "!"
}

func parseIgnore(data, dir string) (rules []ignoreRule) {
	for _, line := range lines(data) {
		line, keep := strings.CutPrefix(trimSpaces(line), "!")
		if p, ok := parsePattern(line, dir); ok {
			rules = append(rules, ignoreRule{p, keep})
		}
	}
	return rules
}

// trimSpaces removes the spaces at the end of a line but one after a backslash.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	if len(trimmed) < len(line) && strings.HasSuffix(trimmed, `\`) {
		trimmed += " "
	}
	return trimmed
}

// ignores reports whether the last of the rules that match a path ignores it.
func ignores(rules []ignoreRule, name string, isDir bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].matches(name, isDir) {
			return !rules[i].keep
		}
	}
	return false
}

// An attributeRule is a line of .gitattributes. The value of an attribute is "set", "unset", "unspecified" or what the line
// gives it.
type attributeRule struct {
	pattern
	values map[string]string
}

// parseAttributes reads a file of attributes. Macros other than binary are not expanded.
func parseAttributes(data, dir string) (rules []attributeRule) {
	for _, line := range lines(data) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") || strings.HasPrefix(words[0], "[attr]") {
			continue
		}
		p, ok := parsePattern(strings.Trim(words[0], `"`), dir)
		if !ok || p.dirOnly {
			continue // attributes are those of files
		}
		r := attributeRule{p, map[string]string{}}
		for _, word := range words[1:] {
			name, value, given := strings.Cut(word, "=")
			switch {
			case given:
			case strings.HasPrefix(word, "-"):
				name, value = word[1:], "unset"
			case strings.HasPrefix(word, "!"):
				name, value = word[1:], "unspecified"
			default:
				value = "set"
			}
			if r.values[name] = value; name == "binary" && value == "set" {
				r.values["text"] = "unset"
			}
		}
		rules = append(rules, r)
	}
	return rules
}

// attribute returns the value that the last rule with the attribute gives to a path, "unspecified" if there is none.
func attribute(rules []attributeRule, name, of string) string {
	for i := len(rules) - 1; i >= 0; i-- {
		if value, ok := rules[i].values[of]; ok && rules[i].matches(name, false) {
			return value
		}
	}
	return "unspecified"
}
