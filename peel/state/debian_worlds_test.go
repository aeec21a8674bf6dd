//go:build linux && debian

package state

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
)

var (
	worldCount = flag.Int("worlds", 12, "number of random worlds in each host")
	worldSeed  = flag.Uint64("worlds.seed", 1, "seed of the first world")
)

// worldPackages builds packages that own what states change too: files, a conffile, a directory, a user, a unit.
func worldPackages(t *testing.T, dir string) {
	t.Helper()

	for _, version := range []string{"1.0", "2.0"} {
		build(t, dir, "zt-site", version, "", map[string]string{
			"/DEBIAN/conffiles":         "/etc/zt-site/site.conf\n",
			"/etc/zt-site/site.conf":    "port = 1\nversion = " + version + "\n",
			"/etc/zt-site/enabled/base": "base\n",
			"/usr/bin/zt-tool":          "#!/bin/sh\necho " + version + "\n",
		})
	}
	build(t, dir, "zt-acct", "1.0", "#!/bin/sh\nid ztacct > /dev/null 2>&1 || useradd --system ztacct\n", map[string]string{
		"/usr/share/zt-acct/readme": "acct\n",
	})
	build(t, dir, "zt-daemon", "1.0", "", map[string]string{
		"/lib/systemd/system/zt-daemon.service": "[Service]\nEnvironment=V=package\nExecStart=/bin/sleep infinity\n",
	})
}

