package swarm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/api"
)

// By these arguments a test starts its own program as a process of peels, and as a bus with the keys in a folder.
const (
	simulate = "simulate-peels"
	serve    = "serve-bus"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == simulate:
		err = worker.Work(context.Background(), os.Stdin)
	case len(os.Args) == 4 && os.Args[1] == serve:
		err = serveBus(os.Args[2], os.Args[3])
	default:
		code := m.Run()
		left, e := filepath.Glob(filepath.Join(cmp.Or(stateDir(), os.TempDir()), statePrefix()+"*"))
		if e == nil && len(left) == 0 {
			os.Exit(code)
		}
		err = fmt.Errorf("the swarms left %v, %v", left, e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// workers is what Options.Worker says in tests.
func workers(t testing.TB) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, simulate}
}

func TestEveryFigureOfASmallFleet(t *testing.T) {
	t.Parallel()
	o := Options{Peels: 50, Procs: 3, Rounds: 1, Idle: time.Millisecond, Worker: workers(t), Programs: programs(t), Out: t.Output()} // at 50, documents of racks are measured
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		lost, timed := strings.Contains(f.Name, "lost") || f.Name == "permission violations", f.Unit == "s" || f.Unit == "ms"
		if lost && f.Value != 0 || timed && f.Value <= 0 {
			t.Errorf("%s: %v", f.Name, f.Value)
		}
		if f.Bare > 0 && f.Ratio != f.Value/f.Bare {
			t.Errorf("%s: the ratio of %v to %v is %v", f.Name, f.Value, f.Bare, f.Ratio)
		}
	}
	for _, want := range []string{
		"bare connections with credentials and TLS, beside none", "processor time of the bus for one, beside none", "every peel connected and current", PingEnded, PingCPU, PingPeelCPU, "the bare bus, no answer stored", DiskWritten, CommitSeconds, CommitCPU, CommitPeelCPU, "the same with 50 documents", "results of scheduled runs in records", Waiting, IdleCPU, "restart of the server: every peel back",
	} {
		if f := figure(report, want); f.Value == 0 || f.Bare == 0 {
			t.Errorf("%s: the bare bus was not measured", want)
		}
	}
	if !slices.ContainsFunc(report.Figures, func(f Figure) bool { return f.Name == "permission violations" }) {
		t.Error("nobody has counted what the bus refused")
	}
	if f := figure(report, "idle peel process: resident"); f.Value < 1 || f.Value > 100 {
		t.Errorf("a peel's program has %v MiB", f.Value)
	}
	if f := figure(report, "processor time of client, master and bus to read its row"); f.Value == 0 {
		t.Error("nobody has counted what it takes to read rows")
	}
	for _, f := range []Figure{figure(report, PingEnded), figure(report, PingCPU), figure(report, CommitSeconds), figure(report, CommitCPU), figure(report, Waiting)} {
		if f.OneAccount == 0 || f.OneAccountRatio != f.Value/f.OneAccount {
			t.Errorf("%s: the bare bus with one account is %v, the ratio %v", f.Name, f.OneAccount, f.OneAccountRatio)
		}
	}
	for i, g := range Goals(50) {
		f := figure(report, g.Name)
		if len(report.Goals) <= i || report.Goals[i].Name != g.Name || report.Goals[i].Value != f.Ratio && report.Goals[i].Value != f.Value {
			t.Errorf("%s: %v of %+v", g.Name, f, report.Goals)
		}
	}
	reads(t, report)
}

// programs builds what hosts install.
func programs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	// What go run has linked stays in the build cache, from which tests of other packages have it as well.
	if out, err := exec.Command("go", "run", "-exec", "cp", "../../zester-peel", dir+"/zester-peel").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// reads checks the two forms in which a report is kept.
func reads(t *testing.T, report *Report) {
	t.Helper()
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(&again, report) {
		t.Errorf("read back: %+v, %v", again, err)
	}
	var text strings.Builder
	if err := report.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "50 peels in 3 processes, a credential each, TLS, median of 1; "+report.Machine.String()+"\n") {
		t.Errorf("it begins otherwise: %s", &text)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")[3:]
	if len(lines) != 2+len(report.Figures) {
		t.Errorf("%d lines for %d figures", len(lines), len(report.Figures))
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 8 {
			t.Errorf("not a row of seven cells: %s", line)
		}
	}
}

