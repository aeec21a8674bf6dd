//go:build linux

package file

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// applied plans a state, applies the steps, and fails if a second plan has more steps. It returns the steps.
func applied(t *testing.T, plan func(w *host.World) ([]host.Step, error)) []host.Step {
	t.Helper()
	steps, err := plan(host.New())
	must(t, err)

	predicted := host.New()
	for _, s := range steps {
		s.Predict(predicted)
	}
	left, err := plan(predicted)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("after the predicted steps there would be %+v", left)
	}

	for _, s := range steps {
		must(t, s.Apply(t.Context()))
	}
	left, err = plan(host.New())
	must(t, err)
	if len(left) > 0 {
		t.Errorf("after the steps there is %+v", left)
	}
	return steps
}

func TestPartsAreReplaced(t *testing.T) {
	for _, c := range []struct{ before, pattern, repl, want string }{
		{"port = 1\nport = 2\n", `^port = \d+$`, "port = 9", "port = 9\nport = 9\n"},
		{"a=1 b=2", `(\w)=(\d)`, "${1}: ${2}", "a: 1 b: 2"},
		{"# Port 22\n", `^#\s*(Port \d+)$`, "${1}", "Port 22\n"},
		{"one\r\ntwo\r\n", "two", "2", "one\r\n2\r\n"},
		{"x\n", "y", "z", "x\n"},
		{"drop\nkeep\n", "^drop\n", "", "keep\n"},
	} {
		name := temp(t) + "/f"
		put(t, name, c.before)
		steps := applied(t, func(w *host.World) ([]host.Step, error) {
			return Replace(w, &state.FileReplace{Path: name, Pattern: c.pattern, Repl: &c.repl})
		})
		if got := get(t, name); got != c.want || (len(steps) == 0) != (c.before == c.want) {
			t.Errorf("%q of %q: %q, want %q; %+v", c.pattern, c.before, got, c.want, steps)
		}
	}
}

func TestReplacementsThatAreRefused(t *testing.T) {
	name := temp(t) + "/f"
	put(t, name, "a\n")
	for _, c := range []struct{ pattern, repl, path, want string }{
		{"a", "aa", name, "each run would change the file again"},
		{"a", "b", name + "2", "there is no file " + name + "2"},
	} {
		_, err := Replace(host.New(), &state.FileReplace{Path: c.path, Pattern: c.pattern, Repl: &c.repl})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.pattern, err, c.want)
		}
	}

	put(t, name, strings.Repeat("a", 2*maxMatches))
	if _, err := replace(regexp.MustCompile("a"), get(t, name), "b"); err == nil {
		t.Error("more parts are replaced than the limit")
	}
	if _, err := replace(regexp.MustCompile("a"), strings.Repeat("a", maxMatches), strings.Repeat("b", 4096)); err == nil {
		t.Error("a text is made that is larger than the limit")
	}
}

// keys for tests; nobody has their private parts.
const (
	oneKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	twoKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"
)

func TestKeysOfAUser(t *testing.T) {
	home := temp(t)
	for _, c := range []struct {
		before string
		keys   []string
		want   string
	}{
		{"", []string{oneKey + " ada"}, oneKey + " ada\n"},
		{"# mine\n" + twoKey + "\n", []string{oneKey}, "# mine\n" + twoKey + "\n" + oneKey + "\n"},
		{oneKey + " old", []string{oneKey + " new"}, oneKey + " new\n"},
		{oneKey + "\n" + oneKey + " again\n", []string{oneKey}, oneKey + "\n"},
		{oneKey + "\n", []string{`from="10.0.0.0/8",command="a b" ` + oneKey}, `from="10.0.0.0/8",command="a b" ` + oneKey + "\n"},
		{"# " + oneKey + "\n", []string{oneKey}, "# " + oneKey + "\n" + oneKey + "\n"},
	} {
		name := home + "/keys"
		put(t, name, c.before)
		applied(t, func(w *host.World) ([]host.Step, error) {
			return Keys(t.Context(), w, &state.SSHAuthPresent{User: "root", Keys: c.keys, File: name})
		})
		if got := get(t, name); got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.before, c.keys, got, c.want)
		}

		applied(t, func(w *host.World) ([]host.Step, error) {
			return KeysMissing(t.Context(), w, &state.SSHAuthAbsent{User: "root", Keys: []string{oneKey}, File: name})
		})
		if got := get(t, name); strings.Contains(strings.ReplaceAll(got, "# "+oneKey, ""), oneKey) {
			t.Errorf("the key is still there: %q", got)
		}
	}
}

