package master

import (
	"slices"

	"github.com/seed-c01c3da5/zester/master/alert"
	"github.com/seed-c01c3da5/zester/master/notify"
)

// Alerts are the options of alerts. Give all masters the same.
type Alerts struct {
	Receivers []*notify.Receiver    // with different names
	Pings     []*notify.PingService // services that watch runs; no name is also in Receivers
	Alive     *notify.ReceiverCall  // dead man's switch, called each minute while all is well; nil: there is none
}

// isPinged reports whether a service watches the runs of an entry.
func (a *Alerts) isPinged(entry string) bool {
	return slices.ContainsFunc(a.Pings, func(s *notify.PingService) bool { return s.Has(entry) })
}

// alerts returns the engine that sends alerts while this master leads them.
func (s *services) alerts() *alert.Engine {
	m := s.m
	return alert.New(alert.Options{
		Conn:      s.nc,
		Fleet:     s.fleet,
		Owner:     m.o.ID,
		Receivers: m.o.Alerts.Receivers,
		Pings:     m.o.Alerts.Pings,
		Alive:     m.o.Alerts.Alive,
		Problems:  s.table.Problems,
		Health:    s.table.Feed,
		Runs:      s.table.Runs,
		Cause:     s.table.Cause,
		Stored:    s.stored.Err,
		Within:    s.judge.reach().Of,
		Audit:     s.audit,
		Log:       m.log,
		Metrics:   m.o.Metrics,
	})
}
