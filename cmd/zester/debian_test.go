//go:build linux && debian

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/shell"
)

const formulas = "movein/testdata/formulas/"

// hostImages is the folder in which the tests of package peel/state leave the file systems that they make. It is below the
// temporary directory of the machine: TestMain sets another one for the tests.
var hostImages = filepath.Join(os.TempDir(), "zester-debian")

// TestOnADebianHostThatSaltHasConverged makes a Debian host as a lowstate says, by the tools of Debian alone, and gives
// its peel the states that import salt makes of the lowstate: import check finds nothing but what the report of import salt
// names. DEBIAN_TAR names the file systems, as in package peel/state, whose tests make them if it names none.
func TestOnADebianHostThatSaltHasConverged(t *testing.T) {
	tar := filepath.Join(hostImages, "trixie.tar")
	if list := filepath.SplitList(os.Getenv("DEBIAN_TAR")); len(list) > 0 {
		tar = list[len(list)-1]
	}
	if _, err := os.Stat(tar); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and DEBIAN_TAR")
	}
	root := t.TempDir()
	onHost(t, "tar", "-C", root, "-xf", tar)
	low, pillar := readLow(t)
	packages(t, root)
	script := setUp(low, pillar, root)
	if err := os.WriteFile(root+"/salt.sh", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	onHost(t, "chroot", root, "/bin/bash", "-e", "/salt.sh")
	leader := bootHost(t, root)

	f := convertedFleet(t, low, pillar)
	startPeelIn(t, f, root, leader)
	if err := f.settle(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	checkHost(t, f, nil)

	// Each of these is found.
	onHost(t, "sh", "-ec", "cd "+root+"; echo other > etc/nginx/nginx.conf; chmod 0755 home/bob; : > home/bob/.ssh/authorized_keys")
	checkHost(t, f, []string{"nginx_config", "users_bob_user-file", "users_ssh_auth_bob_0", "bob-key-1", "nginx_service"})
}

// onHost runs a command of this machine.
func onHost(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// readLow returns the lowstate and the pillar of web-01.
func readLow(t *testing.T) (low []map[string]any, pillar map[string]any) {
	t.Helper()
	lows, err := readSaltFile[[]map[string]any](formulas + "low.json")
	if err != nil {
		t.Fatal(err)
	}
	pillars, err := readSaltFile[map[string]any](formulas + "pillar.json")
	if err != nil {
		t.Fatal(err)
	}
	return lows["web-01"], pillars["web-01"]
}

// packages builds the packages that the lowstate names and installs them.
func packages(t *testing.T, root string) {
	t.Helper()
	for name, unit := range map[string]string{
		"nginx": "nginx.service", "openssh-server": "ssh.service", "openssl": "", "apache2-utils": "", "sudo": "",
		"libpam-google-authenticator": "", "bind9-dnsutils": "",
	} {
		dir := filepath.Join(t.TempDir(), name)
		files := map[string]string{
			"DEBIAN/control": "Package: " + name + "\nVersion: 9:1.0\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: test\n",
		}
		if unit != "" {
			files["lib/systemd/system/"+unit] = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
		}
		for file, text := range files {
			to := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		onHost(t, "dpkg-deb", "--build", "--root-owner-group", dir, root+"/"+name+".deb")
		onHost(t, "chroot", root, "dpkg", "--force-all", "-i", "/"+name+".deb")
	}
}

// templates are the texts that Salt renders from templates that import salt converts itself.
var templates = map[string]string{
	"/etc/nginx/nginx.conf":                "user www-data;\nworker_processes 4;\n",
	"/etc/nginx/snippets/letsencrypt.conf": "# letsencrypt\ncharset utf-8;\n",
	"/etc/nginx/snippets/security.conf":    "# security\ncharset utf-8;\n",
}

// setUp returns the script that makes a host as the lowstate says, in its order but for users and groups, which come first.
func setUp(low []map[string]any, pillar map[string]any, root string) string {
	var first, rest strings.Builder
	first.WriteString("set -x\nuseradd -m carol\n")
	for _, d := range low {
		d := declared{d, pillar}
		to := &rest
		if d.m["state"] == "group" || d.m["state"] == "user" {
			to = &first
		}
		to.WriteString(d.script())
	}
	return first.String() + rest.String()
}

// A declared is a declaration of the lowstate with the pillar.
type declared struct {
	m      map[string]any
	pillar map[string]any
}

func (d declared) text(key string) string {
	if d.m[key] == nil {
		return ""
	}
	return fmt.Sprint(d.m[key])
}

// script returns what makes the host as one declaration says.
func (d declared) script() string {
	name := shell.Word(d.text("name"))
	switch d.text("state") + "." + d.text("fun") {
	case "group.present":
		gid := ""
		if d.text("gid") != "" {
			gid = "-g " + d.text("gid")
		}
		return fmt.Sprintf("getent group %s || groupadd %s %s\n", name, gid, name)
	case "user.present":
		return fmt.Sprintf("useradd -m -u %s -g %s -G adm,www-data -s /bin/bash -c %s -p %s %s\n", d.text("uid"), name, shell.Word(d.text("fullname")), shell.Word(d.text("password")), name)
	case "file.managed":
		return d.file()
	case "file.directory":
		return fmt.Sprintf("mkdir -p %s\n", name) + d.owner()
	case "file.recurse":
		return d.tree()
	case "file.symlink":
		return fmt.Sprintf("ln -sfn %s %s\n", shell.Word(d.text("target")), name)
	case "file.absent":
		return fmt.Sprintf("rm -rf %s\n", name)
	case "file.append":
		lines := ""
		for _, line := range d.m["text"].([]any) {
			lines += fmt.Sprintf("echo %s >> %s\n", shell.Word(fmt.Sprint(line)), name)
		}
		return lines
	case "file.exists", "file.replace":
		return fmt.Sprintf("mkdir -p \"$(dirname %s)\"; touch %[1]s\n", name)
	case "ini.options_present":
		lines := ""
		for _, key := range []string{"PasswordAuthentication", "X11Forwarding"} {
			lines += fmt.Sprintf("echo %s >> %s\n", shell.Word(key+" "+fmt.Sprint(d.m["sections"].(map[string]any)[key])), name)
		}
		return lines
	case "ssh_auth.present":
		return d.key()
	case "cmd.run":
		if made := d.text("creates"); made != "" {
			return fmt.Sprintf("mkdir -p \"$(dirname %s)\"; touch %[1]s\n", shell.Word(made))
		}
	case "service.running":
		return fmt.Sprintf("systemctl enable %s\n", name)
	case "pkgrepo.managed":
		return fmt.Sprintf("echo %s > %s\n", name, shell.Word(d.text("file")))
	}
	return "" // packages are there, and what is absent is not
}

func (d declared) owner() string {
	name, text := shell.Word(d.text("name")), ""
	if user := d.text("user"); user != "" {
		text += fmt.Sprintf("chown %s %s\n", user, name)
	}
	if group := d.text("group"); group != "" {
		text += fmt.Sprintf("chgrp %s %s\n", group, name)
	}
	if mode := d.text("mode"); mode != "" {
		text += fmt.Sprintf("chmod %s %s\n", mode, name)
	}
	return text
}

// tree copies the files of a directory.
func (d declared) tree() string {
	from := formulas + "roots/" + strings.TrimPrefix(d.text("source"), "salt://")
	script := ""
	err := filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil || name == from {
			return err
		}
		to := shell.Word(d.text("name") + strings.TrimPrefix(name, from))
		if e.IsDir() {
			script += fmt.Sprintf("mkdir -p %s; chown %s: %[1]s\n", to, d.text("user"))
			return nil
		}
		text, err := os.ReadFile(name)
		script += fmt.Sprintf("printf %%s %s > %s; chown %s: %[2]s\n", shell.Word(string(text)), to, d.text("user"))
		return err
	})
	if err != nil {
		panic(err)
	}
	return script
}

// file writes the content of a file.
func (d declared) file() string {
	name := d.text("name")
	content, isKnown := templates[name]
	if pushed, err := os.ReadFile(formulas + "pushed/web-01/files" + name); err == nil {
		content, isKnown = string(pushed), true
	}
	if key := d.text("contents_pillar"); key != "" {
		var value any = d.pillar
		for step := range strings.SplitSeq(key, ":") {
			value = value.(map[string]any)[step]
		}
		content, isKnown = fmt.Sprint(value), true
	}
	if text := d.text("contents"); text != "" {
		content, isKnown = text, true
	}
	sources, _ := d.m["source"].([]any)
	if source := d.text("source"); len(sources) == 0 && source != "" {
		sources = []any{source}
	}
	for _, source := range sources {
		text, err := os.ReadFile(formulas + "roots/" + strings.TrimPrefix(fmt.Sprint(source), "salt://"))
		if err == nil && !isKnown {
			content, isKnown = string(text), true
		}
	}
	at := shell.Word(name)
	script := fmt.Sprintf("mkdir -p \"$(dirname %s)\"\n", at)
	if isKnown {
		script += fmt.Sprintf("printf %%s %s > %s\n", shell.Word(strings.TrimSuffix(content, "\n")+"\n"), at)
	} else {
		script += "touch " + at + "\n"
	}
	return script + d.owner()
}

// key returns a script that adds a key to the authorized_keys of a user.
func (d declared) key() string {
	line := d.text("name")
	if !strings.Contains(line, " ") {
		line = d.text("enc") + " " + line + " " + d.text("comment")
	}
	if source := d.text("source"); source != "" {
		text, _ := os.ReadFile(formulas + "roots/" + strings.TrimPrefix(source, "salt://"))
		line = strings.TrimSpace(string(text))
	}
	if options, _ := d.m["options"].([]any); len(options) > 0 {
		line = fmt.Sprint(options[0]) + " " + line
	}
	home := "/home/" + d.text("user")
	return fmt.Sprintf("install -d -o %s -g %[1]s -m 700 %s/.ssh\necho %s >> %[2]s/.ssh/authorized_keys\nchown %[1]s:%[1]s %[2]s/.ssh/authorized_keys\nchmod 600 %[2]s/.ssh/authorized_keys\n", d.text("user"), home, shell.Word(line))
}

// bootHost starts a host with systemd and returns the PID of its first process.
func bootHost(t *testing.T, root string) string {
	t.Helper()
	var console bytes.Buffer
	host := exec.Command("systemd-nspawn", "--register=no", "--keep-unit", "-q", "-D", root, "-b", "--console=passive")
	host.Env = append(os.Environ(), "UNIFIED_CGROUP_HIERARCHY=1")
	host.Stdout, host.Stderr = &console, &console
	if err := host.Start(); err != nil {
		t.Skip(err)
	}
	leader := 0
	t.Cleanup(func() {
		if leader > 0 {
			_ = syscall.Kill(leader, syscall.SIGKILL) // systemd-nspawn then ends by itself
		} else {
			_ = host.Process.Kill()
		}
		_ = host.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the host does not start: %s", console.String())
		}
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", host.Process.Pid))
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			continue
		}
		leader = pid
		out, _ := exec.Command("nsenter", "-a", "-t", strconv.Itoa(pid), "systemctl", "is-system-running").Output()
		if state := strings.TrimSpace(string(out)); state == "running" || state == "degraded" {
			return strconv.Itoa(pid)
		}
	}
}

