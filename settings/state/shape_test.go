package state

import (
	"strings"
	"testing"
)

func TestNamesHaveAGreatestLength(t *testing.T) {
	for name, c := range map[string]struct {
		shape shape
		most  int
	}{
		"file":            {fileName, 64},
		"host":            {hostName, 254},
		"job of cron":     {cronName, 64},
		"package":         {packageName, 128},
		"revision of Git": {gitRev, 200},
		"state":           {validName, 256},
		"unit":            {unitName, 255},
		"user":            {accountName, 32},
		"version":         {packageVersion, 128},
	} {
		if longest := strings.Repeat("a", c.most); !c.shape.MatchString(longest) || c.shape.MatchString(longest+"a") {
			t.Errorf("%s: names of up to %d bytes are not those that are accepted", name, c.most)
		}
	}
	if !accountName.MatchString(strings.Repeat("a", 32) + "$") {
		t.Error("a user of 32 letters and $ is refused")
	}
}
