package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// A troubled fleet has a master and peels as processes, on which the pages about troubles are typed.
type troubled struct {
	t        *testing.T
	bin, dir string
	bus, web string // ports
	z        cli
	token    string
	commits  int
}

// TestThePagesAboutTroublesAreTyped brings about what each section begins with, and types what it says.
func TestThePagesAboutTroublesAreTyped(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the commands")
	}
	f := &troubled{t: t, bin: programs(t), dir: t.TempDir(), bus: freePort(t), web: freePort(t)}
	f.commit(`  backup: {module: cmd.run, args: {command: 'true'}, interval: 5s, interval_from: epoch}
  a: {module: test.ping, interval: 1h}
  b: {module: test.ping, interval: 1h}
  c: {module: test.ping, interval: 1h}
  d: {module: test.ping, interval: 1h}
`)
	startDaemon(t, f.bin+"zester-master", "--repo", f.dir+"/fleet", "--data-dir", f.dir+"/master", "--listen", "127.0.0.1:"+f.bus,
		"--rest-listen", "127.0.0.1:"+f.web, "--poll", "1s").await(`master is ready`)
	f.z = cli{t, f.bin + "zester", []string{"ZESTER_DATA_DIR=" + f.dir + "/master"}}
	f.token = f.z.must("auth", "join-token", "create", "--name", "tour", "--peel", "*", "--ttl", "1h", "--uses", "9")
	web, db := f.peel("web-01", "web-01"), f.peel("db-01", "db-01")
	for _, p := range []*daemon{web, db} {
		p.await(`settings applied`)
	}

	web = f.missed(web)
	f.held()
	f.leaked(db)

	// The host gets another ID. The old one is then lost, so the page about lost hosts has the same last command.
	web.stop()
	for _, name := range []string{"peel.nk", "peel.creds"} {
		if err := os.Remove(filepath.Join(f.dir, "web-01", name)); err != nil {
			t.Fatal(err)
		}
	}
	f.token = f.z.must("auth", "join-token", "create", "--peel", "app-*", "--ttl", "1h")
	f.peel("app-01", "web-01").await(`settings applied`)
	f.want(f.typeAll("rename.md", "Renaming a host"), `(?s)app-01 +yes.*web-01.*web-01 is revoked.*settings/all.yaml:1 in the config repo names web-01`)
	lost := strings.TrimSpace(typedBlocks(t, "zester/guide/lost.md", "A host"))
	if lost != "zester peel remove web-01" {
		t.Errorf("the page about lost hosts types %q", lost)
	}
	f.want(f.z.must("peel", "list", "-o", "name"), `^app-01\ndb-01$`)
}

// missed stops a peel over a fire that another peel runs, and asks why it did not run there.
func (f *troubled) missed(web *daemon) *daemon {
	f.t.Helper()
	f.z.until(`ran`, "web-01", "schedule.fires", "entry=backup")
	web.stop()
	due := time.Now().UTC().Add(5 * time.Second).Truncate(5 * time.Second)
	at := due.Format(time.TimeOnly)
	f.z.until(`\bran\b`, "schedule", "fires", "db-01", "backup", "--from", due.Format(time.RFC3339),
		"--to", due.Add(time.Second).Format(time.RFC3339))
	web = f.peel("web-01", "web-01")
	f.z.until(`missed`, "why", "web-01", "backup", at)
	f.want(f.typeAll("missed.md", "Ask why", "02:30", at), `backup on web-01: missed \(down\)\n.*zester-peel was not running`)
	for _, args := range [][]string{
		{"peel", "show", "web-01"},
		{"schedule", "history", "web-01", "backup"},
		{"coverage", "--entry", "backup"},
		{"guide", "entry", "catch_up"},
	} {
		f.mentions("missed.md", "Ask why", args)
		f.z.until(`backup|catch_up|web-01`, args...) // coverage ends with 2, because a fire was missed
	}
	return web
}