// build makes one package with files by path; those below /DEBIAN are its control files.
func build(t *testing.T, dir, name, version, postinst string, files map[string]string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), name)

	files["/DEBIAN/control"] = fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: test\n", name, version)
	if postinst != "" {
		files["/DEBIAN/postinst"] = postinst
	}
	for path, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must(t, os.MkdirAll(filepath.Dir(root+path), 0o755))
		must(t, os.WriteFile(root+path, []byte(text), mode))
	}

	must(t, os.MkdirAll(dir, 0o755))
	if out, err := exec.Command("dpkg-deb", "-b", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A world is a host with random packages, files, units and accounts, and random states for it.
type world struct {
	r       *rand.Rand
	dir     string // for files of no package
	systemd bool
	before  []string // commands that make the host
	states  []string // in YAML
	after   map[string]string
	private []string          // files with a secret
	units   map[string]string // the value of V that a unit must have when the states are applied, by name
}

func (w *world) one(of ...string) string { return of[w.r.IntN(len(of))] }

func (w *world) maybe() bool { return w.r.IntN(2) == 0 }

// add adds a state. It requires another one if that is given and part of the world.
func (w *world) add(name, call, requires, more string) {
	if w.after[requires] != "" {
		more += ", require: [" + requires + "]"
	}
	w.after[name] = call
	w.states = append(w.states, fmt.Sprintf("%s: {%s%s}", name, call, more))

	if w.r.IntN(3) == 0 {
		w.states = append(w.states, fmt.Sprintf("after-%s: {cmd.run: {command: 'echo x >> %s/log'}, onchanges: [%s]}", name, w.dir, name))
	}
}

// packages adds states of packages, and what they are about may be there before.
func (w *world) packages() {
	for _, name := range []string{"zt-site", "zt-acct", "zt-daemon"} {
		if w.maybe() {
			w.before = append(w.before, "apt-get -qq -y install "+name+w.version(name))
		}
		switch w.r.IntN(6) {
		case 0, 1, 2:
			w.add(name, "pkg.installed: {}", "", "")
		case 3:
			w.add(name, "pkg.latest: {}", "", "")
		case 4:
			w.add(name, "pkg.removed: {purge: "+w.one("true", "false")+"}", "", "")
		}
	}
}

func (w *world) version(name string) string {
	if name == "zt-site" {
		return w.one("", "=1.0")
	}
	return ""
}

// files adds states of files: of packages, that a command makes, of a user that a package makes.
func (w *world) files() {
	for i, path := range []string{"/etc/zt-site/site.conf", "/etc/zt-site/enabled/base", "/etc/zt-site/enabled/own", "/usr/bin/zt-tool", w.dir + "/a", w.dir + "/made"} {
		if w.r.IntN(3) == 0 {
			continue
		}
		name := fmt.Sprintf("file%d", i)
		requires := map[bool]string{true: "zt-site", false: "made"}[strings.Contains(path, "zt-")]
		if w.r.IntN(4) == 0 {
			w.before = append(w.before, fmt.Sprintf("test ! -d %s || echo by hand >> %s", filepath.Dir(path), path))
		}
		w.add(name, fmt.Sprintf(w.one(
			"file.managed: {path: %s, content: \"one\\n\"}",
			"file.managed: {path: %s, content: \"one\\n\", makedirs: true, mode: '0600'}",
			"file.managed: {path: %s, content: \"one\\n\", replace: false}",
			"file.managed: {path: %s, content: \"ok\\n\", check: [grep, -q, ok, '{}']}",
			"file.managed: {path: %s, content: \"no\\n\", check: [grep, -q, ok, '{}']}",
			"file.absent: {path: %s}",
			"file.line: {path: %s, line: port = 2, match: '^port'}",
			"file.block: {path: %s, content: block, marker: m}",
			"file.block: {path: %s, content: block, begin: '[zt', end: 'zt]'}",
			"file.replace: {path: %s, pattern: '^(port) = [0-9]$', repl: '${1} = 33'}",
		), path), requires, "")
	}
	if w.maybe() {
		w.add("owned", fmt.Sprintf("file.managed: {path: %s/owned, content: x, user: ztacct}", w.dir), "zt-acct", "")
	}
	if w.maybe() { // the package may have made it
		w.add("account", "user.present: {name: ztacct, system: true, comment: zt}", "zt-acct", "")
	}
}

// commands adds commands with effects.
func (w *world) commands() {
	if w.maybe() {
		w.add("made", fmt.Sprintf("cmd.run: {command: 'echo made > %s/made', creates: %[1]s/made}", w.dir), "", "")
	}
	if w.r.IntN(3) == 0 {
		w.add("half", fmt.Sprintf("cmd.run: {command: 'touch %s/half; exit 1', creates: %[1]s/half}", w.dir), "", ", retry: {attempts: 2, interval: 10ms}")
	}
}

// trees adds a directory that is cleaned, with states in it and with a file whose size is no size of memory.
func (w *world) trees() {
	if w.maybe() {
		return
	}
	w.before = append(w.before, fmt.Sprintf("mkdir -p %s/tree/old; echo x > %[1]s/tree/old/f; truncate -s 400M %[1]s/tree/huge", w.dir))
	w.add("tree", fmt.Sprintf("file.directory: {path: %s/tree, clean: %s, mode: '0750', recurse: [mode]}", w.dir, w.one("true", "false")), "", "")
	if w.maybe() {
		w.add("kept", fmt.Sprintf("file.managed: {path: %s/tree/kept, content: x, mode: '0640'}", w.dir), "tree", "")
	}
	if w.maybe() {
		w.add("copied", fmt.Sprintf("file.recurse: {path: %s/tree/copied, source: files/copied, dir_mode: '0750', file_mode: '0750'}", w.dir), "tree", "")
	}
}

// secrets adds files with a secret that a template writes as it is, or in another form. files/FORM is such a template.
func (w *world) secrets() {
	for _, form := range []string{"plain", "json", "shell"} {
		if w.r.IntN(3) == 0 {
			name := "secret-" + form
			if w.maybe() {
				w.before = append(w.before, fmt.Sprintf("echo old > %s/%s", w.dir, name))
			}
			w.add(name, fmt.Sprintf("file.managed: {path: %s/%s, source: files/%s, template: true}", w.dir, name, form), "", "")
			w.private = append(w.private, w.dir+"/"+name)
		}
	}
}

// worldSecret has each character that a form of it writes otherwise.
const worldSecret = "it's \"a\" se\\cret\nof two lines"

// worldSecretForms are parts of the forms of the secret, as a result in JSON has them.
var worldSecretForms = []string{"se\\\\cret", "se\\\\\\\\cret", base64.StdEncoding.EncodeToString([]byte(worldSecret))[:24]}

// checkSecrets finds forms of the secret in results, and files with it that others can read.
func (w *world) checkSecrets(t *testing.T, results ...*Result) {
	t.Helper()
	for _, r := range results {
		data, err := json.Marshal(r)
		must(t, err)
		for _, form := range worldSecretForms {
			if strings.Contains(string(data), form) {
				t.Errorf("a result has the secret as %s: %s", form, data)
			}
		}
	}
	for _, path := range w.private {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
			t.Errorf("others can read %s with the secret: %v", path, info.Mode())
		}
	}
}

