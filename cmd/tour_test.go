package cmd_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// TestTheTourRunsAsPrinted types the tour of the guide into a shell, in a directory and on a port of the test's own.
func TestTheTourRunsAsPrinted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	script := goBuild(t) + typedBlocks(t, "zester/guide/tour.md", "Ten minutes")
	dir := t.TempDir()
	typed := strings.NewReplacer("14222", freePort(t), "14440", freePort(t)).Replace(script)
	bash := exec.CommandContext(t.Context(), "bash", "-e", "-c", typed)
	bash.Dir, bash.Env = "..", append(os.Environ(), "TMPDIR="+dir)
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"2 of 2 applied", "web-01:\n    hello\n", "file:      settings/web/nginx.yaml:8", "Ada Operator <ada@example.com>",
		`settings/web/nginx.yaml:11:5: schedule.hello.intervall: unknown field; did you mean "interval"?`,
		"EXPECTED", "hello on web-01: ran", "no alerts", `"status":"ok"`, "token:ci: schedules: add disk-report\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the tour leaves %v behind: %v", left, err)
	}
}

// typedBlocks returns the commands that a section of a Markdown file has in blocks marked sh.
func typedBlocks(t *testing.T, file, section string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, section)
	}
	body, _, _ = strings.Cut(body, "\n## ")
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(body, -1) {
		script.WriteString(block[1])
	}
	return script.String()
}

// freePort returns a port of loopback that nobody else is given while the test runs.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(natstest.Reserve(t, 1)[0])
}
