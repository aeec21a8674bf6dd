package coverage

import (
	"encoding/binary"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// maxZones bounds the zones that are remembered. Peels name them, and the world has some 600.
const maxZones = 1000

// zones are the zones that peels have named. Their methods may be called from several goroutines.
type zones struct {
	mu     sync.Mutex
	byName map[string]*time.Location // nil: this host does not know it
}

// location returns a zone that a peel named; nil if this host does not know it.
func (z *zones) location(name string) *time.Location {
	if name == "" || name == "Local" || path.Clean(name) != name {
		return nil // it says nothing, or is another spelling of a zone
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if l, ok := z.byName[name]; ok || strings.HasPrefix(name, offsets) {
		return l
	}
	if len(z.byName) == maxZones {
		clear(z.byName)
	}
	l, err := zoneinfo.Load(name)
	if err != nil {
		l = nil
	}
	z.byName[name] = l
	return l
}

// offsets begins the name of a zone that has no name of its own.
const offsets = "offset "

// nameOf returns the name of the zone of a host, by which [zones.location] finds it: its own, or its offset from UTC
// with the changes of it that the host has told.
func (z *zones) nameOf(zone *ledger.Zone) string {
	if zone.Name != "" {
		return zone.Name
	}
	var name strings.Builder
	fmt.Fprint(&name, offsets, zone.Offset)
	for _, c := range zone.Changes {
		fmt.Fprintf(&name, ", %d from %s", c.After, c.At.UTC().Format(time.RFC3339))
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if _, known := z.byName[name.String()]; !known {
		if len(z.byName) == maxZones {
			clear(z.byName)
		}
		z.byName[name.String()] = unnamed(zone)
	}
	return name.String()
}

// unnamed returns the zone that has an offset and its changes; nil if they are not in order, or too large.
func unnamed(zone *ledger.Zone) *time.Location {
	const day = 24 * 3600
	first := zone.Offset
	if len(zone.Changes) > 0 {
		first = zone.Changes[0].Before
	}
	types := appendType(nil, first)
	var times, indices []byte
	for i, c := range zone.Changes {
		isSorted := i == 0 || c.At.After(zone.Changes[i-1].At)
		if !isSorted || c.After <= -day || c.After >= day || first <= -day || first >= day {
			return nil
		}
		times = binary.BigEndian.AppendUint64(times, uint64(c.At.Unix()))
		indices = append(indices, byte(i+1))
		types = appendType(types, c.After)
	}

	// RFC 9636: a block of version 1, which nobody reads, and one of version 2 with the same layout and times of 64
	// bits.
	data := appendHeader(nil, 0, 1)
	data = append(appendType(data, 0), 0)
	data = appendHeader(data, len(zone.Changes), len(zone.Changes)+1)
	data = append(append(append(data, times...), indices...), types...)
	location, err := time.LoadLocationFromTZData("", append(data, 0, '\n', '\n'))
	if err != nil {
		return nil
	}
	return location
}

// appendHeader appends the header of a block with numbers of changes and types, and one byte of names.
func appendHeader(data []byte, changes, types int) []byte {
	data = append(append(data, "TZif2"...), make([]byte, 15)...)
	for _, n := range []int{0, 0, 0, changes, types, 1} {
		data = binary.BigEndian.AppendUint32(data, uint32(n))
	}
	return data
}

// appendType appends an offset from UTC, which is not daylight saving and has no name.
func appendType(data []byte, offset int) []byte {
	return append(binary.BigEndian.AppendUint32(data, uint32(int32(offset))), 0, 0)
}