// services adds units, drop-ins and their services.
func (w *world) services() {
	if !w.systemd {
		return
	}
	value := w.one("one", "two")
	content := fmt.Sprintf("\"[Service]\\nEnvironment=V=%s\\nExecStart=/bin/sleep infinity\\n\"", value)

	if w.maybe() {
		if w.maybe() {
			w.before = append(w.before, "printf '[Service]\\nEnvironment=V=old\\nExecStart=/bin/sleep infinity\\n' > /etc/systemd/system/zt-own.service; systemctl daemon-reload; "+w.one("true", "systemctl start zt-own"))
		}
		w.add("own-unit", "file.managed: {path: /etc/systemd/system/zt-own.service, content: "+content+"}", "", "")
		w.add("own", "service.running: {name: zt-own}", "", ", watch: [own-unit]")
		w.units["zt-own"] = value
	}

	if !strings.HasPrefix(w.after["zt-daemon"], "pkg.installed") && !strings.HasPrefix(w.after["zt-daemon"], "pkg.latest") {
		return
	}
	if slices.ContainsFunc(w.before, func(c string) bool { return strings.Contains(c, "install zt-daemon") }) && w.maybe() {
		w.before = append(w.before, "systemctl start zt-daemon")
	}
	switch w.r.IntN(3) {
	case 0:
		w.add("drop-in", "file.managed: {path: /etc/systemd/system/zt-daemon.service.d/v.conf, makedirs: true, content: \"[Service]\\nEnvironment=V="+value+"\\n\"}", "zt-daemon", "")
	case 1:
		w.add("drop-in", "file.managed: {path: /etc/systemd/system/zt-daemon.service, content: "+content+"}", "zt-daemon", "")
	default:
		return
	}
	w.add("daemon", "service.running: {name: zt-daemon}", "zt-daemon", ", watch: [drop-in]")
	w.units["zt-daemon"] = value
}

// worldKeys are SSH keys; nobody has their private parts.
var worldKeys = []string{
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
}

// edits adds states that change parts of files: keys of a user, names of hosts, what starts at boot.
func (w *world) edits() {
	if w.maybe() {
		w.add("login", "user.present: {name: ztlogin}", "", "")
	}
	if w.maybe() {
		if w.maybe() {
			w.before = append(w.before, "useradd --create-home ztlogin; mkdir ~ztlogin/.ssh; echo '"+w.one(worldKeys...)+" old' > ~ztlogin/.ssh/authorized_keys; chown -R ztlogin: ~ztlogin/.ssh")
		}
		function := w.one("ssh_auth.present", "ssh_auth.absent")
		w.add("keys", fmt.Sprintf("%s: {user: ztlogin, keys: ['%s new']}", function, w.one(worldKeys...)), "login", "")
	}
	if w.maybe() {
		w.before = append(w.before, w.one("true", "echo '10.9.8.7 zt-db' >> /etc/hosts", "echo '10.9.8.6 zt-db zt-old' >> /etc/hosts"))
		w.add("names", "host.present: {names: [zt-db, zt-cache], ip: 10.9.8.7}", "", "")
	}
	if w.systemd && w.maybe() {
		w.before = append(w.before, w.one("systemctl enable cron", "systemctl disable cron"))
		w.add("boot", w.one("service.enabled", "service.disabled")+": {name: cron}", "", "")
	}
}

