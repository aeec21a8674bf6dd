package daemon

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestFlagsOfACommandStandBeforeAndBehindItsArgument(t *testing.T) {
	for _, args := range [][]string{
		{"file.age", "--to", "ada", "--repo=there"},
		{"--to", "ada", "--repo=there", "file.age"},
		{"--to=ada", "file.age", "--repo", "there"},
		{"--to=ada", "--repo", "there", "--", "file.age"},
	} {
		cfg := newSample()
		to := ""
		c := Command{
			Name: "save", Argument: "FILE", Config: cfg,
			Flags: func(fs *flag.FlagSet) { fs.StringVar(&to, "to", "", "save for `NAME`") },
		}
		p := program{prefix: "ZESTER_", args: append(slices.Clone(args), "--config="+write(t, "repo: file\nreplicas: 3\n"))}
		if args[len(args)-2] == "--" {
			p.args = append([]string{p.args[len(p.args)-1]}, args...)
		}
		argument, err := c.load(&p)
		if err != nil || argument != "file.age" || to != "ada" || cfg.Repo != "there" || cfg.Replicas != 3 {
			t.Errorf("%q: argument %q, to %q, %+v, %v", args, argument, to, cfg, err)
		}
	}
}

func TestACommandExplainsItsUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "zester: cannot use 0 arguments: zester-sample save needs one, FILE\nhint: zester-sample save --help shows the flags\n"},
		{[]string{"a", "b"}, exitUsage, "zester: cannot use 2 arguments: zester-sample save needs one, FILE\n"},
		{[]string{"a", "--two"}, exitUsage, "zester: flag provided but not defined: -two\n"},
		{[]string{"a"}, exitOK, ""},
		{[]string{"a", "--config=/nowhere"}, exitFailed, "zester: cannot read the configuration: open /nowhere"},
	} {
		var out, errOut bytes.Buffer
		ran := ""
		command := Command{
			Name: "save", Argument: "FILE", Config: newSample(), Flags: func(*flag.FlagSet) {},
			Run: func(_ context.Context, argument string, _ io.Writer, _ *slog.Logger) error {
				ran = argument
				return nil
			},
		}
		p := program{
			name: "zester-sample", prefix: "ZESTER_", args: append([]string{"save"}, c.args...), commands: []Command{command}, out: &out, errOut: &errOut,
		}
		if code := p.main(); code != c.code || !strings.HasPrefix(errOut.String(), c.want) || (ran == "a") != (code == exitOK) {
			t.Errorf("%q: code %d, ran %q, wrote %s", c.args, code, ran, errOut.String())
		}
	}
}
