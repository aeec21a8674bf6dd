package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// versions checks that no peel is newer than the master, because masters are upgraded first, and says which peels wait
// with a newer program.
func (d *doctor) versions(peels []api.Peel, master string) {
	var newer, waiting []target.PeelID
	upgrade := ""
	for _, p := range peels {
		if isNewer(factText(p.Facts, "zester_version"), master) {
			newer = append(newer, p.ID)
		}
		if p.Online && factText(p.Facts, "zester_upgrade") != "" {
			waiting = append(waiting, p.ID)
			upgrade = cmp.Or(upgrade, versionText(p.Facts))
		}
	}
	if len(newer) > 0 {
		d.found("versions", warning, "upgrade the masters, one after the other: zester guide install",
			"the master that answers is %s, and newer than it are %s", master, some(newer))
	}
	if len(waiting) > 0 {
		d.found("upgrades", warning, "the new program starts when no command runs: zester peel list -o wide",
			"%s: %s", some(waiting), upgrade)
	}
}

// isNewer reports whether version a of a package is newer than version b. What is no version of a package is not.
func isNewer(a, b string) bool {
	x, isVersion := numbers(a)
	y, isOther := numbers(b)
	return isVersion && isOther && slices.Compare(x, y) > 0
}

// numbers returns the three numbers of a version such as 0.2.0 or 0.2.0~git20261124.4536270.
func numbers(version string) (all []int, isVersion bool) {
	end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end >= 0 {
		version = version[:end]
	}
	for text := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, false
		}
		all = append(all, n)
	}
	return all, len(all) == 3
}
