package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample is a configuration with a field of each kind that the daemons use.
type sample struct {
	Repo     string        `yaml:"repo"`
	Poll     time.Duration `yaml:"poll"`
	Replicas int           `yaml:"replicas"`
	LogLevel slog.Level    `yaml:"log_level"`

	work *work // what the daemon does
	odd  error // what is wrong with it
}

type work func(ctx context.Context, ready func()) error

func (s *sample) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.Repo, "repo", s.Repo, "follow `URL`")
	DurationVar(fs, &s.Poll, "poll", "ask every `TIME`")
	fs.IntVar(&s.Replicas, "replicas", s.Replicas, "keep `N` copies")
	fs.TextVar(&s.LogLevel, "log-level", s.LogLevel, "log from `LEVEL` on")
}

func (s *sample) Level() slog.Level { return s.LogLevel }

func (s *sample) Prepare(*slog.Logger) (Daemon, error) {
	if s.Replicas < 1 {
		return Daemon{}, errors.New("cannot keep less than one copy")
	}
	return Daemon{Name: "sample of " + s.Repo, Flaws: s.odd, Run: *s.work}, nil
}

func newSample() *sample { return &sample{Repo: "default", Poll: 30 * time.Second, Replicas: 1} }

// write makes a configuration file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALaterSourceWins(t *testing.T) {
	const file = "repo: file\npoll: 1d\nreplicas: 3\nlog_level: warn\n"
	all := map[string]string{"ZESTER_REPO": "env", "ZESTER_POLL": "5m", "ZESTER_REPLICAS": "5", "ZESTER_LOG_LEVEL": "error"}
	for _, c := range []struct {
		name string
		file string
		env  map[string]string
		args []string
		want sample
	}{
		{"defaults", "", nil, nil, sample{Repo: "default", Poll: 30 * time.Second, Replicas: 1}},
		{"an empty file", "# nothing\n", nil, nil, sample{Repo: "default", Poll: 30 * time.Second, Replicas: 1}},
		{"file", file, nil, nil, sample{"file", 24 * time.Hour, 3, slog.LevelWarn, nil, nil}},
		{"a part of the file", "poll: 1m30s\n", nil, nil, sample{Repo: "default", Poll: 90 * time.Second, Replicas: 1}},
		{"environment", "", all, nil, sample{"env", 5 * time.Minute, 5, slog.LevelError, nil, nil}},
		{"environment over file", file, all, nil, sample{"env", 5 * time.Minute, 5, slog.LevelError, nil, nil}},
		{
			"flags over both", file, all,
			[]string{"--repo=flag", "--poll", "1d12h", "-replicas", "7", "--log-level=debug"},
			sample{"flag", 36 * time.Hour, 7, slog.LevelDebug, nil, nil},
		},
		{
			"each from elsewhere", "repo: file\nreplicas: 3\npoll: 2s\n",
			map[string]string{"ZESTER_REPO": "env", "ZESTER_REPLICAS": "5"},
			[]string{"--repo=flag"},
			sample{"flag", 2 * time.Second, 5, slog.LevelInfo, nil, nil},
		},
		{"an empty variable is a value", file, map[string]string{"ZESTER_REPO": ""}, nil, sample{"", 24 * time.Hour, 3, slog.LevelWarn, nil, nil}},
		{"an empty flag is a value", file, all, []string{"--repo="}, sample{"", 5 * time.Minute, 5, slog.LevelError, nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			if c.file != "" {
				c.args = append(c.args, "--config="+write(t, c.file))
			}
			got := newSample()
			check, err := load(c.args, "ZESTER_", got)
			if err != nil || check {
				t.Fatalf("check is %v, error %v", check, err)
			}
			if *got != c.want {
				t.Errorf("got %+v, want %+v", *got, c.want)
			}
		})
	}
}

func TestTheFileCanBeNamedByAVariable(t *testing.T) {
	t.Setenv("ZESTER_CONFIG", write(t, "repo: named by the variable\n"))
	t.Setenv("ZESTER_CHECK", "true")
	got := newSample()
	check, err := load(nil, "ZESTER_", got)
	if err != nil || !check || got.Repo != "named by the variable" {
		t.Errorf("check %v, repo %q, error %v", check, got.Repo, err)
	}
	if _, err := load([]string{"--config", write(t, "repo: named by the flag\n")}, "ZESTER_", got); err != nil || got.Repo != "named by the flag" {
		t.Errorf("repo %q, error %v", got.Repo, err)
	}
}

