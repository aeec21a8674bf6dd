//go:build linux

package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A fixture is a temporary directory with a runner; DIR in a state stands for it.
type fixture struct {
	t   *testing.T
	dir string
	r   *Runner
}

func newHost(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	h := fixtureIn(dir)
	h.t = t
	return h
}

func fixtureIn(dir string) *fixture {
	return &fixture{dir: dir, r: New(Options{
		Dir: dir + "/.state", Lock: dir + "/.state/lock", Exec: shell,
		Files: file.Inputs{Source: func(_ context.Context, name string) (file.Content, error) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			return file.Content{Data: data}, err
		}},
	})}
}

// shell runs a command as the peel would.
func shell(ctx context.Context, c Command) (Ended, error) {
	argv := c.Argv
	if argv == nil {
		argv = []string{"sh", "-c", c.Shell}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.Cwd
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return Ended{exit.ExitCode(), string(out)}, nil
	}
	return Ended{0, string(out)}, err
}

func (h *fixture) set(text string) state.Set {
	h.t.Helper()
	set, err := h.parse(text)
	must(h.t, err)
	return set
}

func (h *fixture) parse(text string) (state.Set, error) {
	n, err := strictyaml.Parse("t.yaml", []byte(strings.ReplaceAll(text, "DIR", h.dir)))
	if err != nil {
		return nil, err
	}
	x, err := state.Expand(n, n)
	if err != nil {
		return nil, err
	}
	return state.Parse(x.States, state.Options{})
}

func (h *fixture) run(text string, test bool) *Result {
	h.t.Helper()
	result, err := h.r.Run(h.t.Context(), Request{Set: h.set(text), Test: test})
	must(h.t, err)
	return result
}

// verdicts are the outcomes, one "name: result reason cause" each.
func verdicts(r *Result) []string {
	var out []string
	for _, o := range r.States {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s%s", o.State, o.Result, o.Reason, o.Cause)))
	}
	return out
}

func (h *fixture) wants(r *Result, want ...string) {
	h.t.Helper()
	if got := verdicts(r); !slices.Equal(got, want) {
		h.t.Errorf("the run is\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		for _, o := range r.States {
			if o.Comment != "" {
				h.t.Logf("%s: %s", o.State, o.Comment)
			}
		}
	}
}

func (h *fixture) read(name string) string {
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(data)
}

const web = `
conf: {file.managed: {path: DIR/conf, content: one}}
log: {cmd.run: {command: "echo reload >> DIR/log"}, onchanges: [conf]}
`

func TestARunChangesWhatIsMissingAndThenNothing(t *testing.T) {
	h := newHost(t)
	h.wants(h.run(web, true), "conf: would_change intended", "log: would_change intended")
	if h.read("conf") == "one" || h.read("log") == "reload\n" {
		t.Fatal("test mode changes the host")
	}
	h.wants(h.run(web, false), "conf: changed intended", "log: changed intended")
	h.wants(h.run(web, false), "conf: unchanged", "log: skipped onchanges_unmet")
	h.wants(h.run(web, true), "conf: unchanged", "log: skipped onchanges_unmet")
	must(t, os.WriteFile(h.dir+"/conf", []byte("by hand"), 0o644))
	h.wants(h.run(web, true), "conf: would_change drift", "log: would_change drift")
	h.wants(h.run(web, false), "conf: changed drift", "log: changed drift")
	two := strings.Replace(web, "content: one", "content: two", 1)
	h.wants(h.run(two, false), "conf: changed intended", "log: changed intended") // a reaction has the cause of its change
	if got := h.read("log"); got != "reload\nreload\nreload\n" {
		t.Errorf("the reactions are %q", got)
	}
}

// TestAReactionIsNotForgotten: what a failure, the end of the run or of the process prevents is made by the next run.
func TestAReactionIsNotForgotten(t *testing.T) {
	h := newHost(t)
	failing := strings.Replace(web, `"echo reload >> DIR/log"`, `"test -e DIR/ready && echo reload >> DIR/log"`, 1)
	h.wants(h.run(failing, false), "conf: changed intended", "log: failed intended")
	h.wants(h.run(failing, true), "conf: unchanged", "log: would_change intended") // it is predicted too
	r := h.run(failing, false)
	h.wants(r, "conf: unchanged", "log: failed intended")
	if !slices.Equal(r.Owed, []string{"log"}) {
		t.Errorf("owed is %v", r.Owed)
	}
	must(t, os.WriteFile(h.dir+"/ready", nil, 0o644))
	h.wants(h.run(failing, false), "conf: unchanged", "log: changed intended")
	h.wants(h.run(failing, false), "conf: unchanged", "log: skipped onchanges_unmet")
	if got := h.read("log"); got != "reload\n" {
		t.Errorf("the reactions are %q", got)
	}

	// The run ends between the change and the reaction.
	h = newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.r.o.Exec = func(context.Context, Command) (Ended, error) {
		cancel()
		return Ended{}, context.Canceled
	}
	result, err := h.r.Run(ctx, Request{Set: h.set(web)})
	must(t, err)
	h.wants(result, "conf: changed intended", "log: failed intended")
	h.r.o.Exec = shell
	h.wants(h.run(web, false), "conf: unchanged", "log: changed intended")
}

