package crontab

import "strings"

// variable reads NAME=VALUE, where blanks may stand around = and each side may be quoted. A line with the times of a
// job is none, because it has a second word before any =.
func variable(text string) (name, value string, ok bool) {
	name, rest, ok := variableName(text)
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(trimSpace(rest), "=")
	if !ok {
		return "", "", false
	}
	rest = trimSpace(rest)
	if rest == "" || rest[0] != '\'' && rest[0] != '"' {
		return name, strings.TrimRight(rest, " \t\r\f\v"), true
	}
	quoted, after, closed := strings.Cut(rest[1:], rest[:1])
	if !closed || trimSpace(after) != "" {
		return "", "", false
	}
	return name, quoted, true
}

func variableName(text string) (name, rest string, ok bool) {
	if text[0] != '\'' && text[0] != '"' {
		i := strings.IndexAny(text, "= \t\r\f\v")
		if i <= 0 {
			return "", "", false
		}
		return text[:i], text[i:], true
	}
	name, rest, ok = strings.Cut(text[1:], text[:1])
	return name, rest, ok && name != "" && !strings.Contains(name, "=")
}

func trimSpace(text string) string { return strings.TrimLeft(text, " \t\r\f\v") }
