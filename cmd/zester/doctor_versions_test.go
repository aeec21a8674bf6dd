package main

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestVersionsOfPackagesAreCompared(t *testing.T) {
	for pair, want := range map[string]bool{
		"0.2.0 0.1.0": true, "0.10.0 0.9.3": true, "1.0.0 0.99.99": true, "0.2.1 0.2.0~git20261124.4536270": true,
		"0.2.0 0.2.0": false, "0.1.9 0.2.0": false, "0.3.0~git20261124.4536270 0.2.0": true,
		"(devel) 0.2.0": false, "0.2.0 (devel)": false, "0.2 0.1.0": false, "9.9.9 ": false,
	} {
		if a, b, _ := strings.Cut(pair, " "); isNewer(a, b) != want {
			t.Errorf("%s: %v", pair, !want)
		}
	}
}

// Masters are upgraded first; a peel that is newer than them, or that waits to be upgraded, is not sound.
func TestDoctorSaysWhichPeelsAreNewerOrWait(t *testing.T) {
	peel := func(id target.PeelID, version, upgrade string) api.Peel {
		facts := target.Facts{"zester_version": version}
		if upgrade != "" {
			facts["zester_upgrade"] = upgrade
		}
		return api.Peel{ID: id, Online: true, Facts: facts}
	}
	d := doctor{}
	d.versions([]api.Peel{
		peel("db-01", "0.2.0", ""), peel("web-01", "0.1.0", "0.2.0 waits for 2 commands"), peel("web-02", "0.3.0", ""), {ID: "web-03"},
	}, "0.2.0")
	var got []string
	for _, f := range d.Findings {
		got = append(got, string(f.State)+" "+f.Check+": "+f.Detail)
	}
	want := "warning versions: the master that answers is 0.2.0, and newer than it are web-02\n" +
		"warning upgrades: web-01: 0.1.0 → 0.2.0 waits for 2 commands"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