// TestAGuardEndsAReaction: a state that a guard holds back owes nothing, and a disabled one gets nothing to owe.
func TestAGuardEndsAReaction(t *testing.T) {
	h := newHost(t)
	guarded := strings.Replace(web, "onchanges: [conf]", "onchanges: [conf], onlyif: 'test -e DIR/ready'", 1)
	r := h.run(guarded, false)
	h.wants(r, "conf: changed intended", "log: skipped onlyif")
	must(t, os.WriteFile(h.dir+"/ready", nil, 0o644))
	h.wants(h.run(guarded, false), "conf: unchanged", "log: skipped onchanges_unmet")
	must(t, os.Remove(h.dir+"/ready"))
	unless := strings.Replace(strings.Replace(web, "one", "three", 1), "onchanges: [conf]", "onchanges: [conf], unless: 'test ! -e DIR/ready'", 1)
	h.wants(h.run(unless, false), "conf: changed intended", "log: skipped unless")
	must(t, os.WriteFile(h.dir+"/ready", nil, 0o644))
	h.wants(h.run(unless, false), "conf: unchanged", "log: skipped onchanges_unmet")
	disabled := strings.Replace(strings.Replace(web, "one", "two", 1), "onchanges: [conf]", "onchanges: [conf], enabled: false", 1)
	if r = h.run(disabled, false); len(r.Owed) > 0 {
		t.Errorf("owed is %v", r.Owed)
	}
}

func TestRequisites(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"require of a failed state", "a: {cmd.run: {command: 'false'}}\nb: {cmd.run: {command: 'true'}, require: [a]}\nc: {cmd.run: {command: 'true'}, require: [b]}\nd: {cmd.run: {command: 'true'}}", []string{"a: failed intended", "b: skipped require_failed", "c: skipped require_failed", "d: changed intended"}},
		{"a guard counts as done", "a: {cmd.run: {command: 'false'}, onlyif: 'false'}\nb: {cmd.run: {command: 'true'}, require: [a]}", []string{"a: skipped onlyif", "b: changed intended"}},
		{"unless", "a: {cmd.run: {command: 'false'}, unless: ['false', 'true']}", []string{"a: skipped unless"}},
		{"all of onlyif", "a: {cmd.run: {command: 'true'}, onlyif: ['true', 'true']}", []string{"a: changed intended"}},
		{"disabled", "a: {cmd.run: {command: 'false'}, enabled: false}\nb: {cmd.run: {command: 'true'}, require: [a]}", []string{"a: skipped disabled", "b: changed intended"}},
		{"failhard", "a: {cmd.run: {command: 'false'}, failhard: true}\nb: {cmd.run: {command: 'true'}}", []string{"a: failed intended", "b: skipped failhard"}},
		{"onfail", "a: {cmd.run: {command: 'false'}}\nb: {cmd.run: {command: 'true'}, onfail: [a]}\nc: {cmd.run: {command: 'true'}, onfail: [b]}", []string{"a: failed intended", "b: changed intended", "c: skipped onfail_unmet"}},
		{"require_in", "a: {cmd.run: {command: 'true'}}\nb: {cmd.run: {command: 'false'}, require_in: [a]}", []string{"b: failed intended", "a: skipped require_failed"}},
		{"creates", "a: {cmd.run: {command: 'touch DIR/x', creates: DIR/x}}\nb: {cmd.run: {command: 'true', creates: DIR/x}}\nc: {cmd.run: {command: 'true', creates: DIR/y}}", []string{"a: changed intended", "b: unchanged", "c: failed intended"}},
	} {
		h := newHost(t)
		r := h.run(c.text, false)
		h.wants(r, c.want...)
		if t.Failed() {
			t.Fatal(c.name)
		}
		failed := slices.ContainsFunc(r.States, func(o Outcome) bool { return o.Result == Failed })
		if r.Success() == failed {
			t.Errorf("%s: the run's success is %v", c.name, r.Success())
		}
	}
}

func TestTestModeSaysWhatItCannotKnow(t *testing.T) {
	h := newHost(t)
	r := h.run("a: {file.managed: {path: DIR/a, content: x}}\nb: {cmd.run: {command: 'true'}, onlyif: 'test -e DIR/a'}\nc: {cmd.run: {command: 'true'}, onchanges: [b]}", true)
	h.wants(r, "a: would_change intended", "b: unknown", "c: unknown")
	if r.States[1].Comment != "its guard may depend on a predicted change" || r.States[2].Comment != "it depends on whether b changes" {
		t.Errorf("the comments are %q and %q", r.States[1].Comment, r.States[2].Comment)
	}
}

