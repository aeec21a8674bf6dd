package peel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const shown = "•••0123456789abcdef"

// key is what the peel has told with its facts.
func (b *bench) key() settings.Key {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "facts")
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(b.t.Context(), wire.Fact(id.Wire()))
	if err != nil {
		b.t.Fatal(err)
	}
	var facts wire.Facts
	if err := canon.Unmarshal(msg.Data, &facts); err != nil {
		b.t.Fatal(err)
	}
	key, err := settings.ParseKey(facts.Key)
	if err != nil {
		b.t.Fatal(err)
	}
	return key
}

// giveSecret publishes settings in which the word SECRET stands for a secret.
func (b *bench) giveSecret(generation uint64, yaml, secret string, to settings.Key) {
	b.t.Helper()
	encode := func(text string) canon.Raw {
		node, err := strictyaml.Parse("test.yaml", []byte(text))
		if err != nil {
			b.t.Fatal(err)
		}
		raw, err := canon.Marshal(node.Any())
		if err != nil {
			b.t.Fatal(err)
		}
		return raw
	}
	open := encode(strings.ReplaceAll(yaml, "SECRET", shown))
	doc := settings.Document{
		V: settings.Version, Peel: id, Commit: "c0ffee", Generation: generation, Digest: settings.DigestOf(open), Settings: open,
		Origins: map[string]settings.Origin{"beat": {File: "settings/a.yaml", Line: 7, Commit: "beef", Author: "Ada <ada@example.com>"}},
	}
	sealer, err := settings.NewSealer()
	if err == nil {
		err = sealer.Seal(&doc, encode(strings.ReplaceAll(yaml, "SECRET", secret)), to)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	revisions, err := settings.NewStore(b.bus.JetStream(b.t)).Publish(b.t.Context(), slices.Values([]settings.Write{{Document: &doc, Revision: b.rev}}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.rev = revisions[id]
	synctest.Wait()
}

const secretSchedule = `
password: SECRET
schedule:
  beat:
    module: test.echo
    args: {text: "it is SECRET, not another"}
    interval: 1h
    run_on_start: true
    return_job: true
`

// holds reports the first file below a directory that holds a text.
func holds(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err == nil && bytes.Contains(data, []byte(text)) {
			found = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOnlyTheFunctionGetsTheSecret(t *testing.T) {
	run(t, func(b *bench) {
		ran := filepath.Join(t.TempDir(), "ran")
		b.start()
		b.giveSecret(1, "password: SECRET\nschedule:\n  beat:\n    module: cmd.run\n    interval: 1h\n    run_on_start: true\n    return_job: true\n"+
			"    args: {command: 'printf %s \"$TOKEN\" > "+ran+"; echo \"it is $TOKEN\"; echo $TOKEN >&2', env: {TOKEN: SECRET}}\n", "hunter2-hunter2", b.key())
		r := b.reported()
		if got, err := os.ReadFile(ran); err != nil || string(got) != "hunter2-hunter2" {
			t.Errorf("the command was given %q, %v", got, err)
		}
		args := map[string]any{"command": "printf %s \"$TOKEN\" > " + ran + "; echo \"it is $TOKEN\"; echo $TOKEN >&2", "env": map[string]any{"TOKEN": shown}}
		if claim := (settings.Claim{Ran: settings.Ran("cmd.run", args)}); r.Ran != claim.Ran || !claim.Runs(r.Function, r.Args) {
			t.Errorf("masters know another call than %q with %v", r.Ran, r.Args)
		}
		text := fmt.Sprint(r)
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "it is "+shown) || r.Args["env"].(map[string]any)["TOKEN"] != shown {
			t.Errorf("it reports %s", text)
		}
		for _, function := range []string{"settings.items", "schedule.list", "schedule.history"} {
			args := map[string]any{}
			if function == "schedule.history" {
				args["entry"] = "beat"
			}
			if r := b.call(function, args); !r.Success || strings.Contains(fmt.Sprint(r), "hunter2") {
				t.Errorf("%s: %+v", function, r)
			}
		}
		if r := b.call("settings.get", map[string]any{"key": "password"}); r.Data.(map[string]any)["settings"] != shown {
			t.Errorf("settings.get: %+v", r)
		}
		if r := b.call("cmd.run", map[string]any{"command": "cat " + ran}); !r.Success || strings.Contains(fmt.Sprint(r), "hunter2") {
			t.Errorf("a command that prints the secret: %+v", r)
		}
		b.stop()
		if file := holds(t, b.dir, "hunter2"); file != "" {
			t.Errorf("%s holds the secret", file)
		}
		if strings.Contains(b.log.String(), "hunter2") {
			t.Error("the log holds the secret")
		}
	})
}

func TestAQueuedRunUsesTheSecretOfTheNewestSettingsAndShowsNone(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		const yaml = `schedule:
  beat: {module: test.echo, args: {text: "it is SECRET"}, cron: "* * * * *", if_running: queue, group: g, return_job: true}
  hold: {module: test.sleep, args: {duration: 90s}, interval: 24h, run_on_start: true, if_running: queue, group: g}
`
		b.giveSecret(1, yaml, "hunter2-hunter2", b.key())
		time.Sleep(70 * time.Second) // hold runs, and the fire of minute 1 waits for it
		b.giveSecret(2, strings.Replace(yaml, "it is", "now it is", 1), "hunter3", b.key())
		time.Sleep(2 * time.Minute)
		r := b.reported()
		if text := fmt.Sprint(r); strings.Contains(text, "hunter") || !strings.Contains(text, "now it is "+shown) || r.Nominal.Minute() != 1 {
			t.Errorf("it reports %s", text)
		}
	})
}

func TestTheSnapshotOfSealedSettingsIsOpenedWithoutTheBus(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.giveSecret(1, secretSchedule, "hunter2", b.key())
		b.lastApplied()
		b.stop()
		b.bus.Stop(t)
		b.start()
		time.Sleep(time.Second)
		synctest.Wait()
		b.bus.Start(t)
		time.Sleep(time.Minute)
		r := b.reported()
		if r.Commit != "beef" || !r.Success {
			t.Errorf("%+v", r)
		}
		if r := b.call("settings.get", map[string]any{"key": "password"}); r.Data.(map[string]any)["settings"] != shown {
			t.Errorf("settings.get: %+v", r)
		}
	})
}