// figure is the figure of a name, zero if there is none.
func figure(r *Report, name string) Figure {
	for _, f := range r.Figures {
		if f.Name == name {
			return f
		}
	}
	return Figure{}
}

// An onLine calls do before it writes a text that begins with start.
type onLine struct {
	io.Writer
	start string
	do    func()
}

func (w onLine) Write(text []byte) (int, error) {
	if bytes.HasPrefix(text, []byte(w.start)) {
		w.do()
	}
	return w.Writer.Write(text)
}

// TestARefusalOfTheBusFailsTheRun has a person publish what only masters may, while the fleet works. It is not parallel, so
// that there is no other swarm.
func TestARefusalOfTheBusFailsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trespass := sync.OnceFunc(func() {
		defer cancel()
		dirs, err := filepath.Glob(filepath.Join(cmp.Or(stateDir(), os.TempDir()), statePrefix()+"*", "master"))
		if err != nil || len(dirs) != 1 {
			t.Error(dirs, err)
			return
		}
		info, err := api.ReadRunInfo(dirs[0])
		if err != nil {
			t.Error(err)
			return
		}
		nc, err := nats.Connect(info.URL, nats.UserCredentialBytes([]byte(info.Creds)), nats.RootCAs(info.CA), nats.Timeout(worker.WaitLimit), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if err := errors.Join(nc.Publish("$KV.jobs.mine", nil), nc.Flush()); err != nil {
			t.Error(err)
		}
	})
	report, err := Run(ctx, Options{Peels: 2, Rounds: 1, Worker: workers(t), Out: onLine{t.Output(), "every peel connected and current", trespass}})
	if err == nil || !strings.Contains(err.Error(), `the bus refused what is not permitted 1 times, the first: bus: `) || !strings.Contains(err.Error(), "$KV.jobs.mine") {
		t.Errorf("it ended with %v", err)
	}
	if f := figure(report, "permission violations"); f.Value != 1 {
		t.Errorf("it has counted %v", f.Value)
	}
}

func TestARefusalThatAPeelTellsIsCounted(t *testing.T) {
	var out strings.Builder
	refused := &worker.RefusalCounter{}
	log := slog.New(worker.WatchRefusals(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}), refused)).With("peel", "sim-1").WithGroup("g")
	log.Warn("bus", "err", fmt.Errorf("%w: for Publish", nats.ErrPermissionViolation))
	log.Warn("bus", "err", nats.ErrSlowConsumer)
	log.Error("Publish Violation", "err", io.EOF)
	if refused.Count() != 1 || refused.Err() == nil {
		t.Errorf("%d: %v", refused.Count(), refused.Err())
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 {
		t.Errorf("the log has %d lines: %s", lines, &out)
	}
}

func TestASizeThatCannotBeRunIsRefused(t *testing.T) {
	for _, n := range []int{-1, 0, MaxPeels + 1} {
		if _, err := Run(t.Context(), Options{Peels: n}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot run %d peels", n)) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestPeelsThatCannotBeStartedEndTheRun(t *testing.T) {
	t.Parallel()
	exe := workers(t)[0]
	_, err := Run(t.Context(), Options{Peels: 1, Worker: []string{exe, "-test.run", "^$", "-test.unknown"}, Out: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "a process of peels") {
		t.Errorf("%v", err)
	}
}

func TestASoakCountsWhatWasAskedAndWhatWasDue(t *testing.T) {
	t.Parallel()
	told := map[string]bool{}
	report, err := Run(t.Context(), Options{
		Peels: 5, Soak: time.Second, Worker: workers(t), Out: t.Output(), Progress: func(what string, _, _ int64) { told[what] = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"dispatched to peels": 5, "returns lost": 0, "scheduled runs lost, or kept twice if negative": 0, "commits that every peel has applied": 1,
	} {
		if !slices.ContainsFunc(report.Figures, func(f Figure) bool { return f.Name == name && f.Value == want }) {
			t.Errorf("%s is not %v", name, want)
		}
	}
	if !told["applied"] {
		t.Errorf("it has told the progress of %v", told)
	}
}

func TestOutputsOfEveryPeelAreCounted(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), Options{Peels: 5, Outputs: 2, Worker: workers(t), Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if f := figure(report, "outputs lost in all rounds"); f.Name == "" || f.Value != 0 {
		t.Errorf("%+v", f)
	}
	if f := figure(report, "64 KiB of output of every peel stored"); f.Value <= 0 {
		t.Errorf("%+v", f)
	}
}