// TestWhatACommandMayBringIsUnknown holds for each question that a step asks about a path that is not there.
func TestWhatACommandMayBringIsUnknown(t *testing.T) {
	for name, text := range map[string]string{
		"absent":        "{file.absent: {path: DIR/new}}",
		"line":          "{file.line: {path: DIR/new, line: y}}",
		"block":         "{file.block: {path: DIR/new, content: y}}",
		"replace":       "{file.managed: {path: DIR/new, content: y, replace: false}}",
		"link":          "{file.symlink: {path: DIR/new, target: y}}",
		"directory":     "{file.directory: {path: DIR/new}}",
		"creates":       "{cmd.run: {command: 'echo y', creates: DIR/new}}",
		"below":         "{file.managed: {path: DIR/newer/f, content: y}}",
		"clean":         "{file.directory: {path: DIR/there, clean: true}}",
		"user":          "{file.managed: {path: DIR/new, content: x, user: zester-no-such-user}}",
		"unknown state": "{cmd.run: {command: 'true'}, onlyif: 'true'}",
	} {
		h := newHost(t)
		must(t, os.Mkdir(h.dir+"/there", 0o755))
		must(t, os.WriteFile(h.dir+"/there/f", nil, 0o644))
		r := h.run("make: {cmd.run: {command: 'echo x > DIR/new; mkdir DIR/newer; echo x > DIR/there/x'}}\n"+
			"s: "+text+"\nlog: {cmd.run: {command: 'true'}, onchanges: [s]}\nknown: {file.line: {path: DIR/there/f, line: x}}", true)
		known := "would_change intended"
		if name == "clean" {
			known = "unknown" // the state that is unknown may have changed its file
		}
		h.wants(r, "make: would_change intended", "s: unknown", "log: unknown", "known: "+known)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestACheckRunsInATest: a content that its check refuses is predicted as failed.
func TestACheckRunsInATest(t *testing.T) {
	h := newHost(t)
	const text = "f: {file.managed: {path: DIR/f, content: bad, check: [grep, -q, good, '{}']}}\nlog: {cmd.run: {command: 'true'}, onfail: [f]}\nafter: {cmd.run: {command: 'true'}, require: [f]}"
	for _, test := range []bool{true, false} {
		r := h.run(text, test)
		did := map[bool]string{true: "would_change intended", false: "changed intended"}[test]
		h.wants(r, "f: failed intended", "log: "+did, "after: skipped require_failed")
		if _, err := os.Stat(h.dir + "/f"); err == nil {
			t.Error("the file is there")
		}
	}
	// Where it may depend on what another state would do, a failure is unknown.
	r := h.run("a: {file.managed: {path: DIR/a, content: x}}\nf: {file.managed: {path: DIR/f, content: bad, check: [grep, -q, good, '{}']}}", true)
	h.wants(r, "a: would_change intended", "f: unknown")
}

func TestAStateIsTriedAgain(t *testing.T) {
	h := newHost(t)
	r := h.run("a: {cmd.run: {command: 'echo x >> DIR/n; test $(wc -l < DIR/n) = 3'}, retry: {attempts: 4, interval: 1ms}}", false)
	h.wants(r, "a: changed intended")
	if h.read("n") != "x\nx\nx\n" {
		t.Errorf("%q", h.read("n"))
	}
}

// In test mode nothing changes between two attempts, so that a second one would only take time.
func TestAPredictionIsMadeOnce(t *testing.T) {
	h, read := newHost(t), 0
	h.r.o.Files.Source = func(context.Context, string) (file.Content, error) {
		read++
		return file.Content{}, errors.New("no such file")
	}
	r := h.run("a: {file.managed: {path: DIR/f, source: files/s}, retry: {attempts: 3, interval: 1ms}}", true)
	h.wants(r, "a: failed")
	once := read
	if h.run("a: {file.managed: {path: DIR/f, source: files/s}}", true); read != 2*once {
		t.Errorf("the source was read %d times with retry and %d times without", once, read-once)
	}
}

// TestACommandThatEndsThePeelRunsTwice: a command such as a restart of the host is tried once more by the next run, and then waits for a
// person.
// TestATryThatFailsIsNotForgotten: what an attempt changed is in the result of the last one, and what it left is not taken for success.
func TestATryThatFailsIsNotForgotten(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"what it made does not hold", "a: {cmd.run: {command: 'echo x >> DIR/n; false', creates: DIR/n}, retry: {attempts: 2, interval: 1ms}}", "a: failed intended"},
		{"nor is it a guard", "a: {cmd.run: {command: 'echo x >> DIR/n; false'}, unless: 'test -e DIR/n', retry: {attempts: 2, interval: 1ms}}", "a: failed intended"},
		{"changes of the first attempt", "a: {file.managed: {path: DIR/d/f, content: x, makedirs: true, check: [sh, -c, 'echo x >> DIR/n; rm -rf DIR/d; mkdir DIR/d; echo -n x > DIR/d/f; exit 1', '{}']}, retry: {attempts: 2, interval: 1ms}}", "a: changed intended"},
	} {
		h := newHost(t)
		r := h.run(c.text, false)
		h.wants(r, c.want)
		made := 0
		if c.want == "a: changed intended" {
			made = 2 // the directory, and the file that the failed attempt left
		}
		if o := r.States[0]; len(o.Changes) != made {
			t.Errorf("%s: %d changes, want %d: %+v", c.name, len(o.Changes), made, o)
		}
		if want := "x\nx\n"; c.want != "a: changed intended" && h.read("n") != want {
			t.Errorf("%s: the command ran %q", c.name, h.read("n"))
		}
	}
}

