package target

import (
	"errors"
	"fmt"
	"strings"
)

// MaxIDLength is the longest peel ID in bytes.
const MaxIDLength = 128

// PeelID names one peel: 1 to 128 characters of [A-Za-z0-9._-], beginning
// with neither "-" (it would read as a flag) nor "." (it would hide a file).
// It is used as it is in targets, records and output; see Wire for subjects.
type PeelID string

// ParsePeelID checks s; the error quotes it and names the first thing wrong.
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

// Wire is the ID as one token of a subject or key: "." becomes "_". It cannot
// be turned back ("a.b" and "a_b" both give "a_b"), so whoever hears a subject
// takes the full ID from the payload and checks that its Wire is the token.
func (id PeelID) Wire() string { return strings.ReplaceAll(string(id), ".", "_") }
