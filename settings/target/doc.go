// Package target defines peel IDs and the expressions that select peels.
//
// [ParsePeelID] checks an ID. [Parse] parses an expression, and [Expr.Match] reports whether it selects a peel; package
// peelindex selects from a whole fleet. The top file, the command line and the API use the same Parse.
//
// An expression is written in Salt's language: globs, regular expressions, lists, facts, settings, networks and node
// groups, joined by and, or, not and parentheses.
//
//	web-*               glob on the ID, with case: * ? [a-z0-9] [!x]
//	E@web\d+            regular expression (RE2) on the ID, anchored at its start
//	L@a,b               IDs
//	G@os:ubuntu         fact, glob; G@mem_mb:>=4096 compares; G@os selects peels with the fact
//	P@os:(a|b)          fact, regular expression anchored at the start
//	I@a:b:x  J@a:b:x    the same on settings
//	S@10.0.0.0/8        an address in facts ipv4 or ipv6
//	N@group             node group
//
// not binds tighter than and, and tighter than or; "a not b" is "a and not b".
// A parenthesis at the beginning of a word, or an unpaired one at its end, groups terms; any
// other parenthesis belongs to the word. A backslash escapes the next character,
// so a value may contain a blank ("G@name:Red\ Hat"). Quotes around the word, or around
// the text after @ or a delimiter, do the same ("G@name:'Red Hat'").
//
// Unlike Salt, Parse returns a *SyntaxError with a column for every mistake; no mistake means "no match".
//
// # Facts
//
// The text after the letter is a path and a value, divided by ":" or by the
// character between letter and @. A part of the path is the key of a map, the
// index of a list element, the key of a map in a list, or * for any of them.
// When the path reaches a scalar, the remaining text is the value, so values
// may contain the delimiter. If the last part is a key, the peel is selected whatever
// the value of the key; on a list, the last part is compared with the elements and
// is never an index. Values are compared as text, ignoring case; keys are case sensitive.
// Comparisons such as > and != are true only for values that are numbers.
package target
