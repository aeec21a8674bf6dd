package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var discard = slog.New(slog.DiscardHandler)

// TestTheExampleNamesEveryField also holds that the example tells each field's default as it is.
func TestTheExampleNamesEveryField(t *testing.T) {
	const path = "../../examples/peel.yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	node, err := strictyaml.Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(*defaults().(*Config))
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("yaml")
		if node.Get(name) == nil {
			t.Errorf("%s is not in the example", name)
			continue
		}
		want := fmt.Sprintf("# Default: %v\n", value.Field(i))
		switch {
		case name == "id", name == "data_dir":
			want = "# Default: "
		case name == "facts", name == "schedule", name == "prompt":
			want = "# Default: none\n"
		case value.Field(i).IsZero() && value.Field(i).Kind() == reflect.String:
			want = `# Default: ""`
		}
		before, _, _ := strings.Cut(string(text), "\n"+name+":")
		_, comment, ok := strings.Cut(before[strings.LastIndex(before, "\n\n")+1:], "# Default: ")
		if !ok || !strings.HasPrefix(strings.ToLower("# Default: "+comment+"\n"), strings.ToLower(want)) {
			t.Errorf("the comment of %s does not say %q", name, want)
		}
	}
	c := defaults().(*Config)
	if err := strictyaml.Decode(node, c); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(discard); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotWorkIsRefusedBeforeTheStart(t *testing.T) {
	for _, c := range []struct {
		name, file, want string
	}{
		{"name", "id: web 01", `"web 01"`},
		{"name of every host", "id: localhost", "localhost"},
		{"workers", "{id: a, workers: 0}", "0 workers"},
		{"zone", "{id: a, schedule_timezone: Mars/Base}", "Mars/Base"},
		{"model", "{id: a, prompt: {url: 'https://h/v1'}}", "prompt.model is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			node, err := strictyaml.Parse("peel.yaml", []byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			cfg := defaults().(*Config)
			if err := strictyaml.Decode(node, cfg); err != nil {
				t.Fatal(err)
			}
			_, err = cfg.Prepare(discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestABadEntryIsAFlawAndTheOthersRun(t *testing.T) {
	for name, c := range map[string]struct{ entry, want string }{
		"no module":             {"{interval: 5m}", "peel.yaml:3:3"},
		"a cron that never is":  {"{module: test.ping, cron: '0 0 31 2 *'}", "peel.yaml:3:"},
		"an unknown field":      {"{module: test.ping, intervall: 5m}", "peel.yaml:3:26"},
		"it needs another of 2": {"{module: test.ping, needs: [y]}", "peel.yaml:3:"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("id: a\nschedule:\n  x: " + c.entry + "\n")
			for i := range 49 {
				text.WriteString(fmt.Sprintf("  ok%d: {module: test.ping, interval: 5m}\n", i))
			}
			node, err := strictyaml.Parse("peel.yaml", []byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			cfg := defaults().(*Config)
			if err := strictyaml.Decode(node, cfg); err != nil {
				t.Fatal(err)
			}
			d, err := cfg.Prepare(discard)
			if err != nil || d.Run == nil || d.Flaws == nil || !strings.Contains(d.Flaws.Error(), c.want) {
				t.Errorf("flaws are %v, error %v", d.Flaws, err)
			}
			set, _ := entries(cfg.Schedule)
			if len(set) != 50 || set["x"].Invalid == "" || set["ok48"].Invalid != "" {
				t.Errorf("%d entries, x is %+v", len(set), set["x"])
			}
		})
	}
}

func TestAKeyThatCannotBeReadIsAFlawAndThePeelStarts(t *testing.T) {
	for file, want := range map[string]string{
		"{id: a, prompt: {url: 'https://h/v1', model: m, key_file: /none}}": "cannot read the key of the model: open /none",
		"{id: a, prompt: {url: 'https://h/v1', model: m}}":                  "",
		"{id: a, prompt: {key_file: /none}}":                                "",
	} {
		node, err := strictyaml.Parse("peel.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		cfg := defaults().(*Config)
		if err := strictyaml.Decode(node, cfg); err != nil {
			t.Fatal(err)
		}
		d, err := cfg.Prepare(discard)
		if err != nil || d.Run == nil || (d.Flaws == nil) != (want == "") || want != "" && !strings.Contains(d.Flaws.Error(), want) {
			t.Errorf("%s: flaws %v, error %v", file, d.Flaws, err)
		}
	}
}

func TestTheCredentialHasToBeThePeels(t *testing.T) {
	keys, err := keystore.Open(filepath.Join(t.TempDir(), "auth"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := keys.Creds(grants.RolePeel, "web_01_example_com", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ id, creds, want string }{
		{"web_01.example.com", file, ""},
		{"web-02", file, `peel "web-02" with the credential of "web_01_example_com"`},
		{"web-02", filepath.Join(t.TempDir(), "later"), ""},
		{"web-02", "config.go", "config.go"},
	} {
		cfg := defaults().(*Config)
		cfg.ID, cfg.Creds = c.id, c.creds
		_, err := cfg.Prepare(discard)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %s: %v, want %q", c.id, c.creds, err, c.want)
		}
	}
}

// A credential file contains the CA certificates of the bus. Another user who replaces it can command the host.
func TestACredentialThatOthersCouldReplaceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cfg := defaults().(*Config)
	cfg.ID, cfg.Creds = "web-01", filepath.Join(dir, "later.creds")
	if _, err := cfg.Prepare(discard); err == nil || !strings.Contains(err.Error(), "chmod go-w "+dir) {
		t.Errorf("in a directory that others may write to: %v", err)
	}
}

func TestTheUnitStartsThisProgram(t *testing.T) {
	f, err := os.Open("../../examples/systemd/zester-peel.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]string{}
	for _, o := range options {
		service[o.Name] = o.Value
	}
	if service["Type"] != "notify" {
		t.Errorf("its type is %q", service["Type"])
	}
	start := strings.Fields(service["ExecStart"])
	if start[0] != "/usr/local/bin/zester-peel" {
		t.Errorf("it starts %q", start[0])
	}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	config := set.String("config", "", "")
	c := defaults().(*Config)
	c.Flags(set)
	if err := set.Parse(start[1:]); err != nil {
		t.Error(err)
	}
	if *config != "/etc/zester/peel.yaml" || c.DataDir != "/var/lib/"+service["StateDirectory"] {
		t.Errorf("configuration %s, data directory %s", *config, c.DataDir)
	}
}

func TestAPeelHasADirectoryOfItsOwn(t *testing.T) {
	for files, want := range map[string]string{
		"":                "-peel",
		"fence":           "", // of a version that kept them there
		"auth":            "-peel",
		"auth,bus,fence":  "-peel",
		"bus,fence":       "-peel",
		"something,other": "-peel",
	} {
		dir := filepath.Join(t.TempDir(), "zester")
		for name := range strings.SplitSeq(files, ",") {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got := dataDir(dir); got != dir+want {
			t.Errorf("beside %q: %s", files, got)
		}
	}
}

// A credential that a variable of the shell gives is named as that variable's.
func TestACredentialBesideAJoinTokenIsNamed(t *testing.T) {
	c := defaults().(*Config)
	c.Join, c.Creds = "token@m1.example.com:8440", "lee.creds"
	_, err := c.options()
	var value *daemon.ValueError
	if !errors.As(err, &value) || value.Flag != "creds" || !strings.Contains(err.Error(), "cannot use creds and join") {
		t.Errorf("%v", err)
	}
}
