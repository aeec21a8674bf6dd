package target

import (
	"strings"
	"testing"
)

func TestParsePeelID(t *testing.T) {
	for _, s := range []string{"a", "web-01.dc1_x", "_", "0", strings.Repeat("x", 128)} {
		if id, err := ParsePeelID(s); err != nil || string(id) != s {
			t.Errorf("ParsePeelID(%q) = %q, %v", s, id, err)
		}
	}
	for s, want := range map[string]string{
		"":                       "peel ID is empty",
		"-x":                     `peel ID "-x" begins with '-'`,
		".x":                     `peel ID ".x" begins with '.'`,
		"a b":                    `peel ID "a b" has ' ' at 2, allowed are letters, digits, '.', '_' and '-'`,
		"a*":                     `peel ID "a*" has '*' at 2, allowed are letters, digits, '.', '_' and '-'`,
		"aé":                     `peel ID "aé" has 'é' at 2, allowed are letters, digits, '.', '_' and '-'`,
		strings.Repeat("x", 129): `peel ID "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… has 129 characters, more than 128`,
	} {
		if _, err := ParsePeelID(s); err == nil || err.Error() != want {
			t.Errorf("ParsePeelID(%q) gives error %v, want %s", s, err, want)
		}
	}
}

func TestWireFormIsOneToken(t *testing.T) {
	if got := PeelID("web-01.dc1_x").Wire(); got != "web-01_dc1_x" {
		t.Errorf("Wire = %q", got)
	}
}
