// Package target names peels and selects them.
//
// A target expression is Salt's language: globs, regular expressions, lists,
// facts, settings, networks and node groups, joined by and, or, not and
// parentheses. The top file, the command line and the API read it with the
// same Parse, so an expression means the same wherever it stands.
//
//	web-*               glob on the ID, with case: * ? [a-z0-9] [!x]
//	E@web\d+            regular expression (RE2) on the ID, anchored at its start
//	L@a,b               IDs
//	G@os:ubuntu         fact, glob; G@mem_mb:>=4096 compares; G@os: is it there
//	P@os:(a|b)          fact, regular expression anchored at the start
//	I@a:b:x  J@a:b:x    the same on settings
//	S@10.0.0.0/8        an address in facts ipv4 or ipv6
//	N@group             node group
//
// not binds tighter than and, and tighter than or; "a not b" is "a and not b".
// A parenthesis that begins a word, or is left over at its end, groups; any
// other belongs to the word. A backslash takes the next character as it is,
// so a value may hold a blank ("G@name:Red\ Hat"); so do quotes around the
// word or around what follows @ or a delimiter ("G@name:'Red Hat'").
//
// Where Salt stays silent about a mistake, Parse returns a *SyntaxError with a
// column: a mistake never reads as "no match".
//
// # Facts
//
// The text after the letter is a path and a value, divided by ":" or by the
// character between letter and @. A part of the path is the key of a map, the
// index of a list element, the key of a map in a list, or * for any of them.
// As soon as the path meets a scalar, all that remains is the value, so values
// may hold the delimiter. When the last part is itself a key, the key's being
// there is enough; a last part on a list is compared with the elements and
// never taken as an index. Values compare by text and without case, keys with
// it. A comparison looks at numbers alone, so an absent or wordy value never
// satisfies it, != included.
//
// An Expr selects one peel after another with Match. Package peelindex answers for a fleet at once.
package target
