package main

import (
	"errors"
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets tests run this program as the command zester.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"zester": main})
}

type command = func(ts *testscript.TestScript, not bool, args []string)

var commands = map[string]command{
	"exit": exit,
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

// TestScripts runs what needs no master.
func TestScripts(t *testing.T) {
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
	f, err := startFleet(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/fleet", Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: f.setUp,
	})
}

// TestSyncScripts runs what commits, each script with a fleet of its own.
func TestSyncScripts(t *testing.T) {
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
	return f.credentials(env.WorkDir)
}
