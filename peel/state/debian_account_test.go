//go:build linux && debian

package state

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInHostAccounts(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	const hash = "$y$j9T$kbPlsHXBmBIc3bfeUcU9N.$p2VjYAzzZdwC06cUSKUbPl8GRMWJTTIgBNVnYkjhEy5"
	const accounts = `
staff2: {group.present: {system: true}}
ann: {user.present: {groups: [staff2, adm], comment: Ann, shell: /bin/bash, password: "` + hash + `"}}
/home/ann/.profile: {file.managed: {content: "# ours\n", user: ann, group: ann}}
robot: {user.present: {system: true, home: /var/lib/robot}}
uid: {user.present: {name: fixed, uid: 4321, group: staff2, create_home: false}}
`
	r := h.step(accounts, "staff2: changed intended", "ann: changed intended", "/home/ann/.profile: changed intended", "robot: changed intended", "uid: changed intended")
	if out, err := json.Marshal(r); err != nil || strings.Contains(string(out), hash) || strings.Contains(string(out), "kbPls") {
		t.Errorf("the result shows the hash: %s", out)
	}
	if got := sh(t, "id -nG ann; getent passwd ann robot fixed; getent shadow ann"); !strings.Contains(got, "ann adm staff2") || !strings.Contains(got, hash) ||
		!strings.Contains(got, ":Ann:/home/ann:/bin/bash") || !strings.Contains(got, ":/var/lib/robot:") || !strings.Contains(got, "fixed:x:4321:") {
		t.Errorf("the accounts are %s", got)
	}
	// Groups are added, and none is taken.
	sh(t, "usermod -aG tty ann")
	h.step("ann: {user.present: {groups: [disk], shell: /bin/sh, comment: ''}}", "ann: changed intended")
	if got := sh(t, "id -nG ann"); !strings.Contains(got, "tty") || !strings.Contains(got, "disk") || !strings.Contains(got, "adm") {
		t.Errorf("the groups are %s", got)
	}
	h.step("own: {user.present: {}}", "own: changed intended")
	if r = h.step("own: {user.absent: {remove_home: true}}", "own: changed intended"); len(r.States[0].Changes) != 3 || sh(t, "getent group own || true") != "" {
		t.Errorf("the user's own group stays: %+v", r.States[0].Changes)
	}
	h.step("ann: {user.present: {password: '*', uid: 5000, group: adm}}\nstaff2: {group.present: {gid: 6000}}", "ann: changed intended", "staff2: changed intended")
	h.wants(h.run("bob: {user.present: {groups: [nosuch]}}", true), "bob: failed")
	r = h.step("ann: {user.absent: {remove_home: true}}\nrobot: {user.absent: {}}\nfixed: {user.absent: {}}\nstaff2: {group.absent: {}}",
		"ann: changed intended", "robot: changed intended", "fixed: changed intended", "staff2: changed intended")
	if c := r.States[0].Changes; len(c) != 2 || !c[0].Deletes || !c[1].Deletes {
		t.Errorf("%+v", c)
	}
	if got := sh(t, "ls /home; getent passwd ann robot fixed || true; getent group staff2 robot || true"); got != "" {
		t.Errorf("what is left: %s", got)
	}
}

func TestInHostCron(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	h.step("job: {cron.present: {command: 'date +%F > /tmp/x', cron: '*/5 * * * *', user: nobody, env: {A: b}}}", "job: changed intended")
	data, err := os.ReadFile("/etc/cron.d/job")
	must(t, err)
	if want := "# Written by zester for the state job.\nA=\"b\"\n*/5 * * * * nobody date +\\%F > /tmp/x\n"; string(data) != want {
		t.Errorf("the file is %q", data)
	}
	h.wants(h.run("job: {cron.present: {command: x, cron: '@daily', user: nosuch}}", true), "job: failed")
	h.step("job: {cron.absent: {}}", "job: changed intended")
}

// TestInHostTestModeChangesNothing compares all files of the host before and after.
func TestInHostTestModeChangesNothing(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	h.run("zt-a: {pkg.installed: {version: '1.0'}}", false)
	before := listing(t, h.dir)
	for _, text := range []string{
		"zt-a: {pkg.latest: {}}\nzt-b: {pkg.installed: {}}", "zt-a: {pkg.removed: {purge: true}}\nno-such: {pkg.installed: {}}",
		"g: {group.present: {}}\nu: {user.present: {groups: [g]}}\nuucp: {user.absent: {remove_home: true}}",
		"j: {cron.present: {command: x, cron: '@daily'}}\n/etc/hostname: {file.managed: {content: x, mode: '0600'}}\n/etc/cron.daily: {file.absent: {}}",
		"cron: {service.dead: {enable: false, mask: true}}\ndbus: {service.running: {}}",
	} {
		r := h.run(text, true)
		for _, o := range r.States {
			if o.Result != WouldChange && o.Function != "service.running" && o.State != "no-such" && o.Function != "service.dead" {
				t.Errorf("%s is %s: %s", o.State, o.Result, o.Comment)
			}
		}
		after := listing(t, h.dir)
		for name, was := range before {
			if after[name] != was {
				t.Errorf("%s\nchanges %s from %s to %s", text, name, was, after[name])
			}
		}
		for name := range after {
			if before[name] == "" {
				t.Errorf("%s\nmakes %s", text, name)
			}
		}
	}
	h.run("zt: {pkg.removed: {names: [zt-a]}}", false)
}

// listing describes all files of the host but those of the kernel, the journal, and one directory.
func listing(t *testing.T, but string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir("/", func(name string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case name == "/proc", name == "/sys", name == "/dev", name == "/run", name == "/var/log", name == "/tmp", name == but, strings.HasPrefix(name, "/var/lib/systemd"):
			return fs.SkipDir
		}
		info, err := d.Info()
		if err == nil {
			all[name] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return nil
	}))
	return all
}
