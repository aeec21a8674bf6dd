package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Flags that several commands have, with one text each.

// factsFlag adds --facts; byDefault is the end of its help.
func factsFlag(flags *pflag.FlagSet, file *string, byDefault string) {
	flags.StringVar(file, "facts", "", "`FILE` with the peels and their facts"+byDefault)
}

// zoneFlag adds --zone.
func zoneFlag(flags *pflag.FlagSet, zone *string) {
	flags.StringVar(zone, "zone", "", "IANA `ZONE` of entries that name none (default: the zone of this host)")
}

// fromFlag adds --from; what says which time it is.
func fromFlag(flags *pflag.FlagSet, from *string, what string) {
	flags.StringVar(from, "from", "", "`INSTANT` "+what+", such as 2026-06-01T09:00:00+01:00 (default: now)")
}

// fromInstant parses the value of --from.
func fromInstant(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	return instant("from", text)
}

// instant parses the value of a flag as a time in RFC 3339.
func instant(flag, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usageError(
			"cannot use --%s %q: write date, time and offset from UTC like 2026-06-01T09:00:00+01:00", flag, text,
		)
	}
	return at, nil
}

// A durationFlag is the value of a flag that also takes days and weeks: 90s, 1h30m, 30d.
type durationFlag time.Duration

// durationVar adds a flag that sets d, which is initial by default.
func durationVar(flags *pflag.FlagSet, d *time.Duration, name string, initial time.Duration, usage string) {
	*d = initial
	flags.Var((*durationFlag)(d), name, usage)
}

func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return duration(time.Duration(*d))
}

func (d *durationFlag) Type() string { return "duration" }

func (d *durationFlag) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		value, err = strictyaml.ParseDuration(text)
	}
	*d = durationFlag(value)
	return err
}
