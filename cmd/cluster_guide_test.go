//go:build cluster

package cmd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestClusterOfTheGuide types the recipe of the guide, and kills each server and each master in turn while a command runs.
// Each is started again, as systemd does, before the next.
func TestClusterOfTheGuide(t *testing.T) {
	bin, dir := programs(t), t.TempDir()
	certify(t, dir+"/bus.crt", dir+"/bus.key")
	if err := os.Link(dir+"/bus.crt", dir+"/bus-ca.crt"); err != nil {
		t.Fatal(err)
	}
	ports := []string{}
	for _, port := range []string{"11522", "12522", "13522", "11622", "12622", "13622", "11440", "12440"} {
		ports = append(ports, port, freePort(t))
	}
	// The recipe makes ports of $n.
	typed := strings.NewReplacer("127.0.0.1:1${n}522", "$(echo 11522 12522 13522 | cut -d' ' -f$n | sed s/^/127.0.0.1:/)",
		"127.0.0.1:1${n}622", "$(echo $ROUTES | cut -d, -f$n)").Replace(typedBlocks(t, "zester/guide/ha.md", "The recipe"))
	typed = strings.NewReplacer(ports...).Replace(typed)
	t.Cleanup(func() { endAll(t, dir) })
	h := highlyAvailable{t: t, dir: dir, env: append(os.Environ(), "HA="+dir, "PATH="+bin+":"+os.Getenv("PATH"))}
	out := h.bash(typed + "echo $BUS >$HA/bus\n")
	if !strings.Contains(out, "web-01") || !strings.Contains(out, "web-02") {
		t.Fatal(out)
	}
	for _, victim := range []string{"s1", "s2", "s3", "m1", "m2"} {
		h.survives(victim)
	}
	for _, victim := range []string{"s1", "s2", "s3", "m1", "m2"} {
		h.bash(`for n in $(seq 300); do [ "$(grep -c "^` + victim + ` " $HA/done)" -lt 2 ] || exit 0; sleep 0.2; done`)
		if ran := h.bash(`grep "^` + victim + ` " $HA/done | sort | uniq -c`); strings.Count(ran, "      1 ") != 2 {
			t.Errorf("want one run on each peel of the job that was under way when %s was killed:\n%s", victim, ran)
		}
	}
}

// highlyAvailable is what the recipe has started.
type highlyAvailable struct {
	t   *testing.T
	dir string
	env []string
}

// bash runs a script and returns what it prints. Its output goes to a file, because the programs that it leaves behind
// would keep a pipe open.
func (h highlyAvailable) bash(script string) string {
	h.t.Helper()
	printed := filepath.Join(h.t.TempDir(), "printed")
	to, err := os.Create(printed)
	if err != nil {
		h.t.Fatal(err)
	}
	defer to.Close()
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-e", "-c", script)
	bash.Stdout, bash.Stderr = to, to
	bash.Env = append(h.env, "ZESTER_CREDS="+h.dir+"/ada.creds", "ZESTER_URL="+h.bus())
	err = bash.Run()
	text, _ := os.ReadFile(printed)
	if err != nil {
		h.t.Fatalf("%s\n%v\n%s", script, err, text)
	}
	return string(text)
}

// bus returns the URL of the three servers, empty before the recipe has run.
func (h highlyAvailable) bus() string {
	text, _ := os.ReadFile(h.dir + "/bus")
	return strings.TrimSpace(string(text))
}

// survives kills a server or a master while a job runs, and starts it again when the next command has succeeded.
func (h highlyAvailable) survives(victim string) {
	h.t.Helper()
	h.bash(`zester 'web-*' cmd.run command='sleep 2; echo ` + victim + ` $PPID >>` + h.dir + `/done' --async`)
	h.bash("kill -9 $(cat $HA/" + victim + ".pid)")
	began := time.Now()
	h.bash(`until zester 'web-*' test.ping --timeout 5s >/dev/null 2>&1; do :; done`)
	h.t.Logf("%s is killed: a command succeeds after %.1f s", victim, time.Since(began).Seconds())
	again := "nats-server -c $HA/" + victim + ".conf 2>>$HA/" + victim + ".log & "
	if strings.HasPrefix(victim, "m") {
		again = "zester-master --data-dir $HA/" + victim + " --nats $ZESTER_URL --creds $HA/" + victim + ".creds --replicas 3 2>>$HA/" + victim + ".log & "
	}
	h.bash(again + "echo $! >$HA/" + victim + `.pid
until zester doctor >$HA/doctor 2>&1; do sleep 0.5; done`)
}

// endAll kills the processes whose numbers are in files of a directory.
func endAll(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 1 {
			t.Fatalf("%s has %q", file, text)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
