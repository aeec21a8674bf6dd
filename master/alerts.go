package master

import (
	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/alert"
	"github.com/seed-c01c3da5/zester/master/alert/ping"
	"github.com/seed-c01c3da5/zester/master/alert/receiver"
	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/feed"
)

// Alerts are the options of alerts. Give all masters the same.
type Alerts struct {
	Receivers []*receiver.Receiver // with different names
	Pings     []*ping.Service      // services that watch runs; their names differ from those of Receivers
	Alive     *receiver.Call       // dead man's switch, called each minute while all is well; nil: there is none
}

// alerts returns the engine that sends alerts while this master leads them.
func (m *Master) alerts(nc *nats.Conn, fleet *feed.Feed, table *coverage.Table, stored *storage, j judge, log *auditlog.Log) *alert.Engine {
	return alert.New(alert.Options{
		Conn: nc, Fleet: fleet, Owner: m.o.ID, Receivers: m.o.Alerts.Receivers, Pings: m.o.Alerts.Pings, Alive: m.o.Alerts.Alive,
		Problems: table.Problems, Health: table.Health, Runs: table.Runs, Cause: table.Cause, Stored: stored.Err, Within: j.within, Audit: log, Log: m.log,
	})
}
