package peel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestTextsOfCronTablesAreForTheRequestingPersonAlone(t *testing.T) {
	root := t.TempDir()
	peel.SetHostRoot(root)
	t.Cleanup(func() { peel.SetHostRoot("/") })
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/etc/crontab", []byte("0 1 * * * root dump --password=foreign-secret --token=hunter2-hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, func(b *bench) {
		b.start()
		b.giveSecret(1, "token: SECRET\n", "hunter2-hunter2", b.key())
		opener, err := settings.NewOpener()
		if err != nil {
			t.Fatal(err)
		}
		asked := func(user string, args map[string]any) wire.Result {
			b.ask(wire.Request{Function: "cron.tables", Args: args, Epoch: 1, User: user})
			return b.returned().Result
		}
		if r := asked("alice", nil); !r.Success || strings.Contains(fmt.Sprint(r), "dump") || !strings.Contains(fmt.Sprint(r), "/etc/crontab") {
			t.Errorf("without a key the answer is %+v", r)
		}
		args := map[string]any{"secrets_to": string(opener.To)}
		if r := asked("", args); r.Success || strings.Contains(fmt.Sprint(r), "box") {
			t.Errorf("a schedule is answered %+v", r)
		}
		r := asked("alice", args)
		if !r.Success || strings.Contains(fmt.Sprint(r), "dump") {
			t.Fatalf("%+v", r)
		}
		text := opened(t, opener, r)
		if !strings.Contains(text, "--password=foreign-secret") {
			t.Errorf("what is sealed is %s", text)
		}
		if strings.Contains(text, "hunter2") || !strings.Contains(text, shown) {
			t.Errorf("what is sealed has a secret of the settings: %s", text)
		}
		b.stop()
		if file := holds(t, b.dir, "foreign-secret"); file != "" || strings.Contains(b.log.String(), "foreign-secret") {
			t.Errorf("%q or the log holds the text of a table", file)
		}
	})
}

func TestTheContentOfAFileIsForTheRequestingPersonAlone(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"motd": "Welcome to this host.\n", "cnf": "password=foreign-secret\n", "own": "x hunter2-hunter2\n"} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, func(b *bench) {
		b.start()
		b.giveSecret(1, "token: SECRET\n", "hunter2-hunter2", b.key())
		opener, err := settings.NewOpener()
		if err != nil {
			t.Fatal(err)
		}
		asked := func(user string, args map[string]any) wire.Result {
			b.ask(wire.Request{Function: "file.read", Args: args, Epoch: 1, User: user})
			return b.returned().Result
		}
		args := map[string]any{"path": dir + "/motd"}
		if r := asked("alice", args); !r.Success || strings.Contains(fmt.Sprint(r), "Welcome") || !strings.Contains(fmt.Sprint(r), "0600") {
			t.Errorf("without a key the answer is %+v", r)
		}
		args["secrets_to"] = string(opener.To)
		if r := asked("", args); r.Success || strings.Contains(fmt.Sprint(r), "box") {
			t.Errorf("a schedule is answered %+v", r)
		}
		r := asked("alice", args)
		if !r.Success || strings.Contains(fmt.Sprint(r), "Welcome") {
			t.Fatalf("%+v", r)
		}
		if content := opened(t, opener, r); content != "Welcome to this host.\n" {
			t.Errorf("what is sealed is %q", content)
		}
		for name, why := range map[string]string{"cnf": "line 1 gives a value to the name of a secret", "own": "it has a secret of the settings"} {
			args["path"], args["secret"] = dir+"/"+name, false
			if r := asked("alice", args); r.Success || !strings.Contains(r.Error, why) || strings.Contains(fmt.Sprint(r), "box") {
				t.Errorf("%s: %+v", name, r)
			}
			args["secret"] = true
			if r := asked("alice", args); !r.Success || opened(t, opener, r) == "" || !strings.Contains(fmt.Sprint(r.Data), why) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		seed := dir + "/creds"
		if err := os.WriteFile(seed, []byte("SUA"+strings.Repeat("Q", 55)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, why := range map[string]string{b.dir + "/key": "belongs to the peel", seed: "it has a seed of NATS"} {
			args["path"] = name
			if r := asked("alice", args); r.Success || !strings.Contains(r.Error, why) || strings.Contains(fmt.Sprint(r), "box") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		b.stop()
		if file := holds(t, b.dir, "foreign-secret"); file != "" || strings.Contains(b.log.String(), "foreign-secret") {
			t.Errorf("%q or the log holds the content of a file", file)
		}
	})
}

// opened returns what a result has sealed.
func opened(t *testing.T, opener *settings.Opener, r wire.Result) string {
	t.Helper()
	data, _ := r.Data.(map[string]any)
	raw, err := canon.Marshal(data["secrets"])
	var sealed settings.Sealed
	if err == nil {
		err = canon.Unmarshal(raw, &sealed)
	}
	if err != nil {
		t.Fatal(err)
	}
	value, err := opener.Open(&sealed)
	if err != nil {
		t.Fatal(err)
	}
	if content, ok := value.([]byte); ok {
		return string(content)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
