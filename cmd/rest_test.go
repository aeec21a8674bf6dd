package cmd_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
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
	words := strings.NewReplacer("/tmp/", dir+"/", "/usr/share/doc/zester/", "")
	typed := words.Replace(typedBlocks(t, "zester/guide/schedules.md", "Without a master"))
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

// TestTheGuideToModelsRunsAsPrinted types the guide's section about models, with a model of the test's own.
func TestTheGuideToModelsRunsAsPrinted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	model := httptest.NewServer(http.HandlerFunc(answer))
	defer model.Close()
	_, port, err := net.SplitHostPort(model.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	script := goBuild(t) + "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + typedBlocks(t, "zester/guide/peels.md", "Models")
	dir := t.TempDir()
	typed := strings.NewReplacer("18440", freePort(t), "18222", freePort(t), "11434", port).Replace(script)
	bash := exec.CommandContext(t.Context(), "bash", "-e", "-c", typed)
	bash.Dir, bash.Env = "..", append(os.Environ(), "TMPDIR="+dir)
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"You asked: What is a peel?", "You asked: Is anything wrong with this host? Begin with OK or PROBLEM.", "web-01:\n    answer:\n      name: mango", "You asked: Tell a joke about schedules.", "prompt_sha256: "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the guide leaves %v behind: %v", left, err)
	}
}

// answer is a model that repeats the last message, or answers in JSON if it is to.
func answer(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Content string }
		Format   any `json:"response_format"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("Authorization") != "Bearer the-key-of-the-model" || len(asked.Messages) == 0 {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	text := "You asked: " + asked.Messages[len(asked.Messages)-1].Content
	if asked.Format != nil {
		text = `{"name": "mango"}`
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": "stop"}}})
}

// TestTheFirstFiveMinutesRunAsPrinted types those of somebody who knows Flux, and of somebody who knows Salt.
func TestTheFirstFiveMinutesRunAsPrinted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the three commands")
	}
	for page, wants := range map[string][]string{
		"flux": {"1 peel: web-01\n  ~ clock", `+     interval: "2s"`, "A slower clock", `Revert "A slower clock"`},
		"salt": {"web-01:\n    true\n", "1 would change", "1 changed", "1 unchanged"},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			script := goBuild(t) + "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + typedBlocks(t, "zester/guide/"+page+".md", "Five minutes")
			dir, began := t.TempDir(), time.Now()
			typed := strings.NewReplacer("18440", freePort(t), "18222", freePort(t)).Replace(script)
			bash := exec.CommandContext(t.Context(), "bash", "-e", "-c", typed)
			bash.Dir, bash.Env = "..", append(os.Environ(), "TMPDIR="+dir)
			out, err := bash.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s: %v", page, time.Since(began).Round(time.Second))
			for _, want := range wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the guide leaves %v behind: %v", left, err)
			}
		})
	}
}
