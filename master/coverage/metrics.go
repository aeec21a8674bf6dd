// File metrics.go shows what happened to the fires of all schedules as metrics for Prometheus. Call [NewCollector] and
// register what it returns.
//
// Guarantees: metrics of entries are absent while the reports behind them are not all known, and zester_coverage_ready
// is 0 then. So a rule never judges by an old table. The number of time series is bounded whatever peels report:
// [MaxMetricEntries] entries have metrics, those that most peels have come first, and zester_coverage_left_out counts
// the others; words of peels that are no state or reason count as "other".
//
// Every master follows all peels, so each has the same values: queries over several masters use max and not sum.
// Counters begin when the master starts.

package coverage

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of the time series. An entry takes about 40.
const (
	MaxMetricEntries = 10_000  // entries that have metrics
	MaxMetricPairs   = 100_000 // pairs of an entry and a peel that have metrics, with a label for each peel
	maxMetricReasons = 32      // different values of the label reason, beside other
)

// other is the label of states and reasons that are not known.
const other = "other"

// metricStates are the known states of entries.
var metricStates = []string{"active", "disabled", "paused_manual", "paused_errors", "paused_invalid", "exhausted"}

// kinds are the problems of entries. Those of peels as a whole are in zester_coverage_peels.
var kinds = []verdict.Kind{
	verdict.Missed, verdict.Failed, verdict.Late, verdict.Overran, verdict.Paused, verdict.Disagrees,
}

var (
	ready = describe("coverage_ready",
		"1 while all reports of peels on their schedules are known. At 0 the metrics of entries are absent.")
	peels = describe("coverage_peels",
		"Peels with a schedule by whether their newest report is on time: reporting or not_reporting.", "state")
	refused = describe("coverage_reports_refused_total",
		"Reports on schedules that were not taken, or not in whole: unreadable, beyond the limits, "+
			"in the name of another peel, or with entries that the settings of the peel do not have.")
	disagrees = describe("coverage_disagreeing_peels",
		"Peels whose clock, zone or settings are not what masters expect; their fires are not judged.")
	leftOut = describe("coverage_left_out",
		"Entries without metrics, as there are more than 10,000 or the name is no UTF-8; "+
			"with metrics_per_peel also pairs of an entry and a peel beyond 100,000.")
	expected = describe("entry_expected_total", "Fires of an entry that were due, on all peels.", "entry")
	runs     = describe("entry_runs_total", "Runs of an entry by result: ok or failed.", "entry", "result")
	late     = describe("entry_late_total", "Runs of an entry that started more than late_after late.", "entry")
	missed   = describe("entry_missed_total", "Fires of an entry that did not start in time.", "entry")
	skipped  = describe("entry_skipped_total",
		"Fires of an entry that a rule or an operator kept from running, by reason.", "entry", "reason")
	metricTook = describe("entry_duration_seconds", "How long the runs of an entry took.", "entry")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("zester_"+name, help, labels, nil)
}

// A MetricsSource has the methods of [coverage.Table] whose results are metrics. They are called at each collection and
// must return at once.
type MetricsSource struct {
	Health    func() verdict.Health
	Summaries func() []verdict.Summary
	Problems  func() []verdict.Problem
	// Cells gives the gauges of entries a label for each peel; nil: they are summed over peels.
	Cells func(Query) ([]Cell, error)
}

// A Collector reads a table at each collection.
type Collector struct {
	s MetricsSource
	gauges
}

// gauges are the metrics that can have a label for each peel.
type gauges struct{ inState, problems, succeeded, next *prometheus.Desc }

// NewCollector returns a collector.
func NewCollector(s MetricsSource) *Collector {
	entry := []string{"entry"}
	if s.Cells != nil {
		entry = append(entry, "peel")
	}
	with := func(label string) []string { return append(slices.Clone(entry), label) }
	return &Collector{s, gauges{
		inState: describe("entry_peels", "Peels that have an entry, by the state of the entry.", with("state")...),
		problems: describe("entry_problems",
			"Peels on which something is wrong with an entry now, by problem: missed, failed, late, overran, "+
				"paused or disagrees.",
			with("problem")...),
		succeeded: describe("entry_last_success_timestamp_seconds",
			"End of the last successful run of an entry on the peel where it is the oldest, in seconds since 1970; "+
				"0: a peel has never had one.",
			entry...),
		next: describe("entry_next_fire_timestamp_seconds",
			"When an entry is due next on any peel, in seconds since 1970.", entry...),
	}}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		ready, peels, refused, disagrees, leftOut, expected, runs, late, missed, skipped, c.inState, c.problems,
		c.succeeded, c.next, metricTook,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	h := c.s.Health()
	known := h.Ready && h.Behind.IsZero()
	gauge(ch, ready, boolean(known))
	count(ch, refused, h.Refused)
	if !known {
		return
	}
	gauge(ch, peels, float64(h.Reporting), "reporting")
	gauge(ch, peels, float64(h.Peels-h.Reporting), "not_reporting")
	all, more := bounded(c.s.Summaries())
	reasons := commonReasons(all)
	for i := range all {
		collect(ch, &all[i], reasons)
	}
	wrong := c.s.Problems()
	disagreeing := 0
	for i := range wrong {
		if wrong[i].Kind == verdict.Disagrees && wrong[i].Entry == "" {
			disagreeing++
		}
	}
	gauge(ch, disagrees, float64(disagreeing))
	if c.s.Cells == nil {
		for i := range all {
			c.ofEntry(ch, &all[i])
		}
	} else {
		more += c.ofPeels(ch, wrong)
	}
	gauge(ch, leftOut, float64(more))
}