// Only what was done is a change. What a step failed to do is in the comment.
func TestAFailedStepIsNoChange(t *testing.T) {
	for text, want := range map[string]string{
		"a: {cmd.run: {command: 'exit 3'}}":                                                        "",
		"a: {cmd.run: {command: exec sleep 60}, timeout: 50ms}":                                    "",
		"a: {file.managed: {path: DIR/d/e/f, content: x, makedirs: true, check: ['false', '{}']}}": "create d, create e",
		"a: {file.managed: {path: DIR/d/f, content: x, makedirs: true, check: ['false', '{}']}, " +
			"retry: {attempts: 2, interval: 1ms}}": "create d",
	} {
		h := newHost(t)
		r := h.run(text, false)
		h.wants(r, "a: failed intended")
		var made []string
		for _, c := range r.States[0].Changes {
			made = append(made, c.Do+" "+filepath.Base(c.What))
		}
		if got := strings.Join(made, ", "); got != want || r.States[0].Comment == "" {
			t.Errorf("%s made %q, want %q, with the comment %q", text, got, want, r.States[0].Comment)
		}
	}
}

// A run that is canceled while a command runs has a result of the command, though it made no change.
func TestACanceledCommandHasFailed(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.r.o.Exec = func(context.Context, Command) (Ended, error) {
		cancel()
		return Ended{Code: 1}, nil
	}
	r, err := h.r.Run(ctx, Request{Set: h.set("a: {cmd.run: {command: x}}\nb: {cmd.run: {command: x}}")})
	must(t, err)
	h.wants(r, "a: failed intended", "b: skipped canceled")
}

func TestStatesHaveLimitsByDefault(t *testing.T) {
	h := newHost(t)
	limits := map[string]time.Duration{}
	h.r.o.Exec = func(ctx context.Context, c Command) (Ended, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			t.Errorf("%s has no limit", c.Shell)
		}
		limits[c.Shell] = time.Until(deadline).Round(time.Second)
		return Ended{}, nil
	}
	r := h.run("a: {cmd.run: {command: c}, onlyif: if}\nb: {cmd.run: {command: d}, timeout: 2m, onlyif: two}", false)
	if limits["c"] != time.Hour || limits["if"] != 5*time.Minute || limits["d"] != 2*time.Minute || limits["two"] != 2*time.Minute {
		t.Errorf("the limits are %v", limits)
	}
	// All counts are in the result, zeros too.
	if data, err := json.Marshal(r); err != nil || !strings.Contains(string(data), `"counts":{"changed":2,"failed":0,"skipped":0,"unchanged":0,"unknown":0,"would_change":0}`) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestACommandThatEndsThePeelRunsTwice(t *testing.T) {
	h := newHost(t)
	text := strings.ReplaceAll("kernel: {file.managed: {path: DIR/kernel, content: x}}\nboot: {cmd.run: {command: 'echo x >> DIR/boots; kill -9 $PPID'}, onchanges: [kernel]}\nafter: {cmd.run: {command: 'echo x >> DIR/after'}}", "DIR", h.dir)
	exe, err := os.Executable()
	must(t, err)
	for range 2 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), killedStates+"="+text, killedDir+"="+h.dir)
		_ = cmd.Run()
	}
	if got := h.read("boots"); got != "x\nx\n" {
		t.Fatalf("the command ran %q", got)
	}
	for _, test := range []bool{true, false} {
		r := h.run(text, test)
		want := "changed"
		if test {
			want = "would_change"
		}
		h.wants(r, "kernel: unchanged", "boot: failed", "after: "+want+" intended")
		if c := r.States[1].Comment; !strings.Contains(c, "was cut off twice") || !strings.Contains(c, "state.settle boot") {
			t.Errorf("the comment is %q", c)
		}
	}
	must(t, h.r.Settle(t.Context(), "boot"))
	h.wants(h.run(text, false), "kernel: unchanged", "boot: skipped onchanges_unmet", "after: changed drift")
	if err := h.r.Settle(t.Context(), "boot"); !errors.Is(err, errNothingToSettle) {
		t.Error(err)
	}
	// One that ends, in whatever way, is not cut off.
	for _, command := range []string{"false", "kill -9 $$", "exec sleep 60"} {
		for range 3 {
			if r := h.run("a: {cmd.run: {command: '"+command+"'}, timeout: 50ms}", false); strings.Contains(r.States[0].Comment, "cut off") {
				t.Errorf("%s: %s", command, r.States[0].Comment)
			}
		}
	}
}

