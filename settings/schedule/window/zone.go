package window

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// loaded caches zones by name, because loading one is slow. It holds only zones that exist, so it is bounded.
var loaded sync.Map // string → *time.Location

// Zone returns the zone of an IANA name ("Europe/London", "UTC"). It refuses names that differ from host to host
// (Local, localtime) and the variants with leap seconds.
func Zone(name string) (*time.Location, error) {
	if zone, ok := loaded.Load(name); ok {
		return zone.(*time.Location), nil
	}
	switch {
	case name == "Local", name == "localtime", name == "posixrules",
		strings.HasPrefix(name, "posix/"), strings.HasPrefix(name, "right/"):
		return nil, fmt.Errorf("zone %q is not the same on all hosts; name an IANA zone such as Europe/London", name)
	case !isZoneName(name):
		return nil, fmt.Errorf("%.64q is not an IANA zone name; write it like Europe/London", name)
	}
	zone, err := zoneinfo.Load(name)
	if err != nil {
		return nil, fmt.Errorf(
			"zone %q is unknown; name an IANA zone such as Europe/London (timedatectl list-timezones prints them)",
			name,
		)
	}
	loaded.Store(name, zone)
	return zone, nil
}

// zonePart matches one part of a zone name between slashes.
var zonePart = regexp.MustCompile(`^[A-Za-z0-9_+-]{1,32}$`)

// isZoneName reports whether name has the syntax of an IANA zone name.
func isZoneName(name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) <= 3 && !slices.ContainsFunc(parts, func(part string) bool { return !zonePart.MatchString(part) })
}
