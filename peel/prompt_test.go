package peel_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/prompt"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	schedulepkg "github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A promptBench holds a peel that asks a model on loopback, in real time, and hears what the peel reports.
type promptBench struct {
	t     *testing.T
	nc    *nats.Conn
	heard chan *nats.Msg
	log   syncBuffer

	mu   sync.Mutex
	sent []string // the JSON that the model got
}

const modelKey = "sk-0123456789abcdefghijklmnop"

// startPrompt starts a peel with entries of its configuration. The model answers with what answer returns.
func startPrompt(t *testing.T, schedule string, answer func(w http.ResponseWriter, asked string)) *promptBench {
	b := &promptBench{t: t, heard: make(chan *nats.Msg, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.sent = append(b.sent, string(body))
		b.mu.Unlock()
		answer(w, string(body))
	}))
	t.Cleanup(server.Close)
	bus := natstest.Listen(t)
	b.nc = bus.Conn(t, grants.RoleMaster, "m1")
	for _, subject := range []string{wire.AllScheduled, wire.ReturnOf("*", "*"), wire.AllApplied, wire.AllFacts} {
		if _, err := b.nc.ChanSubscribe(subject, b.heard); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	config := prompt.Default()
	config.URL, config.Model, config.KeyFile = server.URL, "small", filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(config.KeyFile, []byte(modelKey), 0o600); err != nil {
		t.Fatal(err)
	}
	node, err := strictyaml.Parse("peel.yaml", []byte(schedule))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := schedulepkg.ParseSet(node)
	if err != nil {
		t.Fatal(err)
	}
	p, err := peel.New(peel.Options{
		ID: id, DataDir: t.TempDir(), URL: bus.URL(), Connect: bus.Options(grants.RolePeel, id.Wire()), Schedule: entries,
		Facts: target.Facts{"role": "web"}, Prompt: &config, Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if strings.Contains(b.log.String(), modelKey[:8]) {
			t.Error("the key is in the log")
		}
	})
	return b
}

// hear waits for a message on a subject; others are passed over.
func (b *promptBench) hear(subject string) *nats.Msg {
	b.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case msg := <-b.heard:
			if matches(subject, msg.Subject) {
				return msg
			}
		case <-late:
			b.t.Fatalf("nothing on %s; the log: %s", subject, b.log.String())
		}
	}
}

func answers(w http.ResponseWriter, text string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": "stop"}}})
}

func TestAnEntryWithAPromptAsksTheModelAndReportsTheAnswer(t *testing.T) {
	b := startPrompt(t, `
ask: {prompt: Check the disks., opts: {system: Be brief.}, interval: 1h, run_on_start: true, return_job: true}
`, func(w http.ResponseWriter, asked string) { answers(w, "The disks are fine, says "+modelKey) })
	r, err := wire.DecodeScheduled(b.hear(wire.AllScheduled))
	data, _ := r.Data.(map[string]any)
	if err != nil || !r.Success || r.Entry != "ask" || r.Function != "prompt.run" || data["answer"] != "The disks are fine, says •••" || r.JID == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if len(b.sent) != 1 || !strings.Contains(b.sent[0], `{"role":"system","content":"Be brief."},{"role":"user","content":"Check the disks."}`) {
		t.Errorf("the model got %q", b.sent)
	}
	if r.Args["prompt"] != "Check the disks." {
		t.Errorf("arguments %v", r.Args)
	}
}

func TestAnAnswerThatMatchesFailIfIsAFailedRun(t *testing.T) {
	b := startPrompt(t, `
ask: {module: prompt.run, args: {prompt: Check the disks., fail_if: FULL}, interval: 1h, run_on_start: true, return_job: failures}
`, func(w http.ResponseWriter, asked string) { answers(w, "They are FULL.") })
	r, err := wire.DecodeScheduled(b.hear(wire.AllScheduled))
	if err != nil || r.Success || r.Error != `the answer matches fail_if "FULL"` || r.Entry != "ask" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A model that hangs keeps no place of the requests that change the host, and the peel answers the next ones.
func TestAPromptThatHangsKeepsNoCommandFromRunning(t *testing.T) {
	hang, asked := make(chan struct{}), make(chan struct{})
	b := startPrompt(t, "{}", func(w http.ResponseWriter, _ string) {
		close(asked)
		<-hang
		answers(w, "At last.")
	})
	defer close(hang)
	facts, err := wire.DecodeFacts(b.hear(wire.AllFacts))
	if models, _ := facts.Facts["prompt_models"].([]any); err != nil || !slices.Equal(models, []any{"small"}) {
		t.Errorf("facts %v, %v", facts.Facts, err)
	}
	b.hear(wire.AllApplied) // the peel listens for requests
	b.ask("prompt.run", map[string]any{"prompt": "Well?", "context": []any{map[string]any{"function": "facts.get", "args": map[string]any{"key": "role"}}}})
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the model was not asked")
	}
	b.mu.Lock()
	if want := `DATA {\"function\":\"facts.get\",\"args\":{\"key\":\"role\"},\"success\":true,\"data\":\"web\"}`; !strings.Contains(b.sent[0], want) {
		t.Errorf("the model got %s", b.sent[0])
	}
	b.mu.Unlock()
	b.ask("cmd.run", map[string]any{"command": "echo done"})
	r, err := wire.DecodeReturn(b.hear(wire.ReturnOf("*", "*")))
	if data, _ := r.Data.(map[string]any); err != nil || !r.Success || data["stdout"] != "done\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

func (b *promptBench) ask(function string, args map[string]any) {
	b.t.Helper()
	data, err := canon.Marshal(wire.Request{JID: wire.NewJID(), Function: function, Args: args, Epoch: 1, User: "ada", V: wire.Version})
	if err == nil {
		err = b.nc.Publish(wire.Cmd(id.Wire()), data)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestAPeelWithoutAModelSaysSo(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		if r := b.call("prompt.run", map[string]any{"prompt": "Well?"}); r.Success || r.Error != "this peel cannot run prompt.run: it needs prompt in peel.yaml" {
			t.Errorf("%+v", r)
		}
		names, _ := b.call("sys.list_functions", nil).Data.([]any)
		if slices.Contains(names, any("prompt.run")) || !slices.Contains(names, any("test.ping")) {
			t.Errorf("functions %v", names)
		}
		if _, has := b.storedFacts()["prompt_models"]; has {
			t.Error("the peel says that it runs prompts")
		}
	})
}
