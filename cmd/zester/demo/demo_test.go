package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An audience hears the demo and may act on what it hears.
type audience struct {
	mu    sync.Mutex
	heard bytes.Buffer
	act   func(text string)
}

func (a *audience) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard.Write(text)
	if a.act != nil {
		a.act(string(text))
	}
	return len(text), nil
}

func (a *audience) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard.String()
}

// TestMain checks that no demo has left anything behind, however it ended. More demos run at once than there are processors, unless
// -parallel says otherwise: they wait more than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(withoutRemains(m))
}

func withoutRemains(m *testing.M) int {
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	if left, _ := filepath.Glob(filepath.Join(dir, "zester-demo-*")); len(left) > 0 {
		fmt.Println("demos have left", left)
		return 1
	}
	return code
}

// play runs the demo. It is an error if the bus has refused something to anybody.
func play(ctx context.Context, o Options, act func(text string)) (string, error) {
	a, log := &audience{act: act}, &refusals{Handler: slog.DiscardHandler}
	o.Out, o.Log = a, log
	err := Run(ctx, o)
	return a.String(), errors.Join(err, log.err())
}

// errRefused is of a demo in which somebody has tried what is not permitted.
var errRefused = errors.New("the bus refused something")

// refusals is a log of which it keeps what the bus has refused.
type refusals struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *refusals) Enabled(context.Context, slog.Level) bool { return true }
func (l *refusals) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *refusals) WithGroup(string) slog.Handler            { return l }

func (l *refusals) Handle(_ context.Context, r slog.Record) error {
	if natsd.Refused(r) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, r.Message)
	}
	return nil
}

func (l *refusals) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errRefused, strings.Join(l.lines, "; "))
}

// TestTheDemoTestsNoticeARefusalOfTheBus has a person publish what only masters may, which is how the other tests would notice that a
// permission is missing. It is not parallel, so that there is no other demo.
func TestTheDemoTestsNoticeARefusalOfTheBus(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tried := false
	_, err := play(ctx, Options{}, func(text string) {
		if !strings.Contains(text, "bring the first revision") {
			return
		}
		tried = true
		defer cancel()
		dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "zester-demo-*", "master"))
		if err != nil || len(dirs) != 1 {
			t.Error(dirs, err)
			return
		}
		info, err := api.ReadRunInfo(dirs[0])
		if err != nil {
			t.Error(err)
			return
		}
		nc, err := nats.Connect(info.URL, nats.UserCredentialBytes([]byte(info.Creds)), nats.RootCAs(info.CA), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if err := errors.Join(nc.Publish("$KV.jobs.mine", nil), nc.Flush()); err != nil {
			t.Error(err)
		}
	})
	if !tried || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "$KV.jobs.mine") {
		t.Errorf("tried %v: %v", tried, err)
	}
}

// expect checks that the patterns are found in text, one after the other.
func expect(t *testing.T, text string, patterns ...string) {
	t.Helper()
	rest := text
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("%s is missing, or not where it belongs, in:\n%s", p, text)
		}
		rest = rest[at[1]:]
	}
}

func TestTheDemoKeepsItsPromises(t *testing.T) {
	t.Parallel()
	text, err := play(t.Context(), Options{}, nil)
	if err != nil {
		t.Fatalf("%v after:\n%s", err, text)
	}
	const timed = `^   done in [\d.]+m?s$`
	expect(t, text,
		`^== make the config repo$`, timed,
		`^== start the bus, a master and the reconciler$`, `^   listening on tls://127\.0\.0\.1:\d+, credentials required$`, timed,
		`^== start the peels, each with its own credential: web-01, web-02, db-01$`, timed,
		`^== bring the first revision to the fleet$`, `^   revision [0-9a-f]{8} "The fleet as it is" by Ada Demo <ada@example.com>$`, `^   3 of 3 peels applied$`, timed,
		`settings\.get schedule$`,
		`^   web-01 +cert_check disk_check drift health kernel_version log_size uptime_report$`,
		`^   web-02 +cert_check disk_check drift health kernel_version log_size uptime_report$`,
		`^   db-01 +backup disk_check kernel_version uptime_report$`, timed,
		`^== commit a state, predict it and apply it: `, `^   web-01 +test=true: \{.*"would_change":1\}$`, `^   web-01 +test=false: \{"changed":1,.*\}$`,
		`^   /.*/motd on web-01: This is web-01\.$`, timed,
		`^== commit a change: one entry changed, one removed, one added, for web-\* only$`,
		`applied on 3 of 3 peels in [\d.]+m?s, documents written: 2$`,
		`^   db-01 +untouched: nothing was written for it$`,
		`^   web-01 +started 1, stopped 1, changed 1, kept 5$`,
		`^   web-02 +started 1, stopped 1, changed 1, kept 5$`, timed,
		`find it in job list$`, `^   job [0-9A-Za-z]{27} cmd\.run on web-0[12]: complete$`,
		`^   entry queue_depth, from settings/web/schedule\.yaml:9 at commit [0-9a-f]{8} by Ada Demo <ada@example.com>$`, timed,
		`^== dispatch: zester 'web-\*' cmd\.run `, `^   web-01 +Linux `, `^   web-02 +Linux `, timed,
		`^== commit something broken$`, `^   [0-9a-f]{8} is refused:$`,
		`^     settings/web/schedule\.yaml:13:5: schedule\.queue_depth\.intervall: unknown field; did you mean "interval"\?$`,
		`^   the fleet stays on [0-9a-f]{8}: 3 of 3 peels applied$`, timed,
		`^== revert it$`, `^   [0-9a-f]{8} is in force, documents written: 0`, timed,
		`^== commit a backup that fails, and see it: zester coverage --entry zester_demo_backup$`,
		`^   web-01 +zester_demo_backup: expected [1-9]\d*, ran [1-9]\d*, failed [1-9]\d*, missed 0: exit status 1$`, `^   3 of 3 peels report on their schedules$`, timed,
		`^all of it took `)
	changed := regexp.MustCompile(`(?m)^   ([0-9a-f]{8}) "Web: `).FindStringSubmatch(text)[1]
	expect(t, text, `at commit `+changed+` by`, `the fleet stays on `+changed+`:`)
}

