// Package survey reads what a host already has, for `zester import host`. [ReadCron] reads its tables of cron.
//
// It changes nothing, follows no link to a file, and reads what cron runs. For a file that cron skips, or that could
// not be read, the result says why. All that it reads is bounded, so the result fits into a message of the bus.
//
// Known gaps: cronie and the cron of Debian skip different names in /etc/cron.d. A host with
// /var/spool/cron/crontabs is taken for one with the cron of Debian. Tables that are symbolic links are not read.
package survey

import "github.com/seed-c01c3da5/zester/settings"

// A Cron is what a host has of cron. It is the data of cron.tables.
type Cron struct {
	Tables  []Table `json:"tables"`
	Skipped []Skip  `json:"skipped"`
	// Timers are the units that systemd starts at boot by /etc/systemd/system/timers.target.wants.
	Timers []string `json:"timers"`
	// Sealed has Tables with their texts, for the key in the request.
	Sealed *settings.Sealed `json:"secrets,omitempty"`
}

// A Table is a file that cron reads.
type Table struct {
	File  string `json:"file"`
	User  string `json:"user,omitempty"` // whose table it is; empty if its lines name their user
	Bytes int    `json:"bytes"`
	Text  string `json:"text,omitempty"`
}

// A Skip is a file that is no part of the tables.
type Skip struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Plain returns the tables without their texts, which may have secrets.
func (c Cron) Plain() Cron {
	tables := make([]Table, len(c.Tables))
	for i, t := range c.Tables {
		t.Text = ""
		tables[i] = t
	}
	c.Tables = tables
	return c
}