// bounded returns the summaries that get metrics, and how many others there are. Entries that most peels have come
// first: one peel with names of its own does not push out what the fleet has in common.
// A label cannot have a name that is no UTF-8.
func bounded(all []verdict.Summary) (kept []verdict.Summary, more int) {
	kept = make([]verdict.Summary, 0, len(all))
	for i := range all {
		if utf8.ValidString(all[i].Entry) {
			kept = append(kept, all[i])
		}
	}
	if len(kept) > MaxMetricEntries {
		sorting.Stable(kept, func(a, b verdict.Summary) int {
			return cmp.Or(cmp.Compare(sum(b.States), sum(a.States)), strings.Compare(a.Entry, b.Entry))
		})
		kept = kept[:MaxMetricEntries]
	}
	return kept, len(all) - len(kept)
}

func sum(n map[string]int) (all int) {
	for _, n := range n {
		all += n
	}
	return all
}

// validReason matches what peels of this version and later ones may give as the reason of a skip.
var validReason = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// commonReasons are the reasons that get a label of their own: those that most entries have.
func commonReasons(all []verdict.Summary) map[string]bool {
	entries := map[string]int{}
	for i := range all {
		for reason := range all[i].Skips {
			if validReason.MatchString(reason) && reason != other {
				entries[reason]++
			}
		}
	}
	names := sorting.Values(maps.Keys(entries), func(a, b string) int {
		return cmp.Or(cmp.Compare(entries[b], entries[a]), strings.Compare(a, b))
	})
	common := map[string]bool{}
	for _, reason := range names[:min(len(names), maxMetricReasons)] {
		common[reason] = true
	}
	return common
}

// collect sends the counters and durations of one entry.
func collect(ch chan<- prometheus.Metric, s *verdict.Summary, reasons map[string]bool) {
	entry, n := s.Entry, s.Counts
	count(ch, expected, n.Expected, entry)
	count(ch, runs, n.Ran-min(n.Failed, n.Ran), entry, "ok")
	count(ch, runs, n.Failed, entry, "failed")
	count(ch, late, n.Late, entry)
	count(ch, missed, n.Missed, entry)
	skips := map[string]uint64{}
	for reason, n := range s.Skips {
		if !reasons[reason] {
			reason = other
		}
		skips[reason] += n
	}
	for reason, n := range skips {
		count(ch, skipped, n, entry, reason)
	}
	upto := make(map[float64]uint64, len(verdict.DurationBounds))
	for i, bound := range verdict.DurationBounds {
		if i < len(s.Durations) {
			upto[bound.Seconds()] = s.Durations[i]
		}
	}
	ch <- prometheus.MustNewConstHistogram(metricTook, s.Runs, s.Sum.Seconds(), upto, entry)
}

// ofEntry sends the gauges of an entry, summed over peels.
func (g *gauges) ofEntry(ch chan<- prometheus.Metric, s *verdict.Summary) {
	byState := map[string]int{}
	for state, n := range s.States {
		byState[known(state)] += n
	}
	for state, n := range byState {
		gauge(ch, g.inState, float64(n), s.Entry, state)
	}
	for _, kind := range kinds {
		gauge(ch, g.problems, float64(s.Problems[kind]), s.Entry, string(kind))
	}
	gauge(ch, g.succeeded, metricSeconds(s.LastSuccess), s.Entry)
	if !s.NextFire.IsZero() {
		gauge(ch, g.next, metricSeconds(s.NextFire), s.Entry)
	}
}

// A pair is an entry on a peel.
type pair struct {
	entry string
	peel  target.PeelID
}

// ofPeels sends the gauges of entries with a label for each peel. It returns how many pairs it left out.
func (c *Collector) ofPeels(ch chan<- prometheus.Metric, wrong []verdict.Problem) (more int) {
	cells, err := c.s.Cells(Query{Since: time.Now()})
	if err != nil {
		return 0 // the table is behind since a moment ago
	}
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return c.Local })
	more = len(cells)
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return !utf8.ValidString(c.Entry) })
	cells = cells[:min(len(cells), MaxMetricPairs)]
	more -= len(cells)
	has := make(map[pair][]verdict.Kind)
	for i := range wrong {
		at := pair{wrong[i].Entry, wrong[i].Peel}
		has[at] = append(has[at], wrong[i].Kind)
	}
	for i := range cells {
		cell := &cells[i]
		entry, peel := cell.Entry, string(cell.Peel)
		if cell.State == "" {
			continue // the peel has not reported the entry
		}
		gauge(ch, c.inState, 1, entry, peel, known(cell.State))
		is := has[pair{entry, cell.Peel}]
		for _, kind := range kinds {
			if slices.Contains(is, kind) {
				gauge(ch, c.problems, 1, entry, peel, string(kind))
			}
		}
		gauge(ch, c.succeeded, metricSeconds(cell.Succeeded), entry, peel)
		if !cell.Next.IsZero() {
			gauge(ch, c.next, metricSeconds(cell.Next), entry, peel)
		}
	}
	return more
}

// known returns a state of entries, other for any other word.
func known(state string) string {
	if slices.Contains(metricStates, state) {
		return state
	}
	return other
}

// metricSeconds returns a time in seconds since 1970, 0 for the zero time.
func metricSeconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}

func count(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
