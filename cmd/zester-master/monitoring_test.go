package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const monitoring = "../../examples/monitoring"

// The files of examples/monitoring. Keys that are not here are refused, as Prometheus refuses unknown ones.
type (
	ruleFile struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	testFile struct {
		RuleFiles []string `yaml:"rule_files"`
		Every     string   `yaml:"evaluation_interval"`
		Tests     []struct {
			Name     string `yaml:"name"`
			Interval string `yaml:"interval"`
			Input    []struct {
				Series string `yaml:"series"`
				Values string `yaml:"values"`
			} `yaml:"input_series"`
			Alerts []struct {
				At    string `yaml:"eval_time"`
				Alert string `yaml:"alertname"`
				Want  []struct {
					Labels      map[string]string `yaml:"exp_labels"`
					Annotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
			Exprs []struct {
				Expr string `yaml:"expr"`
				At   string `yaml:"eval_time"`
				Want []struct {
					Labels string  `yaml:"labels"`
					Value  float64 `yaml:"value"`
				} `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	scrapeFile struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			Job           string `yaml:"job_name"`
			Scheme        string `yaml:"scheme"`
			Every         string `yaml:"scrape_interval"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			} `yaml:"authorization"`
			TLS struct {
				CA string `yaml:"ca_file"`
			} `yaml:"tls_config"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	dashboard struct {
		Panels []struct {
			ID          int
			Type        string
			Title       string
			Description string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
)

// readYAML decodes a file of examples/monitoring.
func readYAML(t *testing.T, name string, v any) {
	t.Helper()
	path := filepath.Join(monitoring, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	node, err := strictyaml.Parse(path, text)
	if err == nil {
		err = strictyaml.Decode(node, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A registry has the values of each label of each metric that a master shows.
type registry map[string]map[string]map[string]bool

// series matches a line of /metrics, and a series of a rule test.
var series = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?(?: \S+)?$`)

// label matches a label and its value.
var label = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)"([^"]*)"`)

func newRegistry(t *testing.T, text string) registry {
	t.Helper()
	r := registry{"up": {}}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		m := series.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("cannot read %s", line)
		}
		if r[m[1]] == nil {
			r[m[1]] = map[string]map[string]bool{}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if r[m[1]][l[1]] == nil {
				r[m[1]][l[1]] = map[string]bool{}
			}
			r[m[1]][l[1]][l[3]] = true
		}
	}
	return r
}

// promFunctions are the functions and words of PromQL that the files use.
var promFunctions = []string{"sum", "max", "min", "time", "absent", "increase", "rate", "histogram_quantile", "vector", "by", "without", "on"}

