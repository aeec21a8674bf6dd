//go:build linux

package system

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

func TestStepsOfAZone(t *testing.T) {
	link := safefs.Info{Kind: safefs.Symlink, Target: zoneinfo + "/ZT/Two"}
	for name, c := range map[string]struct {
		zone  string
		local safefs.Info
		file  string // the content of /etc/timezone; empty: there is none
		what  []string
		err   string
	}{
		"another one":             {"ZT/One", link, "", []string{"/etc/localtime"}, ""},
		"another one, two places": {"ZT/One", link, "ZT/Two\n", []string{"/etc/localtime", "/etc/timezone"}, ""},
		"the same":                {"ZT/Two", link, "ZT/Two\n", nil, ""},
		"the same, half":          {"ZT/Two", link, "ZT/One\n", []string{"/etc/timezone"}, ""},
		"a copy of a zone":        {"ZT/One", safefs.Info{Kind: safefs.File, Mode: 0o644}, "", []string{"/etc/localtime"}, ""},
		"a link to a zone":        {"ZT/Link", link, "", []string{"/etc/localtime"}, ""},
		"none":                    {"ZT/None", link, "", nil, "there is no zone ZT/None"},
		"a directory":             {"ZT", link, "", nil, "there is no zone ZT"},
	} {
		w := host.New()
		w.NewDirectory(zoneinfo+"/ZT", safefs.Info{Kind: safefs.Directory, Mode: 0o755})
		for _, zone := range []string{"One", "Two"} {
			w.SetFile(zoneinfo+"/ZT/"+zone, safefs.Info{Kind: safefs.File, Mode: 0o644}, []byte("TZif"))
		}
		w.SetFile(zoneinfo+"/ZT/Link", safefs.Info{Kind: safefs.Symlink, Target: "One"}, nil)
		w.SetFile("/etc/localtime", c.local, []byte("TZif"))
		w.SetFile("/etc/timezone", safefs.Info{}, nil)
		if c.file != "" {
			w.SetFile("/etc/timezone", safefs.Info{Kind: safefs.File, Mode: 0o644}, []byte(c.file))
		}
		steps, err := Zone(t.Context(), w, &state.TimezoneSystem{Name: c.zone})
		checkError(t, name, err, c.err)
		checkPlaces(t, name, steps, c.what)
		for _, s := range steps {
			s.Predict(w)
		}
		if again, err := Zone(t.Context(), w, &state.TimezoneSystem{Name: c.zone}); c.err == "" && (err != nil || len(again) > 0) {
			t.Errorf("%s: after the predicted steps: %+v, %v", name, again, err)
		}
	}
}

func checkError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v, want %q", name, err, want)
	}
}

