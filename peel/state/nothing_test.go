//go:build linux

package state

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// reads are the calls of programs that change nothing: the name of a program, and its arguments.
var reads = regexp.MustCompile(`^(getent |dpkg-query |dpkg --print-architecture|dpkg -V|dpkg --compare-versions |` +
	`apt-cache |apt-mark show|apt-config |apt-get (\S+=\S* |-o \S+ |-\S+ )*(-s|--simulate|--print-uris|indextargets) |` +
	`systemctl --no-pager --no-ask-password (show|is-enabled|cat|list-\S+) |debconf-communicate |journalctl |` +
	`sysctl -n |findmnt |test |mountpoint |git (\S+ )*(ls-remote|rev-parse|status|cat-file|config --get|diff|log|remote get-url) ?|` +
	`git --version|getconf |rpm |dnf (\S+ )*--assumeno )`)

// Programs that states call. Those that are not here are not found.
var (
	readers   = "getent dpkg-query apt-cache apt-config journalctl findmnt mountpoint getconf test" // only read
	sometimes = "dpkg apt-mark sysctl git"                                                          // depends on the first argument
	writers   = "debconf-set-selections mount umount gpg useradd usermod userdel groupadd groupmod groupdel gpasswd " +
		"chpasswd passwd crontab timedatectl dnf rpm systemd-run su runuser touch"
	answers = map[string]string{
		"systemctl": `echo LoadState=loaded; echo ActiveState=inactive; echo SubState=dead; echo UnitFileState=disabled`,
		"apt-get": `what=Inst
for a; do case $a in remove|purge) what=Remv;; install|upgrade|-*|*:*|*=*) ;; *) echo "$what $a (1.0 Debian [amd64])";; esac; done`,
		"debconf-communicate": "echo 10 no such question; echo 10 no such question",
	}
)

// guarded makes PATH a directory of programs that note their calls. Those that only read, and calls of others that do, are
// made. Nothing else is: it ends with 97, or with an answer. guarded returns a function for the calls that would have
// changed the host.
func guarded(t *testing.T) (changes func() []string) {
	t.Helper()
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	add := func(name, answer string) {
		text := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >> %s\n%s\n", name, log, answer)
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	for name := range strings.FieldsSeq(readers + " " + sometimes) {
		path, err := exec.LookPath(name)
		switch {
		case err != nil:
		case strings.Contains(readers, name):
			add(name, "exec "+path+` "$@"`)
		default:
			add(name, "case $1 in -n|-V|show*|--print-architecture|--version) exec "+path+` "$@";; esac; exit 97`)
		}
	}
	for name := range strings.FieldsSeq(writers) {
		add(name, "exit 97")
	}
	for name, answer := range answers {
		add(name, answer)
	}
	must(t, os.Symlink("/bin/sh", filepath.Join(bin, "sh")))
	t.Setenv("PATH", bin)
	return func() []string {
		data, _ := os.ReadFile(log)
		must(t, os.RemoveAll(log))
		return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(data)), "\n"), func(call string) bool {
			return call == "" || reads.MatchString(call)
		})
	}
}

// hostFiles returns the files of the host that the states of values would change, and their directories.
func hostFiles() []string {
	files := []string{"/etc/hosts", "/etc/localtime", "/etc/timezone", "/etc/fstab", "/home/zester-none"}
	for _, pattern := range []string{"/etc/*.d/*zester-none*", "/etc/sysctl.d/*", "/etc/apt/*/*zester-none*", "/etc/systemd/system/*zester-none*"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	return files
}

// stats describes all files below directories, by name.
func stats(dirs ...string) map[string]string {
	all := map[string]string{}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := d.Info(); err == nil {
				all[name] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime(), reflect.ValueOf(info.Sys()).Elem().FieldByName("Uid"))
			}
			return nil
		})
	}
	return all
}

