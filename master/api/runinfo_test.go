package api_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestRunInfoIsForItsOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	if _, err := api.ReadRunInfo(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none yet: %v", err)
	}
	want := api.RunInfo{URL: "nats://127.0.0.1:4222", Creds: "secret", PID: os.Getpid()}
	path := filepath.Join(dir, "run.json")
	for range 2 {
		if err := api.WriteRunInfo(dir, want); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o644); err != nil { // which the next one does not keep
			t.Fatal(err)
		}
	}
	if err := api.WriteRunInfo(dir, want); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got, err := api.ReadRunInfo(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := api.ReadRunInfo(dir); err == nil || !strings.Contains(err.Error(), "mode 0600") {
			t.Errorf("with mode %v: %v", mode, err)
		}
	}
}

func TestRunInfoThatOthersCouldReplaceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := api.WriteRunInfo(dir, api.RunInfo{URL: "u", Creds: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ReadRunInfo(dir); err == nil || !strings.Contains(err.Error(), "chmod go-w "+dir) {
		t.Errorf("in a directory that others may write to: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ReadRunInfo(dir); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(filepath.Join(dir, "run.json"), 65534, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ReadRunInfo(dir); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("a file of another user: %v", err)
	}
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ReadRunInfo(dir); err != nil {
		t.Errorf("root and a master that runs as another user: %v", err)
	}
}

func TestRunInfoOfAnotherProcessStays(t *testing.T) {
	dir := t.TempDir()
	if err := api.RemoveRunInfo(dir); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	for pid, stays := range map[int]bool{os.Getpid() + 1: true, os.Getpid(): false} {
		if err := api.WriteRunInfo(dir, api.RunInfo{URL: "u", Creds: "c", PID: pid}); err != nil {
			t.Fatal(err)
		}
		if err := api.RemoveRunInfo(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "run.json")); (err == nil) != stays {
			t.Errorf("of process %d: %v", pid, err)
		}
	}
}

func TestRunInfoThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"", "{}", `{"url":"u"}`, "[]", strings.Repeat(" ", 1<<17) + `{"url":"u","creds":"c"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := api.ReadRunInfo(dir); err == nil {
			t.Errorf("%.20q was read as %+v", text, info)
		}
	}
}

func TestAConfigurationFileKnowsWhatNeedsARestart(t *testing.T) {
	of := func(text string) api.ConfigFile {
		doc, err := strictyaml.Parse("master.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		f, err := api.ConfigFileOf("master.yaml", doc)
		if err != nil || !filepath.IsAbs(f.Path) {
			t.Fatalf("%q, %v", f.Path, err)
		}
		return f
	}
	before := of("repo: a\nlog_level: info\nalerts: {receivers: [{name: ops}]}\n")
	for text, want := range map[string][]string{
		"# a comment\nalerts:\n  receivers: [{name: 'ops'}]\nrepo: a\nlog_level: debug\n": nil,
		"repo: b\nalerts: {receivers: [{name: ops}]}\n":                                   {"repo"},
		"repo: a\nalerts: {receivers: [{name: night}]}\nlisten: 0.0.0.0:4222\n":           {"alerts", "listen"},
		"{}\n": {"alerts", "repo"},
	} {
		if got := before.Restart(of(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	dir := t.TempDir()
	info := api.RunInfo{URL: "tls://127.0.0.1:1", Creds: "x", PID: 1, Config: before}
	if err := api.WriteRunInfo(dir, info); err != nil {
		t.Fatal(err)
	}
	if read, err := api.ReadRunInfo(dir); err != nil || len(read.Config.Restart(before)) > 0 || read.Config.Path != before.Path {
		t.Errorf("%+v, %v", read, err)
	}
}
