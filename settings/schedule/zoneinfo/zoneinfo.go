// Package zoneinfo finds time zones by their IANA names, also on a host that has none.
//
// [Load] asks the host first, as [time.LoadLocation] does, and then the zones that are built in. They are those of
// time/tzdata, which takes 400 KiB of a program: here a zone with several names is stored once, and all of them
// are compressed together, in 54 KiB. They are unpacked once, into 230 KiB, by the first Load that needs them.
//
// go test ./settings/schedule/zoneinfo -update writes them from those of the Go release that runs the test.
package zoneinfo

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// packed is the built-in zones, compressed by gzip. For each zone it has a line with the size of its data in bytes and
// its names, then an empty line, then the data of all zones in the order of the lines.
//
//go:embed zones.gz
var packed []byte

// Load returns the zone with an IANA name ("Europe/London", "UTC").
func Load(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err == nil {
		return zone, nil
	}

	data, known := builtIn()[name]
	if !known {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, []byte(data))
}

// builtIn returns the data of the built-in zones by name. A program whose zones cannot be unpacked is broken:
// it panics.
var builtIn = sync.OnceValue(func() map[string]string {
	zones, err := unpack(packed)
	if err != nil {
		panic(err)
	}
	return zones
})

// unpack returns the data of zones by name.
func unpack(packed []byte) (map[string]string, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("cannot read the built-in zones: %w", err)
	}

	whole, err := io.ReadAll(compressed)
	if err != nil {
		return nil, fmt.Errorf("cannot read the built-in zones: %w", err)
	}

	lines, data, _ := strings.Cut(string(whole), "\n\n")
	zones := map[string]string{}
	for line := range strings.Lines(lines) {
		names := strings.Fields(line)
		size, err := strconv.Atoi(names[0])
		if err != nil || size > len(data) {
			return nil, fmt.Errorf("cannot read the built-in zone %q: it has %d bytes", line, len(data))
		}
		for _, name := range names[1:] {
			zones[name] = data[:size]
		}
		data = data[size:]
	}
	return zones, nil
}