// system adds states for parts of the host that are no files.
func (w *world) system() {
	if w.maybe() {
		w.before = append(w.before, w.one("true", "mkdir -p /etc/sysctl.d && echo 'net.ipv4.ip_forward = 7' > /etc/sysctl.d/99-zester.conf"))
		now, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward") // hosts of tests may not change it
		if err == nil {
			w.add("forward", fmt.Sprintf("sysctl.present: {name: net.ipv4.ip_forward, value: '%s'}", strings.TrimSpace(string(now))), "", "")
		}
	}
	if _, err := os.Stat("/usr/share/zoneinfo/Europe/Berlin"); err == nil && w.maybe() {
		w.before = append(w.before, w.one("true", "ln -sf /usr/share/zoneinfo/UTC /etc/localtime", "rm -f /etc/localtime; cp /usr/share/zoneinfo/UTC /etc/localtime"), w.one("rm -f /etc/timezone", "echo UTC > /etc/timezone"))
		w.add("zone", "timezone.system: {name: Europe/Berlin}", "", "")
	}
	if w.maybe() {
		w.before = append(w.before, w.one("true", fmt.Sprintf("mkdir %s/mnt; mount -t tmpfs none %[1]s/mnt", w.dir)), w.one("true", "echo 'none\t"+w.dir+"/mnt\ttmpfs\tro\t0\t0' >> /etc/fstab"))
		w.add("mnt", fmt.Sprintf("mount.mounted: {name: %s/mnt, device: none, fstype: tmpfs, opts: [size=1m], makedir: true, persist: %s}", w.dir, w.one("true", "false")), "", "")
		if w.maybe() {
			w.add("in-mnt", fmt.Sprintf("file.managed: {path: %s/mnt/f, content: x}", w.dir), "mnt", "")
		}
	}
	if w.maybe() {
		w.before = append(w.before, w.one("true", "echo zt-ask zt-ask/kind string old | debconf-set-selections"))
		w.add("ask", "debconf.set: {name: zt-ask, content: \"zt-ask/kind string "+w.one("old", "new")+"\\nzt-ask/word password x y\\n\"}", "", "")
	}
}

// newWorld makes a host anew and returns its states.
func newWorld(t *testing.T, seed uint64, h *fixture) *world {
	t.Helper()
	_, err := os.Stat("/run/systemd/system")
	w := &world{r: rand.New(rand.NewPCG(seed, 11)), dir: h.dir, systemd: err == nil, after: map[string]string{}, units: map[string]string{}}

	w.packages()
	w.commands()
	w.files()
	w.trees()
	w.services()
	w.secrets()
	w.edits()
	w.system()
	w.deployments()
	w.archives()
	w.reports()
	if w.r.IntN(4) == 0 {
		w.before = append(w.before, "rm -rf /var/lib/apt/lists/*") // test mode does not know new packages
	}

	sh(t, `export DEBIAN_FRONTEND=noninteractive
systemctl stop zt-own zt-daemon zt-once zt-masked 2> /dev/null || true
systemctl -q unmask zt-masked 2> /dev/null || true
systemctl -q disable zt-masked zt-once 2> /dev/null || true
apt-get -qq update
apt-get -qq -y purge zt-site zt-acct zt-daemon
rm -rf /etc/zt-site /usr/bin/zt-tool /etc/systemd/system/zt-*
userdel ztacct 2> /dev/null || true
userdel --remove ztlogin 2> /dev/null || true
echo PURGE | debconf-communicate zt-ask > /dev/null
touch /etc/fstab; sed -i /tmpfs/d /etc/fstab
rm -f /etc/sysctl.d/99-zester.conf
touch /etc/hosts; sed -i /zt-/d /etc/hosts
test ! -e /run/systemd/system || systemctl daemon-reload`)
	t.Cleanup(func() { sh(t, "umount -q %s/mnt || true", w.dir) })
	for _, c := range w.before {
		sh(t, "%s", strings.ReplaceAll(c, "%", "%%"))
	}
	return w
}

// contradicts reports whether states of the world undo each other, so that each run changes the host again.
func (w *world) contradicts() bool {
	if w.after["made"] != "" && strings.HasPrefix(w.after["file5"], "file.absent") {
		return true // a command makes the file
	}
	for name, call := range w.after {
		if strings.HasPrefix(call, "pkg.removed") && (name == "zt-site" || name == "zt-acct") {
			return true // files of states are in its directories, or belong to its user
		}
	}
	return false
}

// TestInHostWorlds makes random hosts and random states, and holds in all of them: what a test predicts is what a run does, or
// it is called unknown; a second test is empty; a unit has what its files say; a run takes no memory by the size of a file.
func TestInHostWorlds(t *testing.T) {
	needsHost(t)
	if *worldCount == 0 {
		t.Skip("no worlds")
	}
	known := 0
	for seed := *worldSeed; seed < *worldSeed+uint64(*worldCount); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { known += tryWorld(t, seed) })
	}
	t.Logf("%d predictions of %d worlds", known, *worldCount)
}

