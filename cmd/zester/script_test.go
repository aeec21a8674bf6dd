package main

import (
	"errors"
	"flag"
	"maps"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// TestMain lets tests run this program as the command zester. They wait for peels more than they compute, so more of
// them run at once than there are processors, unless -parallel says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	testscript.Main(inMemory{m}, map[string]func(){"zester": main})
}

// inMemory runs the tests with their files in memory.
type inMemory struct{ m *testing.M }

func (t inMemory) Run() int { return natstest.InMemory(t.m) }

var dispatched = regexp.MustCompile(`(?m)^job (\S+) on `)

type command = func(ts *testscript.TestScript, not bool, args []string)

var commands = map[string]command{
	"exit": exit,
	// jid: sets JID to the ID of the job that the last command dispatched
	"jid": func(ts *testscript.TestScript, _ bool, _ []string) {
		match := dispatched.FindStringSubmatch(ts.ReadFile("stderr"))
		if match == nil {
			ts.Fatalf("nothing was dispatched")
		}
		ts.Setenv("JID", match[1])
	},
	// env-from-match NAME EXPRESSION: sets a variable to what the group of the expression matches in that
	"env-from-match": func(ts *testscript.TestScript, _ bool, args []string) {
		match := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
		if match == nil {
			ts.Fatalf("nothing matches %s", args[1])
		}
		ts.Setenv(args[0], match[1])
	},
	"until": until,
	// env-from-stdout NAME: sets a variable to what the last command printed
	"env-from-stdout": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
	},
}

// exit runs a command that is to end with a code: exit 64 zester job.
func exit(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// until runs a command until it succeeds and prints what matches: until '^3 of 3' zester sync wait.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	for giveUp := time.Now().Add(patience); ; <-time.After(askInterval) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(giveUp) {
			ts.Fatalf("nothing matches %s after %s, the last time %v:\n%s", args[0], patience, err, ts.ReadFile("stdout"))
		}
	}
}

// TestScripts runs what needs no master.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ZESTER_DATA_DIR", env.WorkDir+"/none")
			return nil
		},
	})
}

// TestFleetScripts runs what asks the fleet and changes nothing in it: all scripts share one.
func TestFleetScripts(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/fleet", Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: f.setUp,
	})
}

// TestSyncScripts runs what commits or revokes and what says that nothing else happened, each script with a fleet of its
// own: while the bus takes in that a credential has ended, what others of its account ask and answer may be lost.
func TestSyncScripts(t *testing.T) {
	t.Parallel()
	type key struct{}
	cmds := maps.Clone(commands)
	// commit message path file: commits the file as that path
	cmds["commit"] = func(ts *testscript.TestScript, _ bool, args []string) {
		f := ts.Value(key{}).(*fleet)
		_, err := f.work.Commit(args[0], map[string][]byte{args[1]: []byte(ts.ReadFile(args[2]))}, ada)
		ts.Check(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/sync", Cmds: cmds, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			f, err := startFleet(env.T().(testing.TB).TempDir())
			if err != nil {
				return err
			}
			env.Values[key{}] = f
			env.Defer(func() {
				if err := f.stop(); err != nil {
					env.T().Fatal(err)
				}
			})
			return f.setUp(env)
		},
	})
}

// setUp lets a script find the fleet: as its operator by itself, and by $URL.
func (f *fleet) setUp(env *testscript.Env) error {
	env.Setenv("ZESTER_DATA_DIR", f.dir)
	env.Setenv("URL", f.url)
	env.Setenv("REPO", f.work.Dir())
	return f.credentials(env.WorkDir)
}
