package movein

import (
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	provenFires = 100
	provenYears = 10 // within which a job that is seldom due is compared
)

// hostZones are the zones of hosts for which an entry without a zone is proven. Their clocks change on different days.
var hostZones = []string{"Europe/London", "America/New_York"}

// prove compares the entry with the job: the next 100 times, or those of 10 years, and the times around the next two
// changes of the clock. It returns how many times are equal.
func prove(entry *schedule.Entry, j crontab.Job, now time.Time) (int, error) {
	hosts := hostZones
	var own *time.Location
	if j.Zone != "" {
		hosts = []string{"UTC"}
		var err error
		if own, err = window.Zone(j.Zone); err != nil {
			return 0, err
		}
	}
	compared := 0
	for i, host := range hosts {
		zone, err := window.Zone(host)
		if err != nil {
			return 0, err
		}
		timing, err := entry.Timing(zone)
		if err != nil {
			return 0, err
		}
		p := proof{timing, crontab.Daemon{Host: zone, Job: own}, j.Times}
		if i == 0 {
			n, err := p.same(now, now.AddDate(provenYears, 0, 0))
			if err != nil {
				return 0, err
			}
			compared += n
		}
		n, err := p.aroundChanges(timing.Zone(), now)
		if err != nil {
			return 0, err
		}
		compared += n
	}
	return compared, nil
}

// parse reads the entry from its text, as a peel does.
func parse(name string, fields *yaml.Node) (*schedule.Entry, error) {
	text, err := encode(name, fields)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.Parse(name, text)
	if err != nil {
		return nil, err
	}
	return schedule.ParseEntry(name, doc.Get(name))
}

// A proof has the two readings of one line.
type proof struct {
	timing schedule.Timing
	daemon crontab.Daemon
	times  crontab.Times
}

// aroundChanges compares the times around the next two changes of the clock of a zone.
func (p proof) aroundChanges(zone *time.Location, now time.Time) (int, error) {
	compared := 0
	at := now
	for range 2 {
		_, change := at.In(zone).ZoneBounds()
		if change.IsZero() {
			break
		}
		for _, before := range []time.Duration{25 * time.Hour, 30 * time.Minute} {
			n, err := p.same(change.Add(-before), change.Add(48*time.Hour))
			if err != nil {
				return 0, err
			}
			compared += n
		}
		at = change
	}
	return compared, nil
}

// same compares the first times after from, and none after until.
func (p proof) same(from, until time.Time) (int, error) {
	cron := p.daemon.Fires(p.times, from, until, provenFires)
	at := from
	for i := range provenFires {
		next, ok := p.timing.Next(at)
		ok = ok && !next.After(until)
		switch {
		case !ok && i == len(cron):
			return i, nil
		case !ok || i == len(cron) || !next.Equal(cron[i]):
			return 0, p.differs(i, cron, next)
		}
		at = next
	}
	return provenFires, nil
}

func (p proof) differs(i int, cron []time.Time, next time.Time) error {
	theirs := "never"
	if i < len(cron) {
		theirs = cron[i].In(p.timing.Zone()).Format(time.RFC3339)
	}
	return fmt.Errorf("cron runs it at %s, and an entry would run at %s", theirs, next.Format(time.RFC3339))
}