// systemd signals the command and the peel: the command ends first, and the peel still stores what became of it.
func TestACommandThatASignalEndsWithTheRunIsCutOff(t *testing.T) {
	h := newHost(t)
	const text = "a: {cmd.run: {command: x}}"
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		h.r.o.Exec = func(context.Context, Command) (Ended, error) {
			cancel()
			return Ended{Code: -1}, nil
		}
		_, err := h.r.Run(ctx, Request{Set: h.set(text)})
		must(t, err)
	}
	if c := h.run(text, false).States[0].Comment; !strings.Contains(c, "was cut off twice") {
		t.Errorf("the comment is %q", c)
	}
}

// In test mode a later state has to know that systemd would read its units first.
func TestATestRunNotesTheUnitsThatItWouldChange(t *testing.T) {
	h := newHost(t)
	x := newRun(h.r, Request{Test: true}, newMemory())
	steps := []host.Step{
		{Change: host.Change{Do: "write", What: "/etc/systemd/system/a.service"}},
		{Change: host.Change{Do: "write", What: "/etc/a.conf"}},
	}

	must(t, x.predict(t.Context(), steps, &Outcome{}))
	if got := x.world.Unread(); !slices.Equal(got, []string{"/etc/systemd/system/a.service"}) {
		t.Errorf("systemd would have to read %v, want the unit", got)
	}
}

// What a step had done before it was ended is not known, so the next run compares the stamp of the unit. A step that
// failed did nothing.
func TestAStepThatWasEndedMayHaveMadeItsReaction(t *testing.T) {
	signaled := exec.Command("sh", "-c", "kill -9 $$").Run()
	exited := exec.Command("false").Run()
	for name, c := range map[string]struct {
		err        error
		isCanceled bool
		mayBeMade  bool
	}{
		"failed":              {err: exited},
		"ended by a signal":   {err: signaled, mayBeMade: true},
		"ended with the run":  {err: context.Canceled, isCanceled: true, mayBeMade: true},
		"could not be called": {err: exec.ErrNotFound},
	} {
		h := newHost(t)
		x := newRun(h.r, Request{}, newMemory())
		x.memory.act("a", "stamp")
		ctx, cancel := context.WithCancel(t.Context())
		steps := []host.Step{{Apply: func(context.Context) error {
			if c.isCanceled {
				cancel()
			}
			return c.err
		}}}

		err := x.applySteps(ctx, t.Context(), h.set("a: {service.running: {}}")[0], steps, &Outcome{})
		cancel()
		if mayBeMade := x.memory.Acted["a"] == "stamp"; !errors.Is(err, c.err) || mayBeMade != c.mayBeMade {
			t.Errorf("%s: the stamp is kept: %v, want %v; %v", name, mayBeMade, c.mayBeMade, err)
		}
	}
}

