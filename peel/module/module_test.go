package module_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestCallsThatDoNotFitTheFunctionAreRefusedByName(t *testing.T) {
	r := module.New()
	for _, c := range []struct {
		function string
		call     module.Call
		want     string
	}{
		{"test.pign", module.Call{}, `no such function "test.pign"; did you mean "test.ping"?`},
		{"nonsense", module.Call{}, `no such function "nonsense"`},
		{"settings.get", module.Call{}, `no such function "settings.get"`}, // in the catalogue, not in this registry
		{"test.ping", module.Call{ID: "x"}, `test.ping: takes no argument without a name, but was given "x"`},
		{"test.ping", module.Call{Args: map[string]any{"a": 1}}, `test.ping: argument a: unknown; the function takes none`},
		{"test.echo", module.Call{}, `test.echo: argument text is missing: what to return`},
		{"test.echo", module.Call{Args: map[string]any{"text": nil}}, `test.echo: argument text is missing: what to return`},
		{"test.echo", module.Call{ID: "a", Args: map[string]any{"text": "b"}}, `test.echo: argument text is given twice`},
		{"test.echo", module.Call{Args: map[string]any{"text": int64(5)}}, `test.echo: argument text: must be a string, not a whole number (5); put it in quotes`},
		{"test.sleep", module.Call{ID: "5"}, `test.sleep: argument duration: cannot parse duration "5": 5 has no unit; write 5s for seconds, 5m for minutes`},
		{"test.sleep", module.Call{Args: map[string]any{"duration": int64(5)}}, `test.sleep: argument duration: must be a duration like 90s, 5m or 1d12h, not a whole number (5); write 5s for seconds, 5m for minutes`},
		{"cmd.run", module.Call{Args: map[string]any{"comand": "true"}}, `cmd.run: argument comand: unknown; did you mean "command"?`},
		{"cmd.run", module.Call{ID: "true", Args: map[string]any{"zzz": "true"}}, `cmd.run: argument zzz: unknown; known are command, argv, shell, timeout, env, cwd, user, stdin, max_output`},
		{"cmd.run", module.Call{ID: "true", Args: map[string]any{"env": map[string]any{"PORT": 80}}}, `cmd.run: argument env: PORT: must be a string, not a whole number (•••); put it in quotes`},
		{"cmd.run", module.Call{Args: map[string]any{"argv": "ls"}}, `cmd.run: argument argv: must be a list, not a string (ls)`},
		{"cmd.run", module.Call{Args: map[string]any{"argv": []any{"ls", nil}}}, `cmd.run: argument argv: [1]: must not be null`},
		{"cmd.run", module.Call{}, `cmd.run: give command or argv`},
		{"cmd.run", module.Call{ID: "a", Args: map[string]any{"argv": []any{"b"}}}, `cannot run the command: give command or argv, not both`},
		{"cmd.run", module.Call{Args: map[string]any{"argv": []any{"b"}, "shell": "/bin/sh"}}, `cannot run the command: argv runs without a shell`},
		{"cmd.run", module.Call{ID: "a", Args: map[string]any{"cwd": "tmp"}}, `cannot run the command: cwd must be an absolute path, not "tmp"`},
		{"cmd.run", module.Call{ID: "a", Args: map[string]any{"user": "no such"}}, `cannot run the command: no such user "no such"`},
		{"cmd.run", module.Call{ID: "a", Args: map[string]any{"env": map[string]any{"a=b": "c"}}}, `cannot run the command: "a=b" cannot be the name of an environment variable`},
		{"cmd.run", module.Call{ID: "a", Args: map[string]any{"max_output": 1 << 30}}, `cannot run the command: max_output must be 1 to 458752, not 1073741824`},
		{"sys.doc", module.Call{ID: "cdm.run"}, `no such function "cdm.run"; did you mean "cmd.run"?`},
	} {
		if got := r.Call(t.Context(), c.function, c.call); got.Success || got.Error != c.want {
			t.Errorf("%s %+v:\ngot  %s\nwant %s", c.function, c.call, got.Error, c.want)
		}
	}
}

func TestAllErrorsOfACallAreNamedAtOnce(t *testing.T) {
	got := module.New().Call(t.Context(), "cmd.run", module.Call{ID: "true", Args: map[string]any{"stdin": true, "timeot": "5s"}})
	want := "cmd.run: argument stdin: must be a string, not true or false (•••); put it in quotes\n" +
		`cmd.run: argument timeot: unknown; did you mean "timeout"?`
	if got.Error != want {
		t.Errorf("got  %s\nwant %s", got.Error, want)
	}
}

func TestAPanicIsAFailedResult(t *testing.T) {
	r := module.New()
	r.Add("facts.items", func(context.Context, module.Call) wire.Result { panic("boom") })
	got := r.Call(t.Context(), "facts.items", module.Call{})
	data, _ := got.Data.(map[string]any)
	if stack, _ := data["stack"].(string); got.Success || got.Error != "facts.items panicked: boom" || !strings.Contains(stack, "module_test.go") {
		t.Errorf("%+v", got)
	}
}