func TestAChangedSecretKeepsTheTimer(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.giveSecret(1, secretSchedule, "hunter2", b.key())
		if a := b.lastApplied(); a.Started != 1 {
			t.Errorf("%+v", a)
		}
		b.giveSecret(2, strings.ReplaceAll(secretSchedule, "SECRET, not", "SECRET and not"), "hunter3", b.key())
		if a := b.lastApplied(); a.Changed != 1 || a.Started != 0 {
			t.Errorf("%+v", a)
		}
	})
}

func TestSettingsSealedToAnotherKeyAreReportedAndNotUsed(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		key := b.key()
		b.giveSecret(1, secretSchedule, "hunter2", key)
		b.lastApplied()
		b.stop()
		if err := os.Remove(filepath.Join(b.dir, "key")); err != nil {
			t.Fatal(err)
		}
		b.start()
		if b.key() == key {
			t.Fatal("the new key is the old one")
		}
		a := b.lastApplied()
		if a.Generation != 0 || len(a.Errors) != 1 || !strings.Contains(a.Errors[0], "they are sealed to the key "+string(key)) {
			t.Errorf("%+v", a)
		}
		b.giveSecret(2, secretSchedule, "hunter2", b.key())
		if a := b.lastApplied(); a.Generation != 2 || len(a.Errors) != 0 {
			t.Errorf("%+v", a)
		}
	})
}