var (
	promString   = regexp.MustCompile(`"[^"]*"`)
	promDuration = regexp.MustCompile(`\[[0-9]+[smhd]\]`)
	promGroup    = regexp.MustCompile(`\b(by|without|on)\s*\(([^)]*)\)`)
	promName     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}`)
	template     = regexp.MustCompile(`\$labels\.([a-z_]+)|\{\{([a-z_]+)\}\}`)
)

// mistakes returns what the registry does not have of the metrics, labels and values in an expression. texts may name labels of the
// result.
func (r registry) mistakes(expr string, texts ...string) (found []string) {
	known := map[string]bool{"instance": true, "job": true} // which Prometheus adds
	for _, m := range promSelector.FindAllStringSubmatch(expr, -1) {
		found = append(found, r.wrongLabels(m[1], m[2])...)
	}
	bare := promSelector.ReplaceAllString(promDuration.ReplaceAllString(expr, ""), "$1")
	groups := promGroup.FindAllStringSubmatch(bare, -1)
	bare = promString.ReplaceAllString(promGroup.ReplaceAllString(bare, ""), "")
	for _, name := range promName.FindAllString(bare, -1) {
		if slices.Contains(promFunctions, name) {
			continue
		}
		if r[name] == nil {
			found = append(found, "a master has no metric "+name)
		}
		for l := range r[name] {
			known[l] = true
		}
	}
	result, grouped := map[string]bool{}, false
	for _, g := range groups {
		for name := range strings.SplitSeq(g[2], ",") {
			name = strings.TrimSpace(name)
			if name != "" && !known[name] {
				found = append(found, "no metric of the expression has the label "+name)
			}
			grouped, result[name] = grouped || g[1] == "by", result[name] || g[1] == "by"
		}
	}
	if !grouped {
		result = known
	}
	for _, text := range texts {
		for _, m := range template.FindAllStringSubmatch(text, -1) {
			if name := m[1] + m[2]; !result[name] {
				found = append(found, "the result has no label "+name)
			}
		}
	}
	return found
}

// wrongLabels returns what is wrong with the labels of a metric. Every alternative of a pattern has to be a value that a master shows,
// but for entries.
func (r registry) wrongLabels(metric, labels string) (found []string) {
	for _, l := range label.FindAllStringSubmatch(labels, -1) {
		name, value := l[1], l[3]
		if name == "job" && value != "zester" {
			found = append(found, "the job of the scrape configuration is not "+value)
		}
		if name == "job" || name == "instance" {
			continue
		}
		values := r[metric][name]
		if values == nil {
			found = append(found, "the metric "+metric+" has no label "+name)
			continue
		}
		if name == "entry" || name == "version" || name == "goversion" {
			continue
		}
		for value := range strings.SplitSeq(value, "|") {
			if !values[value] {
				found = append(found, "the label "+name+" of "+metric+" is never "+value)
			}
		}
	}
	return found
}

// scrapeEverything runs a master that shows every metric of the examples, and returns what it shows to a token that may read.
func scrapeEverything(t *testing.T) string {
	s := newSite(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  backup: {module: test.ping, interval: 1s}\n")},
	})
	address := fmt.Sprintf("127.0.0.1:%d", natstest.Reserve(t, 1)[0])
	s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0", "--rest-listen", address, "--repo", "fleet", "--poll", "1h").waitFor(`"leads":"reconciler"`)
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("settings applied")
	token := strings.TrimSpace(s.zester(0, "auth", "token", "create", "prometheus", "--scope", "read"))
	w := web{t, natstest.HTTPS(t, s.path("master/tls/ca.crt")), "https://" + address, token}
	for limit, reported := time.After(patience), false; ; {
		code, answer := w.do("GET", "/metrics", nil)
		if code != 200 {
			t.Fatalf("%d: %s", code, answer)
		}
		text := string(answer)
		if !reported && strings.Contains(text, "zester_coverage_ready 1") { // a table that still reads does not count what is new
			reportSkips(t, s, w)
			reported = true
		}
		if strings.Contains(text, "zester_sync_up_to_date 1") && strings.Contains(text, "zester_entry_skipped_total{") && strings.Contains(text, `zester_entry_peels{entry="backup",state="active"}`) {
			return text
		}
		select {
		case <-time.After(lookAgain):
		case <-limit:
			t.Fatalf("the master does not show all metrics:\n%s", text)
		}
	}
}

// reportSkips reports a schedule as the peel db-01, with a fire that was skipped: a real peel would take minutes. It first
// sends facts, for which db-01 gets settings with the entry.
func reportSkips(t *testing.T, s *site, w web) {
	t.Helper()
	creds := s.issue(grants.RolePeel, "db-01")
	nc, err := nats.Connect(s.url(), nats.UserCredentials(creds), dial.CheckedBy(creds), nats.CustomInboxPrefix(wire.Inbox("db-01")), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	send := func(subject string, message any) {
		data, err := canon.Marshal(message)
		if err == nil {
			_, err = nc.Request(subject, data, patience)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	send(wire.Fact("db-01"), wire.Facts{Peel: "db-01", Facts: target.Facts{"os": "debian"}, V: wire.Version})
	for limit := time.After(patience); ; {
		if code, answer := w.do("GET", "/api/v1/sync/peels", nil); code == 200 && strings.Contains(string(answer), `"db-01"`) {
			break
		}
		select {
		case <-time.After(lookAgain):
		case <-limit:
			t.Fatal("db-01 gets no settings")
		}
	}

	stored, err := nc.Request(wire.SettingsGet("db-01"), nil, patience)
	for limit := time.Now().Add(patience); err == nil && len(stored.Data) == 0 && time.Now().Before(limit); { // listed, not yet stored
		<-time.After(lookAgain)
		stored, err = nc.Request(wire.SettingsGet("db-01"), nil, patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	doc, err := settings.Decode(stored.Data, "db-01")
	if err != nil {
		t.Fatal(err)
	}
	names, err := doc.Entries()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	run := ledger.Run{Fire: ledger.Fire{Nominal: ledger.At(now), Outcome: ledger.Skipped, Why: ledger.InBlackout}, Count: 1}
	r := ledger.Report{
		Peel: "db-01", Zone: ledger.Zone{Name: "UTC"}, Digest: string(doc.Digest), Time: now, Started: now.Add(-time.Hour),
		Entries: []ledger.EntryReport{{
			Place: slices.Index(names, "backup"), State: "active", Since: now.Add(-time.Hour), From: now.Add(-time.Hour),
			Next: now.Add(time.Hour), Latest: now.Add(time.Hour), Runs: ledger.AppendRuns(nil, []ledger.Run{run}),
		}},
	}
	data, err := ledger.Encode(&r)
	if err == nil {
		_, err = nc.Request(wire.ScheduleStateOf("db-01"), data, patience)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheMonitoringExamplesNameWhatAMasterShows holds every metric, label and value in the rules, their tests and the dashboard to what
// a running master shows.
func TestTheMonitoringExamplesNameWhatAMasterShows(t *testing.T) {
	shown := newRegistry(t, scrapeEverything(t))
	for name, want := range map[string]bool{"zester_entry_missed_total": true, "zester_entry_missed": false} {
		if got := shown[name] != nil; got != want {
			t.Fatalf("the master shows %s: %v", name, got)
		}
	}
	var rules ruleFile
	readYAML(t, "zester.rules.yaml", &rules)
	var tests testFile
	readYAML(t, "zester.tests.yaml", &tests)
	var scrape scrapeFile
	readYAML(t, "prometheus.yaml", &scrape)
	if len(scrape.Scrape) != 1 || scrape.Scrape[0].Job != "zester" || scrape.Scrape[0].Scheme != "https" || !slices.Equal(scrape.RuleFiles, []string{"zester.rules.yaml"}) {
		t.Errorf("scrape configuration %+v", scrape)
	}
	alerts := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if alerts[r.Alert] || !strings.HasPrefix(r.Alert, "Zester") || r.Annotations["summary"] == "" || !slices.Contains([]string{"page", "ticket", "none"}, r.Labels["severity"]) {
				t.Errorf("rule %+v", r)
			}
			alerts[r.Alert] = true
			for _, mistake := range shown.mistakes(r.Expr, slices.Collect(maps.Values(r.Annotations))...) {
				t.Errorf("%s: %s", r.Alert, mistake)
			}
		}
	}
	fires := map[string]bool{}
	for _, c := range tests.Tests {
		for _, in := range c.Input {
			m := series.FindStringSubmatch(in.Series)
			if m == nil || shown[m[1]] == nil {
				t.Errorf("test %s: a master has no metric %s", c.Name, in.Series)
				continue
			}
			for _, mistake := range shown.wrongLabels(m[1], strings.ReplaceAll(m[2], "peel=", "instance=")) { // with metrics_per_peel
				t.Errorf("test %s: %s", c.Name, mistake)
			}
		}
		for _, a := range c.Alerts {
			if !alerts[a.Alert] {
				t.Errorf("test %s: there is no rule %s", c.Name, a.Alert)
			}
			fires[a.Alert] = fires[a.Alert] || len(a.Want) > 0
		}
		for _, e := range c.Exprs {
			if name := regexp.MustCompile(`ALERTS\{alertname="(\w+)"`).FindStringSubmatch(e.Expr); name != nil && !alerts[name[1]] {
				t.Errorf("test %s: there is no rule %s", c.Name, name[1])
			}
		}
	}
	for name := range alerts {
		if !fires[name] {
			t.Errorf("no test has %s fire", name)
		}
	}
	checkDashboard(t, shown)
}

// checkDashboard also holds that panels have their place and their words.
func checkDashboard(t *testing.T, shown registry) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q or beyond the right edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, q := range p.Targets {
			for _, mistake := range shown.mistakes(q.Expr, q.LegendFormat) {
				t.Errorf("panel %s: %s", p.Title, mistake)
			}
		}
	}
	if len(ids) < 20 {
		t.Errorf("%d panels", len(ids))
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition)
		if m == nil || shown[m[1]][m[2]] == nil {
			t.Errorf("variable %s: no master has %s", v.Name, v.Definition)
		}
	}
}

// TestTheCheckOfExpressionsFindsMistakes holds that the test above would fail.
func TestTheCheckOfExpressionsFindsMistakes(t *testing.T) {
	r := newRegistry(t, `zester_x{entry="a",problem="missed"} 1`+"\n# TYPE zester_y gauge\nzester_y 0\n")
	for _, good := range []string{`sum by (entry) (max without (instance) (zester_x{entry=~"$entry", problem="missed"})) > 0`, `time() - min(zester_y)`, `up{job="zester"} == 0`, `vector(1)`} {
		if found := r.mistakes(good); found != nil {
			t.Errorf("%s: %v", good, found)
		}
	}
	for _, bad := range []string{
		`zester_z`, `max(zester_x{problm="missed"})`, `max(zester_x{problem="mised"})`, `max(zester_x{problem=~"missed|failed"})`, `sum by (peel) (zester_x)`,
		`avg(zester_y)`, `zester_y{entry="a"}`, `up{job="other"}`, `rate(zester_x_total[5m])`,
	} {
		if r.mistakes(bad) == nil {
			t.Errorf("nothing is wrong with %s", bad)
		}
	}
	if r.mistakes(`sum by (entry) (zester_x)`, "{{problem}}") == nil {
		t.Error("a legend may name a label that the result does not have")
	}
}

func TestPromtoolAcceptsTheMonitoringExamples(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool, which the Debian package prometheus has")
	}
	for _, args := range [][]string{{"check", "rules", "zester.rules.yaml"}, {"test", "rules", "zester.tests.yaml"}, {"check", "config", "--syntax-only", "prometheus.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = monitoring
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
