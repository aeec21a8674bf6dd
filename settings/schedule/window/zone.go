package window

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a host without zoneinfo still knows every zone
)

// loaded keeps zones by name, as reading one takes the time of a hundred computations. Only names of
// zones that exist come in.
var loaded sync.Map // string → *time.Location

// Zone returns the zone of an IANA name ("Europe/London", "UTC"). Names that mean something else on each
// host (Local, localtime) and the variants with leap seconds are refused.
func Zone(name string) (*time.Location, error) {
	if zone, ok := loaded.Load(name); ok {
		return zone.(*time.Location), nil
	}
	switch {
	case name == "Local", name == "localtime", name == "posixrules",
		strings.HasPrefix(name, "posix/"), strings.HasPrefix(name, "right/"):
		return nil, fmt.Errorf("zone %q is not the same on all hosts; name an IANA zone such as Europe/London", name)
	case !isZoneName(name):
		return nil, fmt.Errorf("%.64q is no IANA zone name; write it like Europe/London", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is unknown; name an IANA zone such as Europe/London", name)
	}
	loaded.Store(name, zone)
	return zone, nil
}

// zonePart is the form of one part of a name in the IANA database.
var zonePart = regexp.MustCompile(`^[A-Za-z0-9_+-]{1,32}$`)

// isZoneName reports whether name has the form of the names in the IANA database.
func isZoneName(name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) <= 3 && !slices.ContainsFunc(parts, func(part string) bool { return !zonePart.MatchString(part) })
}
