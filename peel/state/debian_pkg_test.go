//go:build linux && debian

package state

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/file"
)

// foreign is an architecture of packages that is not the one of the host.
const foreign = "riscv64"

// packages builds a repository: arch has two architectures, and its setup fails on request, a 1.0 and 2.0, b needs a, c conflicts with a, e provides another name, bad cannot be set up.
func packages(t *testing.T, dir string) {
	t.Helper()
	for _, p := range []string{"a_1.0", "a_2.0", "b_1.0:Depends: a", "c_1.0:Conflicts: a", "e_1.0:Provides: virtual", "f_1.0", "bad_1.0", "slow_1.0", "conf_1.0"} {
		p, field, _ := strings.Cut(p, ":")
		name, version, _ := strings.Cut(p, "_")
		build := filepath.Join(t.TempDir(), p)
		must(t, os.MkdirAll(build+"/DEBIAN", 0o755))
		must(t, os.MkdirAll(build+"/usr/share/"+name, 0o755))
		must(t, os.WriteFile(build+"/usr/share/"+name+"/version", []byte(version), 0o644))
		control := fmt.Sprintf("Package: zt-%s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: test\n", name, version)
		if field != "" {
			key, value, _ := strings.Cut(field, ": ")
			control += key + ": zt-" + value + "\n"
		}
		must(t, os.WriteFile(build+"/DEBIAN/control", []byte(control), 0o644))
		if name == "conf" {
			must(t, os.MkdirAll(build+"/etc/zt", 0o755))
			must(t, os.WriteFile(build+"/etc/zt/conf", []byte("x\n"), 0o644))
			must(t, os.WriteFile(build+"/DEBIAN/conffiles", []byte("/etc/zt/conf\n"), 0o644))
		}
		if name == "bad" {
			must(t, os.WriteFile(build+"/DEBIAN/postinst", []byte("#!/bin/sh\necho cannot do it\nexit 1\n"), 0o755))
		}
		if name == "slow" {
			must(t, os.WriteFile(build+"/DEBIAN/postinst", []byte("#!/bin/sh\nset -e\ntouch /run/zt.began\nsleep 3\necho it goes on\ntouch /run/zt.done\n"), 0o755))
		}
		must(t, os.MkdirAll(dir, 0o755))
		if out, err := exec.Command("dpkg-deb", "-b", build, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, arch := range []string{runtime.GOARCH, foreign} {
		build := filepath.Join(t.TempDir(), "arch")
		must(t, os.MkdirAll(build+"/DEBIAN", 0o755))
		control := "Package: zt-arch\nVersion: 1.0\nArchitecture: " + arch + "\nMulti-Arch: same\n" +
			"Maintainer: x <x@example.com>\nDescription: test\n"
		must(t, os.WriteFile(build+"/DEBIAN/control", []byte(control), 0o644))
		fails := "#!/bin/sh\ntest ! -e /run/zt.broken-" + arch + "\n"
		must(t, os.WriteFile(build+"/DEBIAN/postinst", []byte(fails), 0o755))
		if out, err := exec.Command("dpkg-deb", "-b", build, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	worldPackages(t, dir)
	out, err := exec.Command("sh", "-c", "cd "+dir+" && dpkg-scanpackages -m . > Packages").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestInHostPackages(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	sh(t, "dpkg --purge zt-a zt-b zt-c zt-e 2>&1; rm -rf /var/lib/apt/lists/*")
	// Before the first refresh test mode does not know the package.
	h.wants(h.run("zt-a: {pkg.installed: {}}", true), "zt-a: unknown")
	h.wants(h.run("zt-a: {pkg.installed: {version: '1.0'}}", false), "zt-a: changed intended")
	h.step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: unchanged")
	h.step("zt-a: {pkg.installed: {}}", "zt-a: unchanged") // any version
	r := h.step("zt-a: {pkg.latest: {}}", "zt-a: changed intended")
	if c := r.States[0].Changes[0]; c.Do != "upgrade" || c.Before != "1.0" || c.After != "2.0" {
		t.Errorf("%+v", c)
	}
	h.step("zt-a: {pkg.installed: {version: '1.0'}}", "zt-a: changed intended") // a downgrade
	r = h.step("zt-b: {pkg.installed: {}}", "zt-b: changed intended")
	// A package that conflicts would remove two that no state names.
	r = h.run("zt-c: {pkg.installed: {}}", false)
	h.wants(r, "zt-c: failed")
	if want := "which the state does not name; allow_removals: true allows it"; !strings.Contains(r.States[0].Comment, want) {
		t.Errorf("the comment is %q, want %q in it", r.States[0].Comment, want)
	}
	r = h.run("zt-a: {pkg.removed: {}}", false) // b needs it
	h.wants(r, "zt-a: failed")
	r = h.step("x: {pkg.removed: {names: [zt-a, zt-b]}}", "x: changed intended")
	if !r.States[0].Changes[0].Deletes {
		t.Errorf("%+v", r.States[0].Changes)
	}
	h.step("zt-e: {pkg.installed: {}}\nzt-virtual: {pkg.installed: {}}", "zt-e: changed intended", "zt-virtual: unchanged")
	r = h.run("no-such-package: {pkg.installed: {}}", false)
	h.wants(r, "no-such-package: failed")
	if !strings.Contains(r.States[0].Comment, "Unable to locate package no-such-package") {
		t.Error(r.States[0].Comment)
	}
	h.step("zt-c: {pkg.installed: {allow_removals: true}}", "zt-c: changed intended")
	if _, err := os.Stat("/usr/share/c/version"); err != nil {
		t.Error(err)
	}
}

// TestInHostFilesOfPackagesThatComeOrGo: what a package may bring is unknown, and what it takes along is known.
func TestInHostFilesOfPackagesThatComeOrGo(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	sh(t, "apt-get -qq update; dpkg --purge zt-conf zt-f 2>&1; rm -rf /etc/zt")
	const coming = `
zt-conf: {pkg.installed: {}}
gone: {file.absent: {path: /etc/zt/conf}, require: [zt-conf]}
log: {cmd.run: {command: 'true', creates: DIR/x}, onchanges: [gone]}
own: {file.managed: {path: DIR/own, content: x}}
`
	h.wants(h.run(coming, true), "zt-conf: would_change intended", "gone: unknown", "log: unknown", "own: unknown")
	const line = "zt-conf: {pkg.installed: {}}\nline: {file.line: {path: /etc/zt/conf, line: y}}\nown: {file.managed: {path: DIR/own, content: x}}"
	h.wants(h.run(line, true), "zt-conf: would_change intended", "line: unknown", "own: would_change intended")
	h.wants(h.run("zt-conf: {pkg.installed: {}}", false), "zt-conf: changed intended")
	// It goes, and its configuration stays.
	const going = `
rm: {pkg.removed: {name: zt-conf}}
tool: {file.absent: {path: /usr/share/conf/version}, require: [rm]}
conf: {file.line: {path: /etc/zt/conf, line: y}, require: [rm]}
log: {cmd.run: {command: 'touch DIR/x', creates: DIR/x}, onchanges: [tool]}
`
	r := h.run(going+"in: {file.managed: {path: /usr/share/conf/own, content: x}, require: [rm]}", true)
	h.wants(r, "rm: would_change intended", "tool: unchanged", "conf: would_change intended", "log: skipped onchanges_unmet", "in: failed")
	h.step(going, "rm: changed intended", "tool: unchanged", "conf: changed intended", "log: skipped onchanges_unmet")
	if r := h.run("in: {file.managed: {path: /usr/share/conf/own, content: x}}", false); r.Success() {
		t.Error("the directory of the package is left")
	}
	h.wants(h.run("zt-conf: {pkg.installed: {}}", false), "zt-conf: changed drift")
	h.step("rm: {pkg.removed: {name: zt-conf, purge: true}}\nconf: {file.absent: {path: /etc/zt/conf}, require: [rm]}", "rm: changed intended", "conf: unchanged")
	// What hangs on a package that is unknown is unknown too.
	const repo = `
ours: {pkgrepo.managed: {uris: ['file:/repo'], suites: [./]}}
zt-f: {pkg.installed: {}}
own: {file.managed: {path: DIR/own, content: x, user: zt-acct}, require: [zt-f]}
gone: {file.absent: {path: /usr/share/f/version}, require: [zt-f]}
`
	h.wants(h.run(repo, true), "ours: would_change intended", "zt-f: unknown", "own: unknown", "gone: unknown")
}

// transactions counts those of apt since the host began.
func transactions(t *testing.T) int {
	data, err := os.ReadFile("/var/log/apt/history.log")
	must(t, err)
	return strings.Count(string(data), "Start-Date")
}

// TestInHostNeighboursAreOneTransaction also holds that what one transaction changes is in the result of each state.
func TestInHostNeighboursAreOneTransaction(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	sh(t, "dpkg --purge zt-b zt-a zt-c zt-e zt-f 2>&1; apt-get -qq update")
	before := transactions(t)
	r := h.step("zt-b: {pkg.installed: {}}\nzt-e: {pkg.installed: {}}\nzt-f: {pkg.installed: {}}", "zt-b: changed intended", "zt-e: changed intended", "zt-f: changed intended")
	if len(r.States[0].Changes) != 2 || len(r.States[1].Changes) != 1 {
		t.Errorf("the changes are %+v and %+v", r.States[0].Changes, r.States[1].Changes)
	}
	h.step("x: {pkg.removed: {names: [zt-b, zt-a]}}\nzt-f: {pkg.removed: {}}\nzt-e: {pkg.removed: {}}", "x: changed intended", "zt-f: changed intended", "zt-e: changed intended")
	if n := transactions(t) - before; n != 2 {
		t.Errorf("%d transactions, want 2", n)
	}
	// One that cannot be set up fails; the others are judged by what dpkg says.
	const bad = "zt-e: {pkg.installed: {}}\nzt-bad: {pkg.installed: {}}\nzt-f: {pkg.installed: {}}\nlog: {cmd.run: {command: 'echo x >> DIR/log'}, onchanges: [zt-f]}"
	r = h.run(bad, false)
	h.wants(r, "zt-e: changed intended", "zt-bad: failed intended", "zt-f: changed intended", "log: changed intended")
	if !strings.Contains(r.States[1].Comment, "cannot do it") {
		t.Errorf("the comment is %q", r.States[1].Comment)
	}
	h.wants(h.run(bad, false), "zt-e: unchanged", "zt-bad: failed intended", "zt-f: unchanged", "log: skipped onchanges_unmet")
	// Of a transaction that failed, what it installed is a change.
	sh(t, "dpkg --purge zt-e zt-bad 2>&1")
	r = h.run("both: {pkg.installed: {names: [zt-e, zt-bad]}}", false)
	h.wants(r, "both: failed intended")
	if c := r.States[0].Changes; len(c) != 1 || c[0].What != "zt-e" {
		t.Errorf("the changes are %+v", c)
	}
	// One that apt-get does not know fails alone.
	h.wants(h.run("no-such: {pkg.installed: {}}\nzt-b: {pkg.installed: {}}", false), "no-such: failed", "zt-b: changed drift")
	// A run that is canceled during the transaction has a result for each state that it changed.
	sh(t, "dpkg --purge zt-bad zt-b zt-a zt-e 2>&1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := h.set("zt-a: {pkg.installed: {}}\nzt-e: {pkg.installed: {}}\nf: {file.managed: {path: DIR/f, content: x}}")
	go func() {
		for transactions(t) == before+2 {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	before = transactions(t) - 2
	r, err := h.r.Run(ctx, Request{Set: set})
	must(t, err)
	if r.States[0].Result != r.States[1].Result {
		h.wants(r, "zt-a: changed intended", "zt-e: changed intended", "f: skipped canceled")
	}
	sh(t, "dpkg --purge zt-a zt-e zt-f 2>&1")
}

// TestInHostArchitectures: a package that is half configured, or one of its architectures, changes what a transaction
// says and how it ends. What is predicted is done.
func TestInHostArchitectures(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	arch := strings.TrimSpace(sh(t, "dpkg --print-architecture"))
	sh(t, "dpkg --add-architecture %s; apt-get -qq update; dpkg --purge zt-a zt-bad 2>&1", foreign)
	half := func(names ...string) { // those are half configured, and nothing else of zt-arch is there
		sh(t, "dpkg --purge zt-arch:%s zt-arch:%s zt-bad 2>&1; rm -f /run/zt.broken*", arch, foreign)
		for _, name := range names {
			_, of, _ := strings.Cut(name, ":")
			sh(t, "touch /run/zt.broken-%s; apt-get -qq -y install %s > /dev/null 2>&1 || true; rm -f /run/zt.broken*", of, name)
		}
	}
	native, other := "zt-arch:"+arch, "zt-arch:"+foreign
	for _, c := range []struct {
		name, names, want string
		half              []string
	}{
		{"another package", native, "install zt-arch", []string{"zt-bad"}},
		{"another package, by its plain name", "zt-arch", "install zt-arch", []string{"zt-bad"}},
		{"itself", native, "configure zt-arch", []string{native}},
		{"itself, by its plain name", "zt-arch", "configure zt-arch", []string{native}},
		{"the other architecture", native, "install zt-arch", []string{other}},
		{"the other architecture, by its plain name", "zt-arch", "install zt-arch", []string{other}},
		{"the other architecture is wanted", other, "install " + other, []string{native}},
		{"the other architecture is wanted and half", other, "configure " + other, []string{other}},
	} {
		half(c.half...)
		r := h.step("p: {pkg.installed: {name: '"+c.names+"'}}", "p: changed intended")
		if got := r.States[0].Changes; len(got) != 1 || got[0].Do+" "+got[0].What != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
		must(t, os.RemoveAll(h.dir+"/.state"))
	}
	// One that stays half configured is predicted as it is tried, and fails.
	half("zt-bad")
	h.wants(h.run("b: {pkg.installed: {name: zt-bad}}", true), "b: would_change intended")
	h.wants(h.run("b: {pkg.installed: {name: 'zt-bad:all'}}", true), "b: would_change intended")
	r := h.run("b: {pkg.installed: {name: 'zt-bad:all'}}", false)
	h.wants(r, "b: failed intended")
	if c := r.States[0].Changes; len(c) > 0 {
		t.Errorf("the changes are %+v", c)
	}
	// The plain name removes all architectures, a full name one.
	half()
	h.step("p: {pkg.installed: {names: ['"+native+"', '"+other+"']}}", "p: changed intended")
	h.step("p: {pkg.removed: {name: '"+native+"'}}", "p: changed intended")
	h.step("p: {pkg.installed: {name: '"+native+"'}}\nq: {pkg.installed: {name: '"+other+"'}}", "p: changed intended", "q: unchanged")
	h.step("p: {pkg.removed: {name: zt-arch}}", "p: changed intended")
	sh(t, "dpkg --purge zt-bad; dpkg --remove-architecture %s; apt-get -qq update", foreign)
}

func TestInHostARepository(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	must(t, os.WriteFile(h.dir+"/key", []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"), 0o644))
	h.r.o.Files.Source = func(context.Context, string) (file.Content, error) {
		data, err := os.ReadFile(h.dir + "/key")
		return file.Content{Data: data}, err
	}
	const repo = "ours: {pkgrepo.managed: {uris: ['http://127.0.0.1:9/debian'], suites: [stable], components: [main], key: files/key}}\n"
	h.step(repo, "ours: changed intended")
	data, err := os.ReadFile("/etc/apt/sources.list.d/ours.sources")
	must(t, err)
	if want := "# Written by zester.\nTypes: deb\nURIs: http://127.0.0.1:9/debian\nSuites: stable\nComponents: main\nSigned-By: /etc/apt/keyrings/ours.asc\n"; string(data) != want {
		t.Errorf("the repository is %q", data)
	}
	sh(t, "apt-get indextargets > /dev/null") // apt can read it
	h.step("ours: {pkgrepo.managed: {absent: true}}", "ours: changed intended")
	if out := sh(t, "ls /etc/apt/sources.list.d /etc/apt/keyrings"); strings.Contains(out, "ours") {
		t.Errorf("left is %s", out)
	}
	// A package of a repository that is not there yet is unknown.
	h.wants(h.run("ours: {pkgrepo.managed: {uris: ['file:/repo'], suites: [./]}}\nzt-f: {pkg.installed: {}}", true), "ours: would_change intended", "zt-f: unknown")
}

// TestInHostDpkgIsNeverKilled ends a state by its timeout and a run by SIGKILL while a package is set up.
func TestInHostDpkgIsNeverKilled(t *testing.T) {
	needsHost(t)
	h := newHost(t)
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	finished := func(how string) {
		t.Helper()
		for range 600 {
			if exists("/run/zt.done") && strings.Contains(sh(t, "dpkg-query -W -f '${db:Status-Status}' zt-slow"), "installed") {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(200 * time.Millisecond) // dpkg writes its status
		if got := sh(t, "dpkg-query -W -f '${db:Status-Status}' zt-slow"); got != "installed" {
			t.Errorf("%s, the package is %q", how, got)
		}
		sh(t, "apt-get -qq -o DPkg::Lock::Timeout=60 purge -y zt-slow; rm -f /run/zt.*")
	}
	for timeout := 2; ; timeout *= 2 { // on a busy machine apt takes longer than two seconds before dpkg begins
		r := h.run(fmt.Sprintf("zt-slow: {pkg.installed: {}, timeout: %ds}", timeout), false)
		want := fmt.Sprintf("it took longer than its timeout of %ds", timeout)
		if c := r.States[0].Comment; r.States[0].Result == Failed && !strings.Contains(c, want) {
			t.Fatalf("the comment is %q", c)
		}
		if exists("/run/zt.began") {
			break
		}
	}
	finished("after a timeout")
	cmd := exec.Command("/test")
	cmd.Env = append(os.Environ(), killedStates+"=zt-slow: {pkg.installed: {}}", killedDir+"="+h.dir)
	must(t, cmd.Start())
	for !exists("/run/zt.began") {
		<-time.After(10 * time.Millisecond)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	finished("after the end of the peel")
}