func TestDataIsNormalised(t *testing.T) {
	r := module.New()
	r.Add("facts.items", func(context.Context, module.Call) wire.Result {
		return wire.Result{Success: true, Data: struct {
			N    int      `json:"n"`
			List []string `json:"list"`
			None string   `json:"none,omitempty"`
		}{7, []string{"a"}, ""}}
	})
	r.Add("facts.get", func(context.Context, module.Call) wire.Result {
		return wire.Result{Success: true, Data: make(chan int)}
	})
	got := r.Call(t.Context(), "facts.items", module.Call{})
	if want := map[string]any{"n": int64(7), "list": []any{"a"}}; !reflect.DeepEqual(got.Data, want) {
		t.Errorf("%#v", got.Data)
	}
	got = r.Call(t.Context(), "facts.get", module.Call{ID: "os"})
	if got.Success || !strings.Contains(got.Error, "facts.get returned data that cannot be sent") {
		t.Errorf("a channel was sent: %+v", got)
	}
}

func TestAFunctionGetsItsArgumentsInOneShape(t *testing.T) {
	r := module.New()
	var got module.Call
	r.Add("facts.get", func(_ context.Context, call module.Call) wire.Result {
		got = call
		return wire.Result{Success: true}
	})
	want := module.Call{Args: map[string]any{"key": "os"}}
	for _, call := range []module.Call{{ID: "os"}, {Args: map[string]any{"key": "os"}}, {Args: map[string]any{"key": []byte("os")}}} {
		if r.Call(t.Context(), "facts.get", call); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v arrived as %+v", call, got)
		}
	}
}

func TestAddRefusesWhatTheCatalogueHasNot(t *testing.T) {
	for _, name := range []string{"facts.itemz", "cmd.run"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was added", name)
				}
			}()
			module.New().Add(name, nil)
		}()
	}
}

func TestTheTestFunctions(t *testing.T) {
	r := module.New()
	if got := r.Call(t.Context(), "test.ping", module.Call{}); !got.Success || got.Data != true {
		t.Errorf("ping: %+v", got)
	}
	if got := r.Call(t.Context(), "test.echo", module.Call{ID: "a\x00\xff"}); !got.Success || got.Data != "a\x00\xff" {
		t.Errorf("echo: %+v", got)
	}
	if got := r.Call(t.Context(), "test.fail", module.Call{ID: "as asked"}); got.Success || got.Error != "as asked" {
		t.Errorf("fail: %+v", got)
	}
}

func TestSleepTakesItsTimeAndCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := module.New()
		if got := r.Call(t.Context(), "test.sleep", module.Call{ID: "1d"}); !got.Success || got.Duration != 24*time.Hour {
			t.Errorf("%+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := r.Call(ctx, "test.sleep", module.Call{ID: "1h"})
		if got.Success || got.Duration != time.Minute || got.Error != "stopped after 1m0s of 1h0m0s: context deadline exceeded" {
			t.Errorf("%+v", got)
		}
	})
}

func TestSysDescribesWhatIsThere(t *testing.T) {
	r := module.New()
	got, _ := r.Call(t.Context(), "sys.list_functions", module.Call{}).Data.([]any)
	if !slices.Contains(got, any("cmd.run")) || slices.Contains(got, any("facts.get")) || len(got) != len(r.Names()) {
		t.Errorf("%v", got)
	}
	all, _ := r.Call(t.Context(), "sys.doc", module.Call{}).Data.(map[string]any)
	if len(all) != len(got) {
		t.Errorf("%d docs of %d functions", len(all), len(got))
	}
	some, _ := r.Call(t.Context(), "sys.doc", module.Call{ID: "test"}).Data.(map[string]any)
	sleep, _ := some["test.sleep"].(map[string]any)
	if len(some) != 4 || sleep["read_only"] != true || len(sleep["params"].([]any)) != 1 {
		t.Errorf("%v", some)
	}
}

func FuzzCallsNeverPanic(f *testing.F) {
	r := module.New()
	f.Add("test.sleep", "duration", "5s", int64(0))
	f.Add("cmd.run", "env", "", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, function, key, text string, n int64) {
		if function == "cmd.run" || function == "test.sleep" {
			key += "?" // so that nothing runs
		}
		for _, v := range []any{nil, text, n, []any{text, n}, map[string]any{text: n}} {
			if got := r.Call(t.Context(), function, module.Call{Args: map[string]any{key: v}}); strings.Contains(got.Error, "panicked") {
				t.Errorf("%s %s=%v: %s", function, key, v, got.Error)
			}
		}
	})
}

func BenchmarkPing(b *testing.B) {
	r := module.New()
	for b.Loop() {
		if got := r.Call(b.Context(), "test.ping", module.Call{}); !got.Success {
			b.Fatal(got.Error)
		}
	}
}