// A user that does not exist yet, as after a user.present of the same run.
func TestKeysOfAPlannedUser(t *testing.T) {
	home := temp(t)
	w := host.New()
	w.SetUser(host.User{Exists: true, Name: "ztplanned", UID: 4711, GID: 4712, Home: home + "/ada"})
	w.NewDirectory(home+"/ada", safefs.Info{Kind: safefs.Directory, Mode: 0o755, UID: 4711, GID: 4712})
	a := &state.SSHAuthPresent{User: "ztplanned", Keys: []string{oneKey}}

	steps, err := Keys(t.Context(), w, a)
	must(t, err)
	if len(steps) != 2 || steps[0].After != "directory 0700" || steps[1].After != "81 bytes, 0600" {
		t.Errorf("%+v", steps)
	}
	for _, s := range steps {
		s.Predict(w)
	}
	if steps, err = Keys(t.Context(), w, a); err != nil || len(steps) > 0 {
		t.Errorf("%+v, %v", steps, err)
	}
	info, err := w.Stat(home + "/ada/.ssh/authorized_keys")
	if err != nil || info.UID != 4711 || info.GID != 4712 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := Keys(t.Context(), host.New(), a); err == nil || !strings.Contains(err.Error(), `there is no user "ztplanned"`) {
		t.Errorf("a user that nobody makes: %v", err)
	}
}

func TestNamesWithAddresses(t *testing.T) {
	const start = "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n# end\n"
	for _, c := range []struct{ before, ip, names, want string }{
		{start, "10.0.0.5", "db", start + "10.0.0.5\tdb\n"},
		{start + "10.0.0.5 db", "10.0.0.5", "db", start + "10.0.0.5 db"},
		{start + "10.0.0.5 db # main", "10.0.0.5", "db2", start + "10.0.0.5\tdb db2 # main\n"},
		{start + "10.0.0.4 db old\n", "10.0.0.5", "db", start + "10.0.0.4\told\n10.0.0.5\tdb\n"},
		{start + "10.0.0.4 DB\n", "10.0.0.5", "db", start + "10.0.0.5\tdb\n"},
		{start, "2001:db8::1", "localhost", "127.0.0.1\tlocalhost\n::1\tip6-localhost\n# end\n2001:db8::1\tlocalhost\n"},
		{"no address here\n", "10.0.0.5", "a b", "no address here\n10.0.0.5\ta b\n"},
	} {
		names := strings.Fields(c.names)
		got := withHost(split(c.before), netip.MustParseAddr(c.ip), names)
		if text := strings.Join(got, ""); text != c.want {
			t.Errorf("%s %s in %q: %q, want %q", c.ip, c.names, c.before, text, c.want)
		}
		again := withHost(got, netip.MustParseAddr(c.ip), names)
		if strings.Join(again, "") != strings.Join(got, "") {
			t.Errorf("%s %s is changed again: %q", c.ip, c.names, again)
		}
	}
}

func TestALinkReplacesAFileIfItIsForced(t *testing.T) {
	dir := temp(t)
	put(t, dir+"/link", "a file")
	must(t, os.Mkdir(dir+"/dir", 0o755))

	a := &state.FileSymlink{Path: dir + "/link", Target: "elsewhere"}
	if _, err := Link(host.New(), a); err == nil || !strings.Contains(err.Error(), "force: true replaces it by the link") {
		t.Errorf("a file is replaced: %v", err)
	}
	a.Force = true
	applied(t, func(w *host.World) ([]host.Step, error) { return Link(w, a) })
	if target, err := os.Readlink(dir + "/link"); err != nil || target != "elsewhere" {
		t.Errorf("the link points to %q: %v", target, err)
	}
	if _, err := Link(host.New(), &state.FileSymlink{Path: dir + "/dir", Target: "x", Force: true}); err == nil {
		t.Error("a directory is replaced")
	}
}

func TestTemplatesOfATreeHaveVars(t *testing.T) {
	dir := temp(t)
	in := Inputs{
		Source: func(context.Context, string) (Content, error) {
			return Content{Data: []byte("port {{vars.port}}")}, nil
		},
		Tree: func(string) ([]string, error) { return []string{"a.conf"}, nil },
	}
	apply(t, planOf(t, "d: {file.recurse: {path: "+dir+"/etc, source: files/etc, template: true, vars: {port: 80}}}", in))
	if got := get(t, dir+"/etc/a.conf"); got != "port 80" {
		t.Errorf("the file has %q", got)
	}
}

// A file over the limit is not edited, and the error says what does it.
func TestALargeFileIsNotEdited(t *testing.T) {
	dir := temp(t)
	put(t, dir+"/f", "")
	must(t, os.Truncate(dir+"/f", MaxFile+1))
	for _, args := range []string{
		"file.line: {path: DIR/f, line: x}", "file.block: {path: DIR/f, content: x}",
		"file.replace: {path: DIR/f, pattern: x, repl: y}",
	} {
		_, err := planOf(t, "f: {"+strings.ReplaceAll(args, "DIR", dir)+"}", noFiles)(host.New())
		const want = "/f has 8388609 bytes, and files of at most 8388608 bytes are edited; replace it with file.managed"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestALineThatHasTheKeyStaysAsItIs(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqJ0dZ0S0v1n1yJx0f8p0m1a2b3c4d5e6f7g8h9i0j1 ada"
	for _, line := range []string{key, key + "\n", key + "\r\n"} {
		if got := withKey([]string{line}, key); len(got) != 1 || got[0] != line {
			t.Errorf("%q became %q", line, got)
		}
	}
}
