// Package shell writes words for a POSIX shell. Call [Word] for a command line that people read, and [Quote] where the
// word is always in quotation marks.
package shell

import (
	"regexp"
	"strings"
)

var needsNoQuotes = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// Word returns a text as one word, in quotation marks if it needs them.
func Word(text string) string {
	if needsNoQuotes.MatchString(text) {
		return text
	}
	return Quote(text)
}

// Quote returns a text as one word in quotation marks.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
