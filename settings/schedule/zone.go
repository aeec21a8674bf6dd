package schedule

import (
	"fmt"
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

// isZoneName tells whether name has the form of the IANA database's names.
func isZoneName(name string) bool {
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if part == "" || len(part) > 32 || !only(part, "_+-") {
			return false
		}
	}
	return len(parts) <= 3
}