// values are what arguments of states may be, by function and argument, or by argument.
var values = map[string][]any{
	"begin": {"["}, "end": {"]"},
	"path": {"DIR/file", "DIR/dir", "DIR/new", "DIR/none/new"}, "source": {"files/src", "https://127.0.0.1:1/src"}, "content": {"new\n"}, "marker": {"m"},
	"prefix": {"# "}, "suffix": {" #"}, "mode": {"0600"}, "file_mode": {"0600"}, "dir_mode": {"0700"},
	"check": {[]any{"test", "-f", "{}"}}, "user": {"root"}, "group": {"root"},
	"recurse": {[]any{"mode"}, []any{"user", "group"}}, "line": {"new"}, "match": {"^x"}, "after": {"x"}, "before": {"y"},
	"pattern": {"x"}, "repl": {"z"}, "target": {"t"}, "vars": {map[string]any{"a": "b"}}, "url": {"file:///DIR/repo"},
	"rev": {"main"}, "gid": {int64(4711)}, "uid": {int64(4711)}, "members": {[]any{"root"}}, "ip": {"192.0.2.1"},
	"device": {"tmpfs"}, "fstype": {"tmpfs"}, "opts": {[]any{"size=1m"}}, "dump": {int64(0)}, "pass": {int64(0)},
	"version": {"1.0"}, "value": {"57"}, "uris": {[]any{"https://packages.example.org/debian"}}, "suites": {[]any{"stable"}},
	"components": {[]any{"main"}}, "keys": {[]any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9rTUcKkqFvjLY/ZDCb4Qc5V8cGmNwUoSKCrPlzV9pd a"}},
	"groups": {[]any{"daemon"}}, "home": {"/home/zester-none"}, "shell": {"/bin/sh"}, "comment": {"none"}, "password": {"*"},
	"command": {"touch DIR/ran"}, "argv": {[]any{"touch", "DIR/ran"}}, "cwd": {"/"}, "env": {map[string]any{"A": "b"}}, "stdin": {"x"},
	"creates": {"DIR/creates"}, "cron": {"* * * * *"}, "name": {"zester-none"}, "names": {[]any{"zester-none"}},
	"key":                      {"files/x.asc"},
	"user.absent name":         {"daemon", "zester-none"},
	"group.absent name":        {"daemon", "zester-none"},
	"host.present name":        {"zester.test.example"},
	"host.present names":       {[]any{"zester.test.example"}},
	"mount.mounted name":       {"DIR/dir", "DIR/mnt"},
	"pkg.removed name":         {"gzip", "zester-none"},
	"pkg.latest name":          {"gzip", "zester-none"},
	"pkg.installed name":       {"hello", "zester-none"},
	"sysctl.present name":      {"vm.swappiness"},
	"timezone.system name":     {"Asia/Tokyo"},
	"debconf.set name":         {"hello"},
	"debconf.set content":      {"hello/q string v\n", "hello hello/q string v\n"},
	"ssh_auth.present file":    {"DIR/keys"},
	"ssh_auth.absent file":     {"DIR/file"},
	"pkgrepo.managed file":     {"zester-none"},
	"archive.extracted source": {"files/a.tar.gz", "https://127.0.0.1:1/a.tar.gz"},
	"venv":                     {"DIR/venv"},
	"index":                    {"https://127.0.0.1:1/simple"},
	"find_links":               {"DIR/wheels"},
	"sha256":                   {strings.Repeat("ab", 32)},
	"strip":                    {int64(1)},
}

// randomArgs returns arguments of a function: the main one, and others as chance has it.
func randomArgs(r *rand.Rand, f state.Function, dir string) map[string]any {
	args := map[string]any{}
	for _, p := range f.Params() {
		if p.Name != f.Main && r.IntN(2) == 0 {
			continue
		}
		list := values[f.Name+" "+p.Name]
		if list == nil {
			list = values[p.Name]
		}
		if kind := p.Type; kind.Kind() == reflect.Bool || kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Bool {
			list = []any{true, false}
		}
		if len(list) > 0 {
			args[p.Name] = within(list[r.IntN(len(list))], dir)
		}
	}
	return args
}

// within puts a directory into the place of DIR.
func within(value any, dir string) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "DIR", dir)
	case []any:
		list := make([]any, len(value))
		for i, v := range value {
			list[i] = within(v, dir)
		}
		return list
	}
	return value
}