// convertedFleet starts a master with the repo that import salt makes, with its secrets in plain text.
func convertedFleet(t *testing.T, low []map[string]any, pillar map[string]any) *fleet {
	t.Helper()
	hosts, err := movein.Minions(map[string][]map[string]any{"web-01": low}, map[string]map[string]any{"web-01": pillar}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := movein.Salt(movein.SaltInput{
		Hosts: hosts, Roots: []fs.FS{os.DirFS(formulas + "roots")}, Pushed: os.DirFS(formulas + "pushed"), Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d declarations converted", r.Converted, r.Declarations)
	tree := fstest.MapFS{}
	for _, files := range []map[string][]byte{r.Files, r.Secrets} {
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: text, Mode: 0o644}
		}
	}
	dir := t.TempDir()
	f := &fleet{dir: filepath.Join(dir, "master")}
	if f.work, err = worktree.Init(filepath.Join(dir, "repo"), tree, "From Salt", ada); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	if err := f.startMaster(ctx, g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = g.Wait()
	})
	return f
}

// startPeelIn starts the program of the peel inside the host, which shares the network of this machine.
func startPeelIn(t *testing.T, f *fleet, root, leader string) {
	t.Helper()
	onHost(t, "env", "CGO_ENABLED=0", "go", "build", "-o", root+"/zester-peel", "../zester-peel")
	creds, err := f.keys.Creds(grants.RolePeel, "web-01", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/peel.creds", creds, 0o600); err != nil {
		t.Fatal(err)
	}
	onHost(t, "cp", f.ca, root+"/ca.crt")
	log, err := os.Create(filepath.Join(t.TempDir(), "peel.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "-a", "-t", leader, "/zester-peel", "--id", "web-01", "--data-dir", "/var/lib/zester", "--url", f.url, "--ca", "/ca.crt", "--creds", "/peel.creds")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the peel ends with its host
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%.4000s, %v", text, err)
		}
	})
}