// tryWorld returns the number of predictions that were compared.
func tryWorld(t *testing.T, seed uint64) (known int) {
	h := newHost(t)
	h.r.o.Files = file.Inputs{
		Source: worldSource,
		Data:   map[string]any{"settings": map[string]any{"key": mustache.MarkSecret(worldSecret)}},
		Tree:   func(string) ([]string, error) { return []string{"one", "sub/two"}, nil },
	}
	w := newWorld(t, seed, h)
	text := strings.Join(w.states, "\n")
	var applied *Result
	defer func() {
		if t.Failed() && applied != nil {
			t.Logf("the host:\n%s\nits states:\n%s\napplied:\n%s", strings.Join(w.before, "\n"), text, strings.Join(verdicts(applied), "\n"))
		}
	}()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	began := m.TotalAlloc
	predicted := h.run(text, true)
	runtime.ReadMemStats(&m)
	if took := (m.TotalAlloc - began) >> 20; took > 100 {
		t.Errorf("the test took %d MiB of memory", took)
	}

	applied = h.run(text, false)
	for i, p := range predicted.States {
		if w.sameOutcome(t, p, applied.States[i]) {
			known++
		}
	}

	w.checkUnits(t, applied)
	again := h.run(text, true)
	w.checkSecrets(t, predicted, applied, again)
	if applied.Success() && !w.contradicts() { // what failed, and what depends on it, is done by the next run
		for _, o := range again.States {
			if o.Result != Unchanged && o.Result != Skipped {
				t.Errorf("the second test: %s is %s %s %+v %s", o.State, o.Result, o.Reason, o.Changes, o.Comment)
			}
		}
	}
	return known
}

// worldSource returns a file of the config repo: a template with the secret, or a text.
func worldSource(_ context.Context, name string) (file.Content, error) {
	switch filepath.Base(name) {
	case "world.tar":
		return file.Content{Data: smallArchive()}, nil
	case "plain":
		return file.Content{Data: []byte("key={{settings.key}}\n")}, nil
	case "json", "shell":
		return file.Content{Data: []byte("key={{settings.key | " + filepath.Base(name) + "}}\n")}, nil
	}
	return file.Content{Data: []byte("copied\n")}, nil
}

// sameOutcome compares a prediction with what was done, and reports whether there was one. How a command ends is in no
// prediction, so neither is what depends on one that fails.
func (w *world) sameOutcome(t *testing.T, p, a Outcome) bool {
	t.Helper()
	if p.Result == Unknown || a.Function == "cmd.run" && a.Result == Failed || afterFailure(a) {
		return false
	}
	verdict := strings.Replace(string(p.Result), string(WouldChange), string(Changed), 1)
	if verdict != string(a.Result) || a.Result != Failed && fmt.Sprint(lasting(p.Changes)) != fmt.Sprint(lasting(a.Changes)) {
		t.Errorf("%s is predicted as %s %+v (%s), and applied as %s %+v (%s)", p.State, p.Result, p.Changes, p.Comment, a.Result, a.Changes, a.Comment)
	}
	return true
}

// lasting returns the changes without daemon-reload, which depends on what systemd has dropped from its memory meanwhile.
func lasting(changes []host.Change) []host.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c host.Change) bool { return c.Do == "daemon-reload" })
}

// afterFailure reports whether a state was not run because of one that failed.
func afterFailure(o Outcome) bool { return o.Result == Skipped && o.Reason != OnChangesUnmet }

// checkUnits compares what systemd has loaded with what the states wrote.
func (w *world) checkUnits(t *testing.T, applied *Result) {
	t.Helper()
	for unit, value := range w.units {
		service := strings.TrimPrefix(unit, "zt-")
		i := slices.IndexFunc(applied.States, func(o Outcome) bool { return o.State == service })
		if i < 0 || applied.States[i].Result == Failed || applied.States[i].Result == Skipped {
			continue
		}
		pid := strings.TrimSpace(sh(t, "systemctl show --property=MainPID --value %s", unit))
		data, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil || !strings.Contains("\x00"+string(data), "\x00V="+value+"\x00") {
			t.Errorf("%s runs with another V than %s: %q %v", unit, value, data, err)
		}
	}
}