// ownRepo is somebody's config repo; its files may be replaced.
func ownRepo(t *testing.T, files fstest.MapFS) *worktree.Work {
	t.Helper()
	all := fstest.MapFS{
		"README.md":         {Data: []byte("mine\n")},
		"top.yaml":          {Data: []byte("base:\n  'app-*': [app]\n")},
		"settings/app.yaml": {Data: []byte("schedule:\n  ping: {module: test.ping, interval: 1h}\n")},
	}
	maps.Copy(all, files)
	work, err := worktree.Init(filepath.Join(t.TempDir(), "own"), all, "Mine", worktree.Author{Name: "Grace", Email: "grace@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return work
}

func TestAnOwnRepoIsShownAndLeftAlone(t *testing.T) {
	t.Parallel()
	work := ownRepo(t, nil)
	before := snapshot(t, work.Dir())
	text, err := play(t.Context(), Options{Repo: work.Dir(), Peels: []target.PeelID{"app-01", "spare.example.com"}}, nil)
	if err != nil {
		t.Fatalf("%v after:\n%s", err, text)
	}
	expect(t, text,
		`^   revision [0-9a-f]{8} "Mine" by Grace <grace@example.com>$`, `^   2 of 2 peels applied$`,
		`^   app-01 +ping$`, `^   spare\.example\.com no setting "schedule"`,
		`one entry added, for app-01 only, in the clone$`, `documents written: 1$`,
		`^   app-01 +started 1, stopped 0, changed 0, kept 1$`, `^   spare\.example\.com untouched`,
		`^   job [0-9A-Za-z]{27} test\.ping on app-01: complete$`,
		`is refused:$`, `zester_demo\.yaml:4:5: `,
		`is in force, documents written: 0`, `^   app-01 +zester_demo_backup: expected .* missed 0: exit status 1$`)
	if after := snapshot(t, work.Dir()); after != before {
		t.Errorf("the repo was\n%s\nand is\n%s", before, after)
	}
}

// snapshot tells all files below dir with their content, those of git included.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(data) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestAStepThatGoesWrongIsNamed(t *testing.T) {
	t.Parallel()
	broken := ownRepo(t, fstest.MapFS{"top.yaml": {Data: []byte("base:\n  'app-* web-*': [app]\n")}})
	text, err := play(t.Context(), Options{Repo: broken.Dir(), Peels: []target.PeelID{"app-01"}}, nil)
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.Step != "bring the first revision to the fleet" || !strings.Contains(err.Error(), "top.yaml:2:") {
		t.Errorf("%v after:\n%s", err, text)
	}
}

func TestADaemonThatFailsIsNoInterruption(t *testing.T) {
	t.Parallel()
	inTheWay := func(text string) { // a file where the master's directory belongs
		if dir, ok := strings.CutSuffix(strings.TrimSpace(text), "/repo"); ok {
			if err := os.WriteFile(filepath.Join(dir, "master"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	text, err := play(t.Context(), Options{}, inTheWay)
	step, ok := errors.AsType[*StepError](err)
	if !ok || step.Step != "start the bus, a master and the reconciler" || !strings.Contains(err.Error(), "cannot make the data directory") {
		t.Errorf("%v after:\n%s", err, text)
	}
}

func TestADemoInterruptedInAnyStepLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"make the config repo", "start the bus", "start the peels", "bring the first", "wait for a scheduled run"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			text, err := play(ctx, Options{}, func(text string) {
				if strings.Contains(text, "== "+at) {
					cancel()
				}
			})
			if !errors.Is(err, ErrInterrupted) {
				t.Errorf("%v after:\n%s", err, text)
			}
		})
	}
}

func TestKeepRunsTheDemoUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text, err := play(ctx, Options{Keep: true, Zester: "zester"}, func(text string) {
		if strings.Contains(text, "edit and commit in ") {
			cancel()
		}
	})
	if err != nil {
		t.Errorf("%v after:\n%s", err, text)
	}
	expect(t, text, `^all of it took`, `^everything goes on until Ctrl-C`,
		`^  export ZESTER_DATA_DIR=/.*/master$`, `^  zester sync status$`, `^  zester '\*' cmd\.run `, `^  zester coverage --by peel$`, `^  zester console$`)
}
