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
		raw, err := canon.Marshal(r.Data.(map[string]any)["secrets"])
		var sealed settings.Sealed
		if err == nil {
			err = canon.Unmarshal(raw, &sealed)
		}
		if err != nil {
			t.Fatal(err)
		}
		tables, err := opener.Open(&sealed)
		text, _ := json.Marshal(tables)
		if err != nil || !strings.Contains(string(text), "--password=foreign-secret") {
			t.Errorf("what is sealed is %s, %v", text, err)
		}
		if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), shown) {
			t.Errorf("what is sealed has a secret of the settings: %s", text)
		}
		b.stop()
		if file := holds(t, b.dir, "foreign-secret"); file != "" || strings.Contains(b.log.String(), "foreign-secret") {
			t.Errorf("%q or the log holds the text of a table", file)
		}
	})
}
