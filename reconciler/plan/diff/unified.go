package diff

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Limits of the contents that [Unified] compares.
const (
	StateMaxText  = 64 << 10 // bytes of one content
	StateMaxLines = 400      // of the result
)

// Unified returns the lines of a unified diff of two contents, without the names of files. If a content is no text or
// larger than [StateMaxText], it returns one line with both sizes. A file that does not exist has a nil content.
func Unified(before, after []byte) []string {
	switch {
	case !isText(before) || !isText(after):
		return []string{fmt.Sprintf("not text: %s → %s", size(before), size(after))}
	case len(before) > StateMaxText || len(after) > StateMaxText:
		return []string{fmt.Sprintf("too large to compare: %s → %s", size(before), size(after))}
	}
	lines := strings.Split(strings.TrimSuffix(udiff.Unified("a", "b", string(before), string(after)), "\n"), "\n")
	if len(lines) < 3 { // equal contents have no diff
		return nil
	}
	lines = lines[2:] // the names
	if more := len(lines) - StateMaxLines; more > 0 {
		lines = append(lines[:StateMaxLines:StateMaxLines], fmt.Sprintf("… and %d lines more", more))
	}
	return lines
}

func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }

func size(b []byte) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%d bytes", len(b))
}