func TestThePeelSignsItsSealingKeyAndSendsItAgainIfMastersHaveAnother(t *testing.T) {
	run(t, func(b *bench) {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		jwt, err := b.bus.Keys.Issue(grants.RolePeel, id.Wire(), public, 0)
		if err != nil {
			t.Fatal(err)
		}
		b.options = func(o *peel.Options) {
			o.Connect = append(o.Connect, nats.UserJWT(func() (string, error) { return jwt, nil }, pair.Sign))
		}
		facts := b.listen(wire.Fact(id.Wire()))
		told := func() (f wire.Facts) {
			t.Helper()
			msg, err := facts.NextMsg(time.Minute)
			if err == nil {
				f, err = wire.DecodeFacts(msg)
			}
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		b.start()
		first := told()
		if first.Signer([]string{public}) != public {
			t.Errorf("its own nkey has not signed %+v", first)
		}
		other := first
		other.Peel = "web.02"
		if other.Signer([]string{public}) != "" {
			t.Error("the signature is good for another peel")
		}
		curve, err := nkeys.CreateCurveKeys()
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := curve.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		b.giveSecret(1, secretSchedule, "hunter2", settings.Key(stranger))
		if again := told(); again.Key != first.Key || again.Signer([]string{public}) != public {
			t.Errorf("it says %+v", again)
		}
	})
}

func TestOnlyTheOwnerCanReadTheKey(t *testing.T) {
	dir := t.TempDir()
	o := peel.Options{ID: id, DataDir: dir}
	p, err := peel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Run(ended) // it lets go of the directory
	file := filepath.Join(dir, "key")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := peel.New(o); err == nil || !strings.Contains(err.Error(), "must be a file of mode 0600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.WriteFile(file, []byte("SXNOKEY"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := peel.New(o); err == nil || strings.Contains(err.Error(), "SXNOKEY") || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove it and start again") {
		t.Errorf("a damaged key: %v", err)
	}
}

func TestOnlyTheRequestingPersonCanReadASecret(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.giveSecret(1, "db: {password: SECRET, port: 5432}\n", "hunter2-hunter2", b.key())
		opener, err := settings.NewOpener()
		if err != nil {
			t.Fatal(err)
		}
		public := string(opener.To)
		args := func(to string) map[string]any { return map[string]any{"key": "db", "secrets_to": to} }
		asked := func(user string, args map[string]any) wire.Result {
			b.ask(wire.Request{Function: "settings.get", Args: args, Epoch: 1, User: user})
			return b.returned().Result
		}
		r := asked("alice", args(public))
		data, _ := r.Data.(map[string]any)
		raw, err := canon.Marshal(data["secrets"])
		var sealed settings.Sealed
		if err == nil {
			err = canon.Unmarshal(raw, &sealed)
		}
		if err != nil || !r.Success || strings.Contains(fmt.Sprint(r), "hunter2") {
			t.Fatalf("%+v, %v", r, err)
		}
		value, err := opener.Open(&sealed)
		if m, _ := value.(map[string]any); err != nil || m["password"] != "hunter2-hunter2" || m["port"] != int64(5432) {
			t.Errorf("what is sealed is %v, %v", value, err)
		}
		if m, _ := data["settings"].(map[string]any); m["password"] != shown {
			t.Errorf("in clear it shows %v", data["settings"])
		}
		other, err := settings.NewOpener()
		if err != nil {
			t.Fatal(err)
		}
		if value, err := other.Open(&sealed); err == nil {
			t.Errorf("another key opens it: %v", value)
		}
		for name, r := range map[string]wire.Result{
			"a schedule":      asked("", args(public)),
			"who asks direct": b.direct(b.bus.Conn(b.t, grants.RoleDirect, "dan"), wire.DirectRequest{Function: "settings.get", Args: args(public)})().Result,
			"no key":          asked("alice", args("XNOKEY")),
		} {
			if r.Success || strings.Contains(fmt.Sprint(r), "box") {
				t.Errorf("%s is answered %+v", name, r)
			}
		}
		b.stop()
		if file := holds(t, b.dir, "hunter2"); file != "" || strings.Contains(b.log.String(), "hunter2") {
			t.Errorf("%q or the log holds the secret", file)
		}
	})
}

// A cut leaves no part of a secret, and the digest says nothing about it.
func TestOutputIsMaskedBeforeItIsCut(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		const secret = "hunter2-hunter2-hunter2"
		b.giveSecret(1, "password: SECRET\n", secret, b.key())
		command := "printf 'hunter2-'; sleep 0.1; printf 'hunter2-hunter2 and more'; printf 'x hunter2-hunter2-hunter2' >&2"
		for size := int64(1); size < 40; size += 13 {
			r := b.call("cmd.run", map[string]any{"command": command, "max_output": size})
			m := r.Data.(map[string]any)
			out := []byte(shown + " and more")
			want := strings.ToValidUTF8(string(out[:min(int(size), len(out))]), "")
			sum := sha256.Sum256(out)
			if m["stdout"] != want || strings.Contains(fmt.Sprint(r), "hunter") {
				t.Errorf("cut at %d: %+v", size, m)
			}
			if digest := m["stdout_sha256"]; int(size) < len(out) && digest != hex.EncodeToString(sum[:]) {
				t.Errorf("cut at %d: the digest is %v", size, digest)
			}
		}
	})
}
