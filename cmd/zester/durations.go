package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A durationFlag is a flag that takes days and weeks too: 90s, 1h30m, 30d.
type durationFlag time.Duration

// durationVar adds a flag that fills in d, which begins as initial.
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
