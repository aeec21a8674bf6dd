package state

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// freeTexts are arguments and fields for programs that may have braces of their own, such as docker ps --format.
var freeTexts = []string{
	"content", "vars", "command", "argv", "env", "stdin", "check", "line", "match", "after", "before", "pattern",
	"repl", "marker", "begin", "end", "comment", "onlyif", "unless", "changed_if",
}

// ourTag matches a tag that only a template of zester or of Salt gives a meaning.
var ourTag = newShape(`\{\{-? *[#^/]?(?:(?:settings|facts|peel|vars|pillar|grains)\b[.\[]|salt\[|@)`, anyLength)

const noTemplate = "an argument is no template, and the braces would be used as they are; " +
	"each makes states from a list of the settings, and a template has values of the settings in a file"

// braces returns what is wrong with the braces of a template in an argument or field, or an empty text. args are all
// arguments of the function.
func braces(arg strictyaml.Pair, args *strictyaml.Node) string {
	isTemplate := false
	if t := args.Get("template"); t != nil {
		isTemplate, _ = t.Value.(bool)
	}
	isFree := slices.Contains(freeTexts, arg.Key)
	switch {
	case isTemplate && arg.Key == "content", arg.Key == "vars":
		return ""
	case isFree && !holdsText(arg.Value, ourTag.MatchString):
		return ""
	case !isFree && !holdsText(arg.Value, func(text string) bool { return strings.Contains(text, "{{") }):
		return ""
	case arg.Key == "content":
		return "the content has the braces of a template and would be written as it is; add template: true"
	}
	return noTemplate
}