// held commits the removal of more entries than limits allow.
func (f *troubled) held() {
	f.t.Helper()
	f.commit("  backup: {module: cmd.run, args: {command: 'true'}, interval: 5s, interval_from: epoch}\n")
	f.z.until(`GuardBlocked`, "sync", "status")
	hash := regexp.MustCompile(`zester sync approve ([0-9a-f]{8,})`).FindStringSubmatch(f.z.must("sync", "status"))
	if hash == nil {
		f.t.Fatalf("no hash in %s", f.z.must("sync", "status"))
	}
	f.want(f.typeAll("held.md", "See it, and let it out", "0f3c9b77", hash[1]), `(?s)GuardBlocked.*removed`)
	f.z.until(`(?i)in force.*`, "sync", "status")
	f.z.must("sync", "wait", "--peels", "2", "--timeout", "1m")
}

// leaked revokes each kind of credential.
func (f *troubled) leaked(db *daemon) {
	f.t.Helper()
	f.z.must("auth", "user", "add", "lee", "--role", "operator", "--out", f.dir+"/lee.creds")
	f.z.must("auth", "token", "create", "ci", "--scope", "read", "--ttl", "1h")
	for _, command := range [][]string{
		{"auth", "user", "revoke", "lee"},
		{"auth", "token", "revoke", "ci"},
		{"auth", "join-token", "revoke", "tour"},
		{"auth", "peel", "revoke", "db-01"},
	} {
		f.mentions("leaked.md", "Revoke it", command)
		f.z.must(command...)
	}
	db.await(`authorization violation|credential was revoked`)
	if out, err := exec.Command(f.z.program, "--url", "tls://127.0.0.1:"+f.bus, "--creds", f.dir+"/lee.creds", "peel", "list").CombinedOutput(); err == nil {
		f.t.Errorf("lee is still let in: %s", out)
	}
	f.want(f.typeAll("leaked.md", "Revoke it"), `(?s)enroll.revoke|user.revoke`)
}

// commit makes the next commit of the config repo, with these entries.
func (f *troubled) commit(entries string) {
	f.t.Helper()
	files := map[string]string{
		"top.yaml":          "base:\n  '*': [all]\n",
		"settings/all.yaml": "# web-01 was the first.\nschedule:\n" + entries,
		"zester.yaml":       "limits: {remove: 10%}\n",
	}
	if f.commits++; f.commits == 1 {
		tree := fstest.MapFS{}
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if _, err := worktree.Init(f.dir+"/fleet", tree, "the fleet", worktree.Author{Name: "Ada", Email: "ada@example.com"}); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(f.dir+"/fleet/settings/all.yaml", []byte(files["settings/all.yaml"]), 0o600); err != nil {
		f.t.Fatal(err)
	}
	git := exec.Command("git", "-C", f.dir+"/fleet", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qam", "fewer entries")
	if out, err := git.CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// peel starts a peel with the data directory of a host.
func (f *troubled) peel(id, host string) *daemon {
	f.t.Helper()
	return startDaemon(f.t, f.bin+"zester-peel", "--id", id, "--data-dir", filepath.Join(f.dir, host), "--url", "tls://127.0.0.1:"+f.bus,
		"--join", f.token+"@127.0.0.1:"+f.web)
}

// typeAll types the commands of a section, with replacements, and returns what they print.
func (f *troubled) typeAll(page, section string, replace ...string) string {
	f.t.Helper()
	script := strings.NewReplacer(replace...).Replace(typedBlocks(f.t, "zester/guide/"+page, section))
	if script == "" {
		f.t.Fatalf("the section %q has no commands", section)
	}
	bash := exec.CommandContext(f.t.Context(), "bash", "-e", "-c", script)
	bash.Env = append(append(os.Environ(), f.z.env...), "PATH="+f.bin+":"+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// mentions fails if a section does not have a command, which then is typed as it stands there.
func (f *troubled) mentions(page, section string, command []string) {
	f.t.Helper()
	text, err := os.ReadFile("zester/guide/" + page)
	if err != nil {
		f.t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n## "+section+"\n")
	body, _, _ = strings.Cut(body, "\n## ")
	if want := "`zester " + strings.Join(command, " ") + "`"; !strings.Contains(body, want) {
		f.t.Errorf("the section %q of %s does not have %s", section, page, want)
	}
}

func (f *troubled) want(out, pattern string) {
	f.t.Helper()
	if !regexp.MustCompile(pattern).MatchString(out) {
		f.t.Errorf("no %s in\n%s", pattern, out)
	}
}