// A step that fails after systemd read its units leaves nothing to read for the next run.
func TestThatSystemdReadItsUnitsIsStoredAlsoIfALaterStepFails(t *testing.T) {
	h := newHost(t)
	x := newRun(h.r, Request{}, newMemory())
	x.world.SetUnread("/etc/systemd/system/a.service")
	must(t, x.storeUnread())
	failed := errors.New("failed")
	steps := []host.Step{
		{Apply: func(context.Context) error { x.world.UnitsRead(); return nil }},
		{Apply: func(context.Context) error { return failed }},
	}
	s := h.set("a: {cmd.run: {command: x}}")[0]
	if err := x.apply(t.Context(), t.Context(), s, steps, &Outcome{}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if left, err := h.r.loadUnread(); err != nil || len(left) > 0 {
		t.Errorf("systemd has to read %v, %v", left, err)
	}
}

func TestATimeoutEndsAState(t *testing.T) {
	h := newHost(t)
	r := h.run("a: {cmd.run: {command: 'exec sleep 600'}, timeout: 50ms}", false)
	h.wants(r, "a: failed intended")
	if !strings.Contains(r.States[0].Comment, "it took longer than its timeout of 50ms") {
		t.Error(r.States[0].Comment)
	}
}

func TestACanceledRunSkipsTheRest(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.r.o.Exec = func(ctx context.Context, c Command) (Ended, error) { cancel(); return Ended{}, nil } // the step under way ends
	result, err := h.r.Run(ctx, Request{Set: h.set("a: {cmd.run: {command: x}}\nb: {cmd.run: {command: y}}")})
	must(t, err)
	h.wants(result, "a: changed intended", "b: skipped canceled")
}

// The run is canceled in the second attempt of a state whose first one failed.
func TestACanceledRunKeepsTheErrorOfTheAttemptBefore(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := 0
	h.r.o.Exec = func(context.Context, Command) (Ended, error) {
		if ran++; ran == 2 {
			cancel()
			return Ended{}, context.Canceled
		}
		return Ended{3, "the disk is full"}, nil
	}
	set := h.set("a: {cmd.run: {command: x}, retry: {attempts: 2, interval: 1ms}}")
	result, err := h.r.Run(ctx, Request{Set: set})
	must(t, err)
	h.wants(result, "a: failed intended")
	if text := result.States[0].Comment; ran != 2 || !strings.Contains(text, "canceled") || !strings.Contains(text, "the disk is full") {
		t.Errorf("after %d attempts: %q", ran, text)
	}
}

// The run is canceled while a state fails for a reason of its own.
func TestACanceledStateKeepsItsError(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.r.o.Exec = func(context.Context, Command) (Ended, error) {
		cancel()
		return Ended{}, errors.New("no such program")
	}
	result, err := h.r.Run(ctx, Request{Set: h.set("a: {cmd.run: {command: x}, onlyif: y}")})
	must(t, err)
	h.wants(result, "a: skipped canceled")
	if text := result.States[0].Comment; !strings.Contains(text, "no such program") {
		t.Errorf("comment %q", text)
	}
}

// A state of packages goes on after the run was canceled, but not if it requires what the cancel has kept from running.
func TestWhatRequiresACanceledStateIsSkipped(t *testing.T) {
	h := newHost(t)
	x := newRun(h.r, Request{Set: h.set("a: {cmd.run: {command: x}}\nb: {cmd.run: {command: y}, require: [a]}")}, newMemory())
	for why, want := range map[Reason]Reason{
		Canceled: RequireFailed, FailHard: RequireFailed, RequireFailed: RequireFailed, OnlyIf: "", Disabled: "",
	} {
		x.done["a"] = &Outcome{State: "a", Result: Skipped, Reason: why}
		if got, _ := x.mayRun(x.q.Set[1]); got != want {
			t.Errorf("after %s it is skipped by %q, want %q", why, got, want)
		}
	}
}

func TestOneRunAtATime(t *testing.T) {
	h := newHost(t)
	began, release := make(chan bool), make(chan bool)
	h.r.o.Exec = func(context.Context, Command) (Ended, error) {
		began <- true
		<-release
		return Ended{}, nil
	}
	set := h.set("a: {cmd.run: {command: x}}")
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := h.r.Run(t.Context(), Request{Set: set})
			done <- err
		}()
	}
	<-began
	// A third one gives up waiting.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.r.Run(ctx, Request{Set: set, Test: true}); err == nil || !strings.Contains(err.Error(), "another run of states holds") {
		t.Errorf("a run beside another: %v", err)
	}
	select {
	case <-began:
		t.Error("two runs at once")
	default:
	}
	release <- true
	<-began
	release <- true
	must(t, errors.Join(<-done, <-done))
}

func TestWhatIsStoredOfStatesThatAreGoneIsRemoved(t *testing.T) {
	h := newHost(t)
	failing := strings.Replace(web, `"echo reload >> DIR/log"`, "'false'", 1)
	h.run(failing, false)
	one := h.set("conf: {file.managed: {path: DIR/conf, content: one}}")
	for _, whole := range []bool{false, true} {
		want := 1
		if whole {
			want = 0
		}
		h.run(failing, false)
		r, err := h.r.Run(t.Context(), Request{Set: one, Whole: whole})
		must(t, err)
		if len(r.Owed) != want {
			t.Errorf("after a run of one state (whole: %v) %v is owed", whole, r.Owed)
		}
	}
	must(t, os.WriteFile(h.dir+"/conf", []byte("by hand"), 0o644))
	h.run(failing, false)
	broken := []state.Broken{{Name: "log", Err: errors.New("no such function")}}
	r, err := h.r.Run(t.Context(), Request{Set: one, Broken: broken, Whole: true})
	must(t, err)
	if len(r.Owed) != 1 {
		t.Errorf("while its state cannot be used %v is owed", r.Owed)
	}
}

func TestDamagedMemoryIsNotTakenForNone(t *testing.T) {
	h := newHost(t)
	must(t, os.MkdirAll(h.dir+"/.state", 0o700))
	must(t, os.WriteFile(h.dir+"/.state/memory.json", []byte("{"), 0o600))
	if _, err := h.r.Run(t.Context(), Request{Set: h.set(web)}); err == nil || !strings.Contains(err.Error(), "cannot read what states owe") {
		t.Error(err)
	}
}

