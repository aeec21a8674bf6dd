package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// invoke runs a program with the sample's configuration and returns what it wrote.
func invoke(t *testing.T, run work, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	p := program{name: "zester-sample", prefix: "ZESTER_", args: args, out: &o, errOut: &e, defaults: func() Config {
		s := newSample()
		s.work = &run
		return s
	}}
	return p.main(), o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	stopped := errors.New("the bus is gone")
	end := func(err error) work {
		return func(context.Context, func()) error { return err }
	}
	started := func(context.Context, func()) error {
		t.Error("started")
		return nil
	}
	for _, c := range []struct {
		name        string
		run         work
		args        []string
		code        int
		out, errOut string
	}{
		{"help", started, []string{"--help"}, 0, "usage: zester-sample", ""},
		{"check", started, []string{"--check", "--repo=there"}, 0, "the configuration of sample of there is valid\n", ""},
		{"check of what is wrong as a whole", started, []string{"--check", "--replicas=0"}, 1, "", "zester: cannot keep less than one copy\n"},
		{"check of a wrong file", started, []string{"--check", "--config=/nowhere"}, 1, "", "zester: cannot read the configuration: open /nowhere"},
		{"wrong as a whole", started, []string{"--replicas=0"}, 1, "", "zester: cannot keep less than one copy\n"},
		{"wrong usage", started, []string{"--replica=1"}, 64, "", "hint: zester-sample --help"},
		{"an end", end(nil), nil, 0, "", ""},
		{"an error", end(stopped), nil, 1, "", "zester: the bus is gone\n"},
		{"an error after which no restart helps", end(&FinalError{stopped}), nil, 78, "", "zester: the bus is gone\n"},
		{"canceled though nobody asked for it", end(context.Canceled), nil, 1, "", "zester: context canceled\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errOut := invoke(t, c.run, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, s := range []struct{ got, want string }{{out, c.out}, {errOut, c.errOut}} {
				if s.want == "" && s.got != "" || !strings.Contains(s.got, s.want) {
					t.Errorf("wrote %q, want %q", s.got, s.want)
				}
			}
		})
	}
}

func TestFlawsFailACheckAndNotAStart(t *testing.T) {
	ran := false
	var run work = func(context.Context, func()) error {
		ran = true
		return nil
	}
	for args, want := range map[string]int{"--check": 1, "--replicas=1": 0} {
		var out, errOut bytes.Buffer
		p := program{name: "zester-sample", prefix: "ZESTER_", args: []string{args}, out: &out, errOut: &errOut, defaults: func() Config {
			s := newSample()
			s.work, s.odd = &run, errors.New("sample.yaml:3:1: an odd entry")
			return s
		}}
		if code := p.main(); code != want || ran != (want == 0) || out.Len() > 0 {
			t.Errorf("%s: exit code %d, ran %v, %q", args, code, ran, &out)
		}
		if !strings.Contains(errOut.String(), "sample.yaml:3:1: an odd entry") {
			t.Errorf("%s: %q", args, &errOut)
		}
		ran = false
	}
}

func TestHelpListsFlagsWithTheirDefaults(t *testing.T) {
	_, out, _ := invoke(t, nil, "-h")
	for _, want := range []string{"-poll TIME", "(default 30s)", "-config FILE", "-check", "ZESTER_DATA_DIR"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestFilesLieInTheStateDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		if got := DataDir(); got != "/var/lib/zester" {
			t.Errorf("root's is %s", got)
		}
		return
	}
	for _, c := range []struct{ state, home, want string }{
		{"/state", "/home/ada", "/state/zester"},
		{"", "/home/ada", "/home/ada/.local/state/zester"},
		{"relative", "/home/ada", "/home/ada/.local/state/zester"},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got := DataDir(); got != c.want {
			t.Errorf("with %+v: %s", c, got)
		}
	}
}

func TestErrorsOfTheBusAreToldInPlainWords(t *testing.T) {
	var errOut bytes.Buffer
	p := program{name: "zester-sample", errOut: &errOut}
	p.logger().Warn("heartbeat not written", "err", fmt.Errorf("heartbeat of m1: %w", nats.ErrReconnectBufExceeded))
	code := p.fail(fmt.Errorf("cannot open the streams: %w", nats.ErrConnectionClosed))
	if code != exitFailed || !strings.Contains(errOut.String(), `"err":"heartbeat of m1: the bus is away"`) ||
		!strings.Contains(errOut.String(), "\nzester: cannot open the streams: the connection to the bus is closed\nhint: is its server") {
		t.Errorf("%d: %s", code, &errOut)
	}
}

func TestAnErrorAboutAValueSaysWhereItComesFrom(t *testing.T) {
	file := write(t, "repo: file\n")
	other := write(t, "replicas: 3\n")
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{nil, nil, "the default"},
		{[]string{"--repo=x"}, map[string]string{"ZESTER_REPO": "y"}, "the flag --repo"},
		{[]string{"--config", file}, map[string]string{"ZESTER_REPO": "y"}, "the variable ZESTER_REPO"},
		{[]string{"--config", file}, nil, "the file " + file},
		{nil, map[string]string{"ZESTER_CONFIG": file}, "the file " + file},
		{[]string{"--config", other}, nil, "the default"},
	} {
		t.Run(c.want, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			run := func(context.Context, func()) error {
				return &ValueError{Flag: "repo", Err: errors.New("it is a bad one")}
			}
			code, _, errOut := invoke(t, run, c.args...)
			if want := "zester: it is a bad one\nhint: the value comes from " + c.want + "; --repo sets another\n"; code != 1 || !strings.HasSuffix(errOut, want) {
				t.Errorf("%d, %q", code, errOut)
			}
		})
	}
}
