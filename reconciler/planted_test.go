package reconciler

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A witness keeps all that it hears, and everything that is written to it.
type witness struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.Write(p)
}

func (w *witness) hear(m *nats.Msg) {
	_, _ = w.Write([]byte(m.Subject + "\n"))
	for name, values := range m.Header {
		_, _ = fmt.Fprintln(w, name, values)
	}
	_, _ = w.Write(m.Data)
}

func (w *witness) holds(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.bytes.Bytes(), []byte(text))
}

// planted is a site whose repo holds random secrets, and all that it says and stores.
type planted struct {
	*soak
	alice   *nats.Conn
	w       *sopstest.Writer
	log     *slog.Logger
	said    witness
	secrets []string
	proof   string // a file with the hash of what a command was given
}

// settings of the peel: a map, a list, text of several lines, and an entry that tries to tell what it is given.
func (p *planted) settings() string {
	for range 5 {
		p.secrets = append(p.secrets, rand.Text())
	}
	s := p.secrets[len(p.secrets)-5:]
	return p.w.Encrypt("^(password|tokens|pem|TOKEN|stdin)$", fmt.Sprintf(`
db: {password: %s}
tokens: [{name: a, value: %s}]
pem: |
  first
  %s
schedule:
  tell:
    module: cmd.run
    interval: 5m
    run_on_start: true
    return_job: true
    args:
      command: printf %%s "$TOKEN" | sha256sum > %s; echo "$TOKEN"; cat >&2; exit 1
      env: {TOKEN: %s}
      stdin: %s
`, s[0], s[1], s[2], p.proof, s[3], s[4]))
}

func (p *planted) commit(text string) {
	p.t.Helper()
	if _, err := p.work.Commit("secrets", map[string][]byte{"settings/all.yaml": []byte(text)}, ada); err != nil {
		p.t.Fatal(err)
	}
}

// sync asks for the branch and returns the answer.
func (p *planted) sync(verb string) (out status.Sync) {
	p.t.Helper()
	for range 60 {
		msg, err := p.alice.Request(wire.API("sync", verb, "alice"), nil, 20*time.Second)
		if err == nil {
			p.said.hear(msg)
			if canon.Unmarshal(msg.Data, &out) == nil {
				return out
			}
		}
		time.Sleep(2 * time.Second)
	}
	p.t.Fatalf("sync.%s does not answer", verb)
	return out
}