// checkPlaces fails if steps are not about these paths, each once or more, in this order.
func checkPlaces(t *testing.T, name string, steps []host.Step, want []string) {
	t.Helper()
	var got []string
	for _, s := range steps {
		if len(got) == 0 || got[len(got)-1] != s.What {
			got = append(got, s.What)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: the steps are about %q, want %q", name, got, want)
	}
}

// What nobody knows is no zone, and no value of the kernel.
func TestUnknownPathsAreErrors(t *testing.T) {
	const why = "a package would be upgraded"
	for _, doubted := range []string{zoneinfo, "/etc/localtime", "/etc/timezone"} {
		w := host.New()
		w.NewDirectory(zoneinfo+"/ZT", safefs.Info{Kind: safefs.Directory})
		w.SetFile(zoneinfo+"/ZT/One", safefs.Info{Kind: safefs.File}, []byte("TZif"))
		zone := "ZT/One"
		if doubted == zoneinfo {
			zone = "ZT2/One"
		}
		w.Doubt(doubted, why)
		_, err := Zone(t.Context(), w, &state.TimezoneSystem{Name: zone})
		checkError(t, doubted, err, why)
	}
	for _, doubted := range []string{"/proc/sys/kernel", "/etc/sysctl.d"} {
		w := host.New()
		w.Doubt(doubted, why)
		_, err := KernelParameter(t.Context(), w, &state.SysctlPresent{Name: "kernel.ostype", Value: "Linux"})
		checkError(t, doubted, err, why)
	}
	for _, doubted := range []string{"/nothing", "/etc/fstab"} {
		w := host.New()
		w.Doubt(doubted, why)
		_, err := Mount(t.Context(), w, &state.MountMounted{Name: "/nothing", Device: "none", FSType: "tmpfs", MakeDir: true})
		checkError(t, doubted, err, why)
	}
}

func TestStepsOfAMount(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		want  state.MountMounted
		dir   bool
		mount bool
		fstab string
		what  []string
		err   string
	}{
		"new":                 {what: []string{"/zt", "/zt/m", "/etc/fstab"}, want: state.MountMounted{MakeDir: true}},
		"new, no directory":   {err: "makedir: true makes it"},
		"a directory":         {dir: true, what: []string{"/zt/m", "/etc/fstab"}},
		"not at boot":         {dir: true, want: state.MountMounted{Persist: &no}, what: []string{"/zt/m"}},
		"mounted":             {dir: true, mount: true, what: []string{"/etc/fstab"}},
		"mounted and written": {dir: true, mount: true, fstab: "none\t/zt/m\ttmpfs\tdefaults\t0\t0\n"},
		"another line":        {dir: true, mount: true, fstab: "none\t/zt/m\ttmpfs\tro\t0\t0\n", what: []string{"/etc/fstab"}},
		"a comment":           {dir: true, mount: true, fstab: "#none\t/zt/m\ttmpfs\tdefaults\t0\t0\n", what: []string{"/etc/fstab"}},
		"a longer path":       {dir: true, mount: true, fstab: "none\t/zt/m2\ttmpfs\tdefaults\t0\t0\n", what: []string{"/etc/fstab"}},
	} {
		w := host.New()
		w.SetFile("/etc/fstab", safefs.Info{Kind: safefs.File, Mode: 0o644}, []byte(c.fstab))
		if c.dir {
			w.NewDirectory("/zt/m", safefs.Info{Kind: safefs.Directory, Mode: 0o755})
		}
		if c.mount {
			w.SetMounted("/zt/m")
		}
		c.want.Name, c.want.Device, c.want.FSType = "/zt/m", "none", "tmpfs"
		steps, err := Mount(t.Context(), w, &c.want)
		checkError(t, name, err, c.err)
		var dos []string
		for _, s := range steps {
			dos = append(dos, s.Do)
		}
		isNew := len(steps) > 0 && steps[0].Do == "create"
		if mounts := strings.Contains(strings.Join(dos, " "), "mount"); c.err == "" && mounts != !c.mount || isNew != c.want.MakeDir {
			t.Errorf("%s: %q", name, dos)
		}
		checkPlaces(t, name, steps, c.what)
		for _, s := range steps {
			s.Predict(w)
		}
		if again, err := Mount(t.Context(), w, &c.want); c.err == "" && !c.want.MakeDir && (err != nil || len(again) > 0) {
			t.Errorf("%s: after the predicted steps: %+v, %v", name, again, err)
		}
	}
}

// Git of a state is called as the user of the state; the lines of the remote give the commit.
func TestTheCommitOfARemoteRepository(t *testing.T) {
	one, two, three := strings.Repeat("1", 40), strings.Repeat("2", 40), strings.Repeat("3", 40)
	lines := one + "\trefs/heads/v1\n" + two + "\trefs/tags/v1\n" + three + "\trefs/tags/v1^{}\n"
	for name, c := range map[string]struct{ rev, out, want, err string }{
		"a branch before a tag": {"v1", lines, one, ""},
		"an annotated tag":      {"v1", lines[strings.Index(lines, two):], three, ""},
		"a plain tag":           {"v1", two + "\trefs/tags/v1\n", two, ""},
		"what is checked out":   {"", one + "\tHEAD\n", one, ""},
		"a commit":              {two, "", two, ""},
		"nothing":               {"v2", lines, "", "has no branch or tag v2"},
	} {
		calls := 0
		g := NewGit(host.New(), func(_ context.Context, user string, env map[string]string, argv ...string) (string, error) {
			calls++
			if user != "ada" || env["GIT_TERMINAL_PROMPT"] != "0" || argv[0] != "git" || argv[1] != "ls-remote" {
				t.Errorf("%s: %s %v %q", name, user, env, argv)
			}
			return c.out, nil
		})
		a := &state.GitLatest{URL: "/zt", Rev: c.rev, User: "ada"}
		got, err := g.remote(t.Context(), a)
		checkError(t, name, err, c.err)
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		before := calls
		if again, _ := g.remote(t.Context(), a); c.err == "" && (again != got || calls != before) {
			t.Errorf("%s: the remote is asked twice in a run, or differs: %s", name, again)
		}
	}
}