func TestAProgramReadsOnlyVariablesWithItsPrefix(t *testing.T) {
	t.Setenv("ZESTER_REPO", "of another program")
	t.Setenv("ZESTER_SAMPLE_REPLICAS", "2")
	got := newSample()
	if _, err := load(nil, "ZESTER_SAMPLE_", got); err != nil || got.Repo != "default" || got.Replicas != 2 {
		t.Errorf("repo %q, replicas %d, error %v", got.Repo, got.Replicas, err)
	}
}

func TestBadValuesAreNamedWhereTheyStand(t *testing.T) {
	for _, c := range []struct {
		name, file string
		env, args  []string
		usage      bool
		want       []string
	}{
		{name: "unknown key", file: "repo: a\npol: 5m\n", want: []string{"sample.yaml:2:1", "pol", `did you mean "poll"?`}},
		{name: "wrong type", file: "replicas: many\n", want: []string{"sample.yaml:1:11", "replicas", "many"}},
		{name: "a port alone", file: "listen: 34222\n", want: []string{"sample.yaml:1:9", "HOST:PORT, such as 0.0.0.0:34222"}},
		{name: "no blank", file: "repo:/x\n", want: []string{"sample.yaml:1:1", "write a blank after the colon"}},
		{name: "no unit", file: "repo: a\npoll: 30\n", want: []string{"sample.yaml:2:7", "poll", "30s"}},
		{name: "level", file: "log_level: loud\n", want: []string{"sample.yaml:1:12", "log_level", "loud"}},
		{name: "all at once", file: "pol: 1\nreplicas: x\n", want: []string{"sample.yaml:1:1", "sample.yaml:2:11"}},
		{name: "twice", file: "repo: a\nrepo: b\n", want: []string{"sample.yaml:2:1", "repo"}},
		{name: "no YAML", file: "repo: [a\n", want: []string{"sample.yaml:"}},
		{name: "no map", file: "- a\n", want: []string{"sample.yaml:1:1"}},
		{name: "variable", env: []string{"ZESTER_POLL=soon"}, want: []string{`ZESTER_POLL="soon"`, "5m"}},
		{name: "variables", env: []string{"ZESTER_POLL=1", "ZESTER_REPLICAS=x"}, want: []string{"ZESTER_POLL", "ZESTER_REPLICAS"}},
		{name: "variable that a flag overrides", env: []string{"ZESTER_POLL=soon"}, args: []string{"--poll=5m"}, want: []string{"ZESTER_POLL"}},
		{name: "flag", args: []string{"--poll=soon"}, usage: true, want: []string{`"soon"`, "-poll", "5m"}},
		{name: "unknown flag", args: []string{"--pol=5m"}, usage: true, want: []string{"-pol"}},
		{name: "flag without its value", args: []string{"--repo"}, usage: true, want: []string{"-repo"}},
		{name: "argument", args: []string{"--repo=a", "b"}, usage: true, want: []string{`"b"`}},
		{name: "no such file", args: []string{"--config=/nowhere/zester.yaml"}, want: []string{"/nowhere/zester.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range c.env {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			if c.file != "" {
				c.args = append(c.args, "--config="+write(t, c.file))
			}
			_, err := load(c.args, "ZESTER_", newSample())
			if err == nil {
				t.Fatal("taken")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			if _, usage := errors.AsType[*usageError](err); usage != c.usage {
				t.Errorf("wrong usage: %v, want %v: %v", usage, c.usage, err)
			}
		})
	}
}

func TestTheNameInACredential(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	}
	armour := func(jwt string) string {
		return "-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n" +
			"-----BEGIN USER NKEY SEED-----\nSUAAA\n------END USER NKEY SEED------\n"
	}
	name, err := CredentialName(write(t, armour(token(`{"name":"web-01","sub":"U"}`))))
	if err != nil || name != "web-01" {
		t.Errorf("name %q, error %v", name, err)
	}
	for _, bad := range []string{"", "hello", armour("a.b"), armour("a.!.c"), armour(token("{"))} {
		if name, err := CredentialName(write(t, bad)); err == nil || !strings.Contains(err.Error(), "sample.yaml") {
			t.Errorf("%q has the name %q, error %v", bad, name, err)
		}
	}
	if _, err := CredentialName(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