func TestAResultIsFitIntoAReturn(t *testing.T) {
	h := newHost(t)
	must(t, os.WriteFile(h.dir+"/f", []byte(strings.Repeat("a\n", 200)), 0o644))
	r := h.run("f: {file.managed: {path: DIR/f, content: '"+strings.Repeat("b", 400)+"'}}\nu: {file.managed: {path: DIR/f2, content: ''}}\ng: {cmd.run: {command: 'exit 3'}}", false)
	if b := r.Brief(); len(b.States) != 3 || len(h.run("f: {file.managed: {path: DIR/f2, content: ''}}", false).Brief().States) != 0 {
		t.Errorf("%v", verdicts(b))
	}
	r.States[0].Changes[0].Diff = strings.Repeat("-a\n", 200) // none is made below the directory of a test, which is closed to others
	r.Fit(r.size() - 1)
	if d := r.States[0].Changes[0].Diff; d != "(left out: the result is too large)" {
		t.Errorf("the diff is %q", d)
	}
}

// A directory that is cleaned holds what other states of the peel make, whatever their function.
func TestACleanedDirectoryKeepsWhatOtherStatesOwn(t *testing.T) {
	h := newHost(t)
	h.r.o.Files.Tree = func(string) ([]string, error) { return []string{"a", "sub/b"}, nil }
	for _, name := range []string{"files/conf/a", "files/conf/sub/b", "app/conf.d/extra", "app/conf.d/sub/extra", "app/stray"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(h.dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(h.dir, name), []byte(name), 0o644))
	}
	text := "app: {file.directory: {path: DIR/app, clean: true}}\ntree: {file.recurse: {path: DIR/app/conf.d, source: files/conf}}"
	h.wants(h.run(text, false), "app: changed intended", "tree: changed intended")
	h.wants(h.run(text, true), "app: unchanged", "tree: unchanged")
	h.wants(h.run(text, false), "app: unchanged", "tree: unchanged")
	for name, want := range map[string]bool{"conf.d/a": true, "conf.d/sub/b": true, "conf.d/extra": false, "conf.d/sub/extra": false, "stray": false} {
		if _, err := os.Stat(filepath.Join(h.dir, "app", name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// While the names of the tree are not known, nothing in it is removed.
	must(t, os.WriteFile(filepath.Join(h.dir, "app/conf.d/extra"), nil, 0o644))
	h.r.o.Files.Tree = func(string) ([]string, error) { return nil, errors.New("no names") }
	h.wants(h.run(text, true), "app: unchanged", "tree: failed")
}

func TestACleanedDirectoryKeepsTheFilesOfPackageRepositories(t *testing.T) {
	h := newHost(t)
	x := newRun(h.r, Request{Set: h.set("r: {pkgrepo.managed: {file: corp, uris: [\"https://x\"], suites: [a]}}")}, newMemory())
	for name, want := range map[string]bool{
		"/etc/apt/sources.list.d/corp.sources": true, "/etc/apt/keyrings/corp.gpg": true, "/etc/apt/keyrings/corp.asc": true,
		"/etc/yum.repos.d/corp.repo": true, "/etc/pki/rpm-gpg/RPM-GPG-KEY-corp": true, "/etc/apt": true,
		"/etc/apt/sources.list.d/other.sources": false, "/etc/apt/keyrings/corp": false,
	} {
		if x.owned(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// A commit or a fact that changes what a template gives is no change of the host.
func TestTheCauseIsTheCommitIfATemplateGivesAnotherText(t *testing.T) {
	h := newHost(t)
	value := func(v string) { h.r.o.Files.Data = map[string]any{"settings": map[string]any{"note": v}} }
	h.r.o.Files.Tree = func(string) ([]string, error) { return []string{"b"}, nil }
	must(t, os.MkdirAll(h.dir+"/files/t", 0o755))
	must(t, os.WriteFile(h.dir+"/files/a", []byte("{{settings.note}}"), 0o644))
	must(t, os.WriteFile(h.dir+"/files/t/b", []byte("{{settings.note}}"), 0o644))
	const text = `
a: {file.managed: {path: DIR/a, source: files/a, template: true}}
c: {file.managed: {path: DIR/c, content: "{{settings.note}}", template: true}}
t: {file.recurse: {path: DIR/t, source: files/t, template: true}}
x: {cmd.run: {command: "true"}, onchanges: [a]}`
	value("one")
	h.wants(h.run(text, false), "a: changed intended", "c: changed intended", "t: changed intended", "x: changed intended")
	value("two")
	for _, test := range []bool{true, false} {
		changed := map[bool]string{true: "would_change", false: "changed"}[test]
		h.wants(h.run(text, test), "a: "+changed+" intended", "c: "+changed+" intended", "t: "+changed+" intended", "x: "+changed+" intended")
	}
	for _, name := range []string{"/a", "/c", "/t/b"} {
		must(t, os.WriteFile(h.dir+name, []byte("by hand"), 0o644))
	}
	h.wants(h.run(text, false), "a: changed drift", "c: changed drift", "t: changed drift", "x: changed drift")
	// A content without a template.
	must(t, os.WriteFile(h.dir+"/files/a", []byte("new"), 0o644))
	h.wants(h.run(text, false), "a: changed intended", "c: unchanged", "t: unchanged", "x: changed intended")
}

// What is stored of a reaction is about one change, and goes with the state.
func TestWhatWasDoneForAnEarlierChangeIsForgotten(t *testing.T) {
	m := newMemory()
	m.act("service", "stamp")
	m.owe("file", []string{"service"})
	if m.Acted["service"] != "" || !slices.Equal(m.Owed["service"], []string{"file"}) {
		t.Errorf("a new change: %+v", m)
	}
	m.act("service", "stamp")
	if !m.settle("service") || len(m.Acted)+len(m.Owed) != 0 {
		t.Errorf("settled: %+v", m)
	}
	m.act("service", "stamp")
	if m.settle("service") || len(m.Acted) != 0 {
		t.Errorf("settled with nothing owed: %+v", m)
	}
	m.begin("gone")
	m.begin("stays")
	m.keep(Request{Set: state.Set{{Name: "stays"}}})
	if _, begun := m.Begun["gone"]; begun || m.Begun["stays"] != 1 {
		t.Errorf("kept: %+v", m.Begun)
	}
}

// A state that does not run because another failed is no failure of its own.
func TestFailHardIsOfAStateThatFails(t *testing.T) {
	h := newHost(t)
	r := h.run("a: {cmd.run: {command: 'false'}}\nb: {cmd.run: {command: 'true'}, require: [a], failhard: true}\nc: {cmd.run: {command: 'true'}}", false)
	h.wants(r, "a: failed intended", "b: skipped require_failed", "c: changed intended")
}

// A reaction that is made later is to the commit that it was owed for.
func TestTheCauseOfALateReactionIsItsCommit(t *testing.T) {
	h := newHost(t)
	text := func(content string) string {
		return "a: {file.managed: {path: DIR/a, content: " + content + "}}\nb: {cmd.run: {command: 'test ! -e DIR/broken'}, onchanges: [a]}"
	}
	h.wants(h.run(text("one"), false), "a: changed intended", "b: changed intended")
	must(t, os.WriteFile(h.dir+"/broken", nil, 0o600))
	h.wants(h.run(text("two"), false), "a: changed intended", "b: failed intended")
	must(t, os.Remove(h.dir+"/broken"))
	h.wants(h.run(text("two"), false), "a: unchanged", "b: changed intended")
}

// A state that names the file that it is in depends on the others there.
func TestAStateDoesNotReactToItself(t *testing.T) {
	h := newHost(t)
	q := Request{Set: h.set("a: {file.managed: {path: DIR/a, content: x}}\nb: {cmd.run: {command: 'true'}, onchanges: [a]}")}
	q.Set[1].OnChanges = []string{"file:f"}
	q.Files = func(string) []string { return []string{"a", "b"} }
	x := newRun(h.r, q, newMemory())
	if !slices.Equal(x.reactors["a"], []string{"b"}) || len(x.reactors["b"]) != 0 {
		t.Errorf("%v", x.reactors)
	}
}

// What a state that cannot be used would make is not known, so that all below its paths stays.
func TestAllBelowAStateThatCannotBeUsedStays(t *testing.T) {
	h := newHost(t)
	x := newRun(h.r, Request{OthersBroken: []state.Broken{{Name: "new", Paths: []string{"/srv/app"}}}}, newMemory())
	for name, want := range map[string]bool{"/srv/app": true, "/srv/app/a/b": true, "/srv": true, "/srv/apple": false} {
		if x.owned(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// A state does not run after a failure of one that it requires, watches or reacts to, from whichever side that is said.
func TestNoRequisiteRunsAfterAFailure(t *testing.T) {
	for _, c := range []struct{ first, second string }{
		{"", "require: [a]"},
		{"", "watch: [a]"},
		{"", "onchanges: [a]"},
		{"require_in: [b]", ""},
		{"watch_in: [b]", ""},
		{"onchanges_in: [b]", ""},
	} {
		h := newHost(t)
		state := func(name, command, requisite string) string {
			return strings.TrimSuffix(name+": {cmd.run: {command: '"+command+"'}, "+requisite, ", ") + "}\n"
		}
		r := h.run(state("a", "false", c.first)+state("b", "true", c.second), false)
		h.wants(r, "a: failed intended", "b: skipped require_failed")
	}
}