func (p *planted) start() {
	p.t.Helper()
	nc := p.bus.Conn(p.t, grants.RoleMaster, "witness")
	for _, subject := range []string{"zester.>", "$KV.>"} {
		if _, err := nc.Subscribe(subject, p.said.hear); err != nil {
			p.t.Fatal(err)
		}
	}
	r, err := New(Options{
		Repo:  gitrepo.Options{URL: p.work.Dir(), Dir: filepath.Join(p.dir, "store"), Log: p.log},
		Owner: "m1", Identities: []string{p.w.Identities}, Log: p.log,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	ready := make(chan struct{})
	m, err := master.New(master.Options{
		ID: "m1", DataDir: filepath.Join(p.dir, "m1"), NATS: p.bus.URL(), Connect: p.bus.Options(grants.RoleMaster, "m1"),
		Services: []master.Service{r.unwatched}, Ready: func(master.Info) { close(ready) }, Log: p.log,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.soak.run("m1", m.Run)
	<-ready
	p.permit("alice")
	agent, err := peel.New(peel.Options{
		ID: "db-01", DataDir: filepath.Join(p.dir, "db-01"), URL: p.bus.URL(), Connect: p.bus.Options(grants.RolePeel, "db-01"), Zone: time.UTC, Log: p.log,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.soak.run("db-01", agent.Run)
}

// permit gives a person the permission to see secrets.
func (p *planted) permit(name string) {
	p.t.Helper()
	kv, err := p.bus.JetStream(p.t).KeyValue(p.t.Context(), wire.BucketUsers)
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := canon.Marshal(credential.User{Name: name, Role: grants.RoleOperator, Secrets: true})
	if err == nil {
		_, err = kv.Create(p.t.Context(), name, data)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// ran waits until the command was given a secret.
func (p *planted) ran(secret string) {
	p.t.Helper()
	sum := sha256.Sum256([]byte(secret))
	want := hex.EncodeToString(sum[:])
	for range 600 {
		if data, err := os.ReadFile(p.proof); err == nil && strings.HasPrefix(string(data), want) {
			return
		}
		time.Sleep(time.Second)
	}
	p.t.Fatalf("no command was given the secret; status %+v", p.sync("status"))
}

// provoke does what could make somebody tell a secret.
func (p *planted) provoke() {
	p.t.Helper()
	for function, args := range map[string]map[string]any{
		"settings.items": nil, "settings.get": {"key": "db:password"}, "schedule.list": nil, "schedule.history": {"entry": "tell"},
		"schedule.run": {"entry": "tell"}, "test.echo": {"text": p.proof},
	} {
		p.dispatch(function, args)
	}
	p.reveal()
	time.Sleep(time.Minute)
}

func (p *planted) dispatch(function string, args map[string]any) {
	p.t.Helper()
	data, err := canon.Marshal(job.Spec{
		JID: wire.NewJID(), Function: function, Args: args, Targets: []target.PeelID{"db-01"}, TargetExpr: "db-01", Timeout: 30 * time.Second,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	msg, err := p.alice.Request(wire.Dispatch("alice"), data, 20*time.Second)
	if err != nil || msg.Header.Get(micro.ErrorCodeHeader) != "" {
		p.t.Fatalf("%s is not dispatched: %v %v", function, msg, err)
	}
}

// reveal has the peel show a secret to alice, who has the permission to see it.
func (p *planted) reveal() {
	p.t.Helper()
	opener, err := settings.NewOpener()
	if err != nil {
		p.t.Fatal(err)
	}
	answers, err := p.alice.SubscribeSync(wire.ReturnOf("*", "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	p.dispatch("settings.get", map[string]any{"key": "db:password", catalogue.SecretsTo: string(opener.To)})
	for {
		msg, err := answers.NextMsg(time.Minute)
		if err != nil {
			p.t.Fatalf("nothing sealed was returned: %v", err)
		}
		var r struct {
			Data struct {
				Secrets *settings.Sealed `json:"secrets"`
			} `json:"data"`
		}
		if canon.Unmarshal(msg.Data, &r) != nil || r.Data.Secrets == nil {
			continue
		}
		if shown, err := opener.Open(r.Data.Secrets); err != nil || shown != p.secrets[len(p.secrets)-5] {
			p.t.Errorf("alice was shown %q, %v", shown, err)
		}
		return
	}
}

func TestAPlantedSecretIsFoundNowhere(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		p := &planted{soak: &soak{t: t, bus: bus, dir: dir}, w: sopstest.New(t), proof: filepath.Join(dir, "proof"), alice: bus.Conn(t, grants.RoleOperator, "alice")}
		p.log = slog.New(slog.NewTextHandler(&p.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
		var err error
		p.work, err = worktree.Init(filepath.Join(dir, "repo"), fstest.MapFS{
			"top.yaml":          text("base:\n  'db-*': [all]\n"),
			"settings/all.yaml": text(p.settings()),
		}, "first", ada)
		if err != nil {
			t.Fatal(err)
		}
		p.start()
		p.ran(p.secrets[3])
		p.provoke()

		p.commit(p.settings())
		p.ran(p.secrets[8])
		p.provoke()

		good := p.settings()
		for name, bad := range map[string]string{
			"wrong mac":            strings.Replace(good, "module: cmd.run", "module: test.ping", 1),
			"secret of the timing": p.w.Encrypt("^(interval|module)$", "schedule: {a: {module: "+p.secrets[0]+", interval: "+p.secrets[1]+"}}\n"),
			"args of a wrong type": p.w.Encrypt("^args$", "schedule: {a: {module: test.ping, interval: 1h, args: "+p.secrets[0]+"}}\n"),
		} {
			p.commit(bad)
			if out := p.sync("now"); !out.Is(status.CompileFailed) {
				t.Errorf("%s: %+v", name, out)
			}
		}
		p.search()
	})
}

// search stops everything and looks at every byte.
func (p *planted) search() {
	p.t.Helper()
	p.bus.Stop(p.t)
	stored, _ := p.lookIn(p.bus.Dir()), p.lookIn(p.dir)
	for _, secret := range p.secrets {
		if p.said.holds(secret) {
			p.t.Error("a secret was said on the bus or in a log")
		}
	}
	if !p.said.holds(sops.Shown) || !p.said.holds("settings applied") || stored == 0 {
		p.t.Errorf("nothing was looked at: the bus has stored %d fingerprints", stored)
	}
}

// lookIn reads all files and returns how many fingerprints are in them.
func (p *planted) lookIn(dir string) (shown int) {
	p.t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		shown += bytes.Count(data, []byte(sops.Shown))
		for _, secret := range p.secrets {
			if bytes.Contains(data, []byte(secret)) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(secret)))) {
				p.t.Errorf("%s holds a secret", name)
			}
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return shown
}
