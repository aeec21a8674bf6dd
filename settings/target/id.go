package target

import (
	"errors"
	"fmt"
	"strings"
)

// MaxIDLength is the longest peel ID in bytes.
const MaxIDLength = 128

// PeelID is the name of one peel: 1 to 128 characters of [A-Za-z0-9._-]. It does not begin with "-" (it would look like
// a flag) or "." (it would hide a file). Targets, records and output contain the ID itself, subjects its [PeelID.Wire].
type PeelID string

// ParsePeelID checks s; the error quotes it and names the first mistake.
func ParsePeelID(s string) (PeelID, error) {
	switch {
	case s == "":
		return "", errors.New("peel ID is empty")
	case len(s) > MaxIDLength:
		return "", fmt.Errorf("peel ID %.32q… has %d characters, more than %d", s, len(s), MaxIDLength)
	case s[0] == '-' || s[0] == '.':
		return "", fmt.Errorf("peel ID %q begins with %q", s, s[0])
	}
	for i, r := range s {
		if !isIDRune(r) {
			return "", fmt.Errorf("peel ID %q has %q at %d, allowed are letters, digits, '.', '_' and '-'", s, r, i+1)
		}
	}
	return PeelID(s), nil
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// Wire returns the ID as one token of a subject or key: "." becomes "_". Two IDs may have the same token ("a.b" and
// "a_b"), so the receiver of a message takes the ID from the payload and checks that its Wire is the token of the
// subject.
func (id PeelID) Wire() string { return strings.ReplaceAll(string(id), ".", "_") }
