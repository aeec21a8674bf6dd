package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// An aging is the login of ann, an auditor, as it is kept on this host and by the masters. Tests make it older.
type aging struct {
	t    *testing.T
	f    *fleet
	file string
}

func (k *aging) read() *credential.Own {
	k.t.Helper()
	text, err := os.ReadFile(k.file)
	if err != nil {
		k.t.Fatal(err)
	}
	own, err := credential.ReadOwn(text)
	if err != nil {
		k.t.Fatal(err)
	}
	return own
}

// life returns for how long the credential was made, and how much of that is left, in hours.
func (k *aging) life() (whole, left int) {
	k.t.Helper()
	own := k.read()
	return int(own.Expires.Sub(own.Issued).Round(time.Hour).Hours()), int(time.Until(own.Expires).Round(time.Hour).Hours())
}

// age makes the credential in the file older, as if it had been signed so much earlier, and forgets earlier tries to
// renew it.
func (k *aging) age(by time.Duration) {
	k.t.Helper()
	text := string(k.read().Text())
	token, err := nkeys.ParseDecoratedJWT([]byte(text))
	if err != nil {
		k.t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	claims := map[string]any{}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err = errors.Join(err, json.Unmarshal(payload, &claims)); err != nil {
		k.t.Fatal(err)
	}
	for _, name := range []string{"iat", "exp"} {
		claims[name] = int64(claims[name].(float64)) - int64(by.Seconds())
	}
	seed, err := os.ReadFile(filepath.Join(keystore.Dir(k.f.dir), "signer-auditor.nk"))
	if err != nil {
		k.t.Fatal(err)
	}
	signer, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		k.t.Fatal(err)
	}
	if payload, err = json.Marshal(claims); err != nil {
		k.t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := signer.Sign([]byte(signed))
	if err != nil {
		k.t.Fatal(err)
	}
	older := strings.Replace(text, token, signed+"."+base64.RawURLEncoding.EncodeToString(signature), 1)
	if err := os.WriteFile(k.file, []byte(older), 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Remove(k.file + triedSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
}

// ends sets when masters renew the login no more.
func (k *aging) ends(in time.Duration) {
	k.t.Helper()
	creds, err := k.f.keys.Creds(grants.RoleMaster, "test2", 0)
	if err != nil {
		k.t.Fatal(err)
	}
	nc, err := nats.Connect(k.f.url, nats.UserCredentialBytes(creds), nats.RootCAs(k.f.ca), nats.CustomInboxPrefix(grants.RoleMaster.Inbox("test2")))
	if err != nil {
		k.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		k.t.Fatal(err)
	}
	people, err := bucket.OpenRecords[credential.User](k.t.Context(), js, wire.BucketUsers, "", "the user")
	if err != nil {
		k.t.Fatal(err)
	}
	public := k.read().Public()
	_, err = people.Change(k.t.Context(), "ann", func(u *credential.User) error {
		for i := range u.Keys {
			if u.Keys[i].Public == public {
				u.Keys[i].Until = time.Now().Add(in)
			}
		}
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// TestCommandsRenewALoginForADay makes a login older step by step, and runs a command after each.
func TestCommandsRenewALoginForADay(t *testing.T) {
	at, f, zester, link := withLogins(t)
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	logIn := func() {
		t.Helper()
		opened := desktop(t)
		seen := make(chan string, 1)
		go func() { seen <- get(t, opened()) }()
		zester(exitOK, "login", link, "--ca", f.ca, "--url", f.url)
		<-seen
	}
	logIn()
	k := &aging{t, f, filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "zester", "logins", "127.0.0.1.creds")}
	// list runs a command, and returns what it says beside its table. One that a busy master has kept waiting is repeated.
	list := func(want int) string {
		t.Helper()
		for {
			var out, said bytes.Buffer
			code := run(t.Context(), []string{"peel", "list"}, &out, &said)
			if strings.Contains(said.String(), "in time") {
				k.age(0)
				continue
			}
			if code != want || strings.Contains(out.String(), "web-01") != (code == exitOK) {
				t.Fatalf("a command ended with %d, want %d: %s%s", code, want, &out, &said)
			}
			return said.String()
		}
	}
	is := func(when string, wholeWant, leftWant int) {
		t.Helper()
		if whole, left := k.life(); whole != wholeWant || left != leftWant {
			t.Errorf("%s the credential was made for %d h, and %d h are left", when, whole, left)
		}
	}
	k.age(3 * time.Hour)
	list(exitOK)
	is("after 3 h", 8, 5)
	k.age(2 * time.Hour)
	if said := list(exitOK); said != "" {
		t.Errorf("a command that renews the login says %s", said)
	}
	is("after 5 h", 8, 8)

	k.age(5 * time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if said := list(exitOK); said != "" {
				t.Errorf("of 8 commands at once, one says: %s", said)
			}
		})
	}
	all.Wait()
	is("after 8 commands", 8, 8)

	k.age(6 * time.Hour)
	k.ends(3 * time.Hour)
	list(exitOK)
	is("before the day is over", 3, 3)
	k.age(time.Hour)
	if said := list(exitOK); said != "" {
		t.Errorf("a command in the last hours says %s", said)
	}
	is("in the last hours", 3, 2)
	k.age(3 * time.Hour)
	if said := list(exitDenied); !strings.Contains(said, hintLogin) {
		t.Errorf("after a day a command says %s", said)
	}

	logIn()
	k.age(5 * time.Hour)
	k.ends(time.Hour)
	if said := list(exitOK); !strings.Contains(said, "the login of ann ends at ") || !strings.Contains(said, "and is not renewed: ") || !strings.Contains(said, "zester login logs in again") {
		t.Errorf("a login that masters renew no more: %s", said)
	}
	if said := list(exitOK); said != "" {
		t.Errorf("the next command repeats it: %s", said)
	}

	k.ends(19 * time.Hour)
	k.withoutRoom()
	zester(exitOK, "--data-dir", f.dir, "auth", "user", "revoke", "ann")
	for {
		var out bytes.Buffer // a command of meanwhile loses its connection
		if run(t.Context(), []string{"peel", "list"}, &out, &out) == exitDenied {
			if !strings.Contains(out.String(), hintLogin) {
				t.Errorf("after the revocation a command says %s", &out)
			}
			break
		}
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Setenv("DISPLAY", "")
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"login", "--device"}, in, in)
		_ = in.Close()
	}()
	if _, err := out.Read(make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	at.Decide("")
	text := make([]byte, 4096)
	n, err := out.Read(text)
	if code := <-done; code != exitDenied || err != nil || !strings.Contains(string(text[:n]), "was revoked") {
		t.Errorf("a login after the revocation ended with %d: %s", code, text[:n])
	}
}

// withoutRoom runs commands that cannot write what they have renewed, in a process of their own.
func (k *aging) withoutRoom() {
	k.t.Helper()
	k.age(0)
	before := k.read().Text()
	text, err := exec.Command("sh", "-c", "ulimit -f 1; exec zester peel list").CombinedOutput() // the file has more than a block
	if err != nil || !strings.Contains(string(text), "not renewed: cannot write the credential: ") || !strings.Contains(string(text), "web-01") {
		k.t.Errorf("a disk that is full: %v: %s", err, text)
	}
	if !bytes.Equal(before, k.read().Text()) {
		k.t.Error("the credential has changed")
	}

	tried := k.file + triedSuffix
	if err := errors.Join(os.Remove(tried), os.Mkdir(tried, 0o700)); err != nil {
		k.t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(tried, old, old); err != nil {
		k.t.Fatal(err)
	}
	text, err = exec.Command("zester", "peel", "list").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "is not renewed: open "+tried) || !strings.Contains(string(text), "web-01") {
		k.t.Errorf("a home that cannot be written: %v: %s", err, text)
	}
	if err := os.Remove(tried); err != nil {
		k.t.Fatal(err)
	}
}

// A watching is a command of ann, a person with a login, that watches a job until it ends.
type watching struct {
	t      *testing.T
	b      *natstest.Bus
	public string
	began  time.Time
	file   string
	client *api.Client
}

// newWatching makes a credential and connects with it. The job ends after a time.
func newWatching(t *testing.T, b *natstest.Bus, life, lasts time.Duration, o api.ClientOptions) *watching {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, b: b, public: key.Public(), began: time.Now(), file: filepath.Join(t.TempDir(), "ann.creds")}
	creds, err := key.Creds(w.issue(life))
	if err == nil {
		err = os.WriteFile(w.file, creds, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.answers("job", "show", func() any {
		status := job.Running
		if time.Since(w.began) >= lasts {
			status = job.Complete
		}
		return job.Job{Status: status}
	})
	o.URL, o.Creds, o.File = b.URL(), creds, w.file
	w.client, err = api.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	return w
}

func (w *watching) issue(life time.Duration) string {
	token, err := w.b.Keys.Issue(grants.RoleOperator, "ann", w.public, life)
	if err != nil {
		w.t.Error(err)
	}
	return token
}

// answers serves a request of ann in place of a master.
func (w *watching) answers(noun, verb string, reply func() any) {
	w.t.Helper()
	master := w.b.Conn(w.t, grants.RoleMaster, verb)
	_, err := master.Subscribe(api.Subject(noun, verb, "ann"), func(m *nats.Msg) {
		if data, err := canon.Marshal(reply()); err != nil || m.Respond(data) != nil {
			w.t.Error(noun, verb, err)
		}
	})
	if err = errors.Join(err, master.Flush()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watching) app() *app {
	return &app{errOut: io.Discard, connect: connection{login: "https://zester.example.com", creds: w.file}}
}

// run returns how the command ends.
func (w *watching) run() error {
	return w.app().use(w.client, func(client *api.Client) error {
		f, err := client.Follow(wire.NewJID(), nil)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, failed := range f.Events(w.t.Context()) {
			err = failed
		}
		return err
	})
}

// TestALoginIsRenewedWhileACommandRuns ends before the connection would: in a bubble the client cannot connect again.
func TestALoginIsRenewedWhileACommandRuns(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		w := newWatching(t, b, credential.LoginLife, 0, api.ClientOptions{Connect: []nats.Option{nats.InProcessServer(b)}})
		w.answers("user", "renew", func() any { return credential.Renewed{Token: w.issue(credential.LoginLife)} })
		defer w.app().keepLogin(w.client)()
		time.Sleep(5 * time.Hour)
		text, err := os.ReadFile(w.file)
		if err != nil {
			t.Fatal(err)
		}
		own, err := credential.ReadOwn(text)
		if err != nil || own.Expires.Sub(w.began) < 12*time.Hour {
			t.Errorf("the login ends %v after it began, %v", own.Expires.Sub(w.began), err)
		}
	})
}

// TestACommandGoesOnWithARenewedLogin runs in real time, as the next one. The bus ends the connection after 2 s.
func TestACommandGoesOnWithARenewedLogin(t *testing.T) {
	b := natstest.Listen(t)
	w := newWatching(t, b, 2*time.Second, 8*time.Second, api.ClientOptions{CA: b.CA()})
	text, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	own, err := credential.ReadOwn(text)
	if err == nil {
		text, err = own.Renew(credential.Renewed{Token: w.issue(time.Hour)})
	}
	if err == nil {
		err = os.WriteFile(w.file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(); err != nil {
		t.Errorf("after %v it ended with %v", time.Since(w.began), err)
	}
}

// TestACommandEndsWithALoginThatIsNotRenewed runs in real time, because a refusal needs a socket. The login lasts 2 s.
func TestACommandEndsWithALoginThatIsNotRenewed(t *testing.T) {
	b := natstest.Listen(t)
	w := newWatching(t, b, 2*time.Second, time.Hour, api.ClientOptions{CA: b.CA()})
	err := w.run()
	if api.CodeOf(err) != api.CodeDenied || !strings.Contains(err.Error(), "refuses the credential of ann: it ended at ") {
		t.Errorf("it ended with %v", err)
	}
	if f, ok := errors.AsType[*failure](err); !ok || f.hint != hintLogin {
		t.Errorf("the hint is %+v", f)
	}
}

// Masters that do not answer cost one command its wait, and the next ones nothing for some minutes.
func TestALoginThatNoMasterRenewsDelaysOneCommand(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		key, err := credential.MakeKey()
		if err != nil {
			t.Fatal(err)
		}
		token, err := b.Keys.Issue(grants.RoleAuditor, "ann", key.Public(), credential.LoginLife)
		if err != nil {
			t.Fatal(err)
		}
		creds, err := key.Creds(token)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "ann.creds")
		if err := os.WriteFile(file, creds, 0o600); err != nil {
			t.Fatal(err)
		}
		requests := 0
		silent := b.Conn(t, grants.RoleMaster, "silent")
		if _, err := silent.Subscribe(api.Subject("user", "renew", "ann"), func(*nats.Msg) { requests++ }); err != nil {
			t.Fatal(err)
		}
		if err := silent.Flush(); err != nil {
			t.Fatal(err)
		}
		client, err := api.Connect(api.ClientOptions{URL: b.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(b)}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()

		time.Sleep(5 * time.Hour)
		for _, row := range []struct{ after, takes time.Duration }{
			{0, renewWait},
			{0, 0},
			{time.Minute, 0},
			{renewPause, renewWait},
			{renewPause - renewWait - time.Second, 0},
		} {
			time.Sleep(row.after)
			before, began := requests, time.Now()
			var said bytes.Buffer
			a := &app{errOut: &said, connect: connection{login: "https://zester.example.com", creds: file}}
			a.renewLogin(t.Context(), client)
			if took := time.Since(began); took != row.takes || (requests > before) != (took > 0) {
				t.Errorf("after %v a command waits for %v, and sends %d requests", row.after, took, requests-before)
			}
			if (said.Len() > 0) != (row.takes > 0) || said.Len() > 0 && !strings.Contains(said.String(), "in time") {
				t.Errorf("after %v a command says %q", row.after, &said)
			}
		}
	})
}
