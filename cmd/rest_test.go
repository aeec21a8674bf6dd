package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheGuideToTheAPIRunsAsPrinted types the guide's section about the REST API into a shell, in a directory and on ports
// of the test's own.
func TestTheGuideToTheAPIRunsAsPrinted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	script := strings.Builder{}
	script.WriteString(goBuild(t))
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n") // else what was started outlives a step that failed
	script.WriteString(typedBlocks(t, "zester/guide/api.md", "Ten minutes"))
	dir := t.TempDir()
	typed := strings.NewReplacer("18440", freePort(t), "18222", freePort(t)).Replace(script.String())
	bash := exec.CommandContext(t.Context(), "bash", "-e", "-c", typed)
	bash.Dir, bash.Env = "..", append(os.Environ(), "TMPDIR="+dir)
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"event: dispatched\n", "event: return\ndata: {\"peel\":\"web-01\"", "event: status\n", "load average", `"state":"ok"`, `"user":"token:ci"`,
		`"peels":["web-01"],"total":1`, `"title":"Forbidden"`, "the function schedule.pause is none of", "the token has expired or was revoked", "ci    revoked",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the guide leaves %v behind: %v", left, err)
	}
}

// TestTheGuideToSchedulesRunsAsPrinted types the commands that need no master.
func TestTheGuideToSchedulesRunsAsPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	typed := strings.ReplaceAll(typedBlocks(t, "zester/guide/schedules.md", "Without a master"), "/tmp/", dir+"/")
	bash := exec.CommandContext(t.Context(), "bash", "-e", "-c", typed)
	bash.Dir, bash.Env = "..", append(os.Environ(), "PATH="+programs(t)+":"+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "WORST MINUTE"; !strings.Contains(string(out), want) {
		t.Errorf("the guide prints no %s:\n%s", want, out)
	}
}