// TestNoFunctionChangesAnythingInATest calls every function of peels that has the parameter test, with each of its
// parameters. Nothing is written, no program is called that changes the host, and nothing is left to be done later.
func TestNoFunctionChangesAnythingInATest(t *testing.T) {
	changes := guarded(t)
	var functions []string
	for _, f := range catalogue.Functions() {
		if slices.ContainsFunc(f.Params, func(p catalogue.Param) bool { return p.Name == "test" }) {
			functions = append(functions, f.Name)
		}
	}
	wouldChange := 0
	for i, name := range functions {
		f, single := state.FunctionOf(name)
		if !single {
			continue // TestNoSetOfStatesChangesAnythingInATest
		}
		r, runs := rand.New(rand.NewPCG(uint64(i), 0)), 0
		tried, would := map[string]bool{}, false
		all := t.TempDir()
		for range 1000 {
			dir := fmt.Sprintf("%s/%d", all, runs)
			args := randomArgs(r, f, dir)
			if args["begin"] != nil || args["end"] != nil { // the lines around a block, in the place of its marker
				args["begin"], args["end"] = "[", "]"
				maps.DeleteFunc(args, func(p string, _ any) bool { return slices.Contains([]string{"marker", "prefix", "suffix"}, p) })
			}
			_, err := state.Single(name, args)
			untried := slices.ContainsFunc(slices.Collect(maps.Keys(args)), func(p string) bool { return !tried[p] })
			if err != nil || !untried && (would || runs > 9) {
				continue
			}
			runs++
			for p := range args {
				tried[p] = true
			}
			testFiles(t, dir)
			before := stats(append(hostFiles(), dir)...)
			later := false
			args["test"] = true
			got := registry(t, func() Document { return Document{} }).Call(t.Context(), name, module.Call{
				Args: args, AfterStored: func(func()) { later = true },
			})
			if after := stats(append(hostFiles(), dir)...); !maps.Equal(before, after) || later {
				t.Errorf("%s %v: files changed, or something is done later (%t): %+v", name, args, later, got)
			}
			if calls := changes(); len(calls) > 0 {
				t.Errorf("%s %v calls %q", name, args, calls)
			}
			text, err := json.Marshal(got.Data)
			must(t, err)
			would = would || strings.Contains(string(text), `"result":"would_change"`)
		}
		if would {
			wouldChange++
		} else {
			t.Logf("%s would never change anything on this host", name)
		}
		for _, p := range f.Params() {
			if !tried[p.Name] {
				t.Errorf("%s: argument %s is in no call", name, p.Name)
			}
		}
	}
	if wouldChange < 20 { // those of packages and services need a host of their own: tag debian
		t.Errorf("only %d functions would change something", wouldChange)
	}
}

// testFiles makes the files of which values has the names.
func testFiles(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir+"/dir", 0o755))
	must(t, os.WriteFile(dir+"/dir/a", []byte("a"), 0o644))
	must(t, os.WriteFile(dir+"/file", []byte("x\ny\n"), 0o644))
}

// A run of states in test mode leaves all as it is, whatever depends on what: the files, the units, its own
// memory, and what is to be done later.
func TestNoSetOfStatesChangesAnythingInATest(t *testing.T) {
	changes := guarded(t)
	dir, own := t.TempDir(), t.TempDir()
	testFiles(t, dir)
	text := strings.ReplaceAll(`
file: {file.managed: {path: DIR/file, content: new}}
gone: {file.absent: {path: DIR/dir}}
ran: {cmd.run: {command: touch DIR/ran}, onchanges: [file]}
web: {service.running: {name: zester-none, reload: true}, watch: [file]}
zester-peel: {service.running: {enable: true}, watch: [file]}
broken: {file.managed: {path: DIR/none/new, content: new}, retry: {attempts: 2, interval: 1ms}}
mended: {cmd.run: {command: touch DIR/mended}, onfail: [broken]}
`, "DIR", dir)
	n, err := strictyaml.Parse("t.yaml", []byte(text))
	must(t, err)
	set, err := state.Parse(n, state.Options{})
	must(t, err)
	r := New(Options{Dir: own, Lock: own + "/lock", Exec: shell})
	must(t, os.WriteFile(own+"/lock", nil, 0o600))
	before := stats(append(hostFiles(), dir, own)...)
	for range 2 {
		result, err := r.Run(t.Context(), Request{Set: set, Test: true})
		must(t, err)
		if !result.Own.IsZero() || result.Counts[WouldChange] < 3 || result.Counts[Changed] > 0 {
			t.Errorf("%+v", result)
		}
		if after := stats(append(hostFiles(), dir, own)...); !maps.Equal(before, after) {
			t.Errorf("files changed:\n%v\n%v", before, after)
		}
		if calls := changes(); len(calls) > 0 {
			t.Errorf("the run calls %q", calls)
		}
	}
}