// checkHost runs import check. Beside the named states nothing would change but what the report of import salt names: a
// repository gets a file of its own, and three commands run each time. What these may bring is unknown, and nothing else is.
func checkHost(t *testing.T, f *fleet, drifted []string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"--data-dir", f.dir, "import", "check", "web-01", "-o", "json"}, &out, &errOut)
	var got struct {
		Differences []difference   `json:"differences"`
		Counts      map[string]int `json:"counts"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%d: %v: %s%s", code, err, &out, &errOut)
	}
	t.Logf("states: %v", got.Counts)
	found := map[string]bool{}
	for _, d := range got.Differences {
		isNamed := d.State == "nginx_repo" || strings.HasPrefix(d.State, "validate ")
		isBehind := d.Result == "unknown" && (strings.Contains(d.What, "a command or a package that would be run") || strings.Contains(d.What, "its guard may depend on"))
		switch {
		case slices.Contains(drifted, d.State) && d.Result == "would_change":
			found[d.State] = true
		case !isNamed && !isBehind:
			t.Errorf("%s: %s %s: %s", d.State, d.Function, d.Result, d.What)
		}
	}
	if len(found) != len(drifted) || got.Counts["would_change"] > 4+len(drifted) || got.Counts["unchanged"] < 70 {
		t.Errorf("found %v of %v; states: %v", found, drifted, got.Counts)
	}
}
