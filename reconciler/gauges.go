package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

var (
	leader      = describe("sync_leader", "1 on the master that leads the reconciler, 0 on the others.")
	lastSuccess = describe("sync_last_success_timestamp_seconds",
		"When the branch was last read, in seconds since 1970.")
	inForce = describe("sync_in_force_timestamp_seconds",
		"When the revision in force was put in force, in seconds since 1970.")
	revision = describe("sync_revision_info",
		"1 for each revision: observed on the branch, attempted last, in_force, and pinned.", "role", "commit")
	upToDate        = describe("sync_up_to_date", "1 while the newest commit that was read on the branch is in force.")
	generation      = describe("sync_generation", "Generation of the newest document.")
	conditionMetric = describe("sync_condition",
		"1 for each condition of zester sync status that is true, 0 for the others.", "type")
	wave = describe("sync_rollout_wave",
		"The wave that is under way, from 1; 0 while no revision goes out in waves.")
	peels = describe(
		"peels",
		"Peels by how far they are with what they are to run: applied, pending, failed, offline. "+
			"They add up to the fleet.",
		"state",
	)
	statePeels = describe("state_peels",
		"Peels with states by what their newest run of all of them found: clean, drifted, pending, failed, unknown, "+
			"never (no run), other_settings (run with other settings than wanted).",
		"state")
)

// gauges are the descriptions of all gauges.
var gauges = []*prometheus.Desc{
	leader, lastSuccess, inForce, revision, upToDate, generation, conditionMetric, wave, peels, statePeels,
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("zester_"+name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.attempts.Describe(ch)
	m.failures.Describe(ch)
	m.took.Describe(ch)
	for _, d := range gauges {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.attempts.Collect(ch)
	m.failures.Collect(ch)
	m.took.Collect(ch)
	m.mu.Lock()
	view := m.view
	m.mu.Unlock()
	if view == nil {
		ch <- gauge(leader, 0)
		return
	}
	ch <- gauge(leader, 1)
	v := view()
	for _, g := range gaugesOf(&v.Sync) {
		ch <- g
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// gaugesOf returns the gauges of a status. An unknown time has no gauge.
func gaugesOf(s *status.Sync) (all []prometheus.Metric) {
	add := func(d *prometheus.Desc, value float64, labels ...string) {
		all = append(all, gauge(d, value, labels...))
	}
	for _, t := range []struct {
		desc *prometheus.Desc
		at   time.Time
	}{{lastSuccess, s.Read}, {inForce, s.LastGood.Since}} {
		if !t.at.IsZero() {
			add(t.desc, float64(t.at.UnixMilli())/1000)
		}
	}
	var pinned settings.Commit
	if s.Pinned != nil {
		pinned = s.Pinned.Commit
	}
	for _, r := range []struct {
		role   string
		commit settings.Commit
	}{{"observed", s.Observed}, {"attempted", s.LastAttempted}, {"in_force", s.LastGood.Commit}, {"pinned", pinned}} {
		if r.commit != "" {
			add(revision, 1, r.role, string(r.commit))
		}
	}
	add(upToDate, boolean(s.Observed != "" && s.Observed == s.LastGood.Commit))
	add(generation, float64(s.Generation))
	for _, t := range status.Types {
		add(conditionMetric, boolean(s.Is(t)), string(t))
	}
	number := 0
	if s.Rollout != nil {
		number = s.Rollout.Wave
	}
	add(wave, float64(number))
	for _, p := range []struct {
		state status.State
		n     int
	}{
		{status.Applied, s.Counts.Applied},
		{status.Pending, s.Counts.Pending},
		{status.Failed, s.Counts.Failed},
		{status.Offline, s.Counts.Offline},
	} {
		add(peels, float64(p.n), string(p.state))
	}
	for _, state := range status.HostStates {
		if n, known := s.HostCounts[state]; known {
			add(statePeels, float64(n), string(state))
		}
	}
	return all
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
