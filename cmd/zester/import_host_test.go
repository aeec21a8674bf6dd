package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"

	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// answered is the return of a peel with data.
func answered(t *testing.T, data any) *wire.Return {
	t.Helper()
	value, err := canon.Normalize(data)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Return{Result: wire.Result{Success: true, Data: value}}
}

func TestEachPeelIsAHostAFailureOrSilent(t *testing.T) {
	f := &crontabs{silent: []target.PeelID{"a", "b", "c", "d", "e"}}
	whole := survey.Cron{Tables: []survey.Table{{File: "/etc/crontab", Bytes: 20, Text: "0 1 * * * root date\n"}}}
	f.add("a", answered(t, whole))
	f.add("b", answered(t, whole.Plain()))
	f.add("c", answered(t, "no tables"))
	f.add("d", &wire.Return{Result: wire.Result{Error: "no such function \"cron.tables\""}})
	if len(f.hosts) != 1 || f.hosts[0].ID != "a" || len(f.silent) != 1 {
		t.Errorf("%+v", f)
	}
	want := "1 table of 1 peel: 1 entries, 0 times compared, 0 differ; 0 lines not imported\n" +
		"note: a.timer: a timer of systemd is left as it is (a)\n" +
		"failed: b: the tables came without their texts; the bus may have too small a message for them\n" +
		"failed: c: cannot read the tables: cannot decode survey.Cron: msgpack: unexpected code=a9 decoding map length\n" +
		"failed: d: no such function \"cron.tables\"\n" +
		"no answer from 1 peel: e\n" +
		"note: top.yaml lists the peels that sent their tables: no other peel gets an entry\n"
	moved := movein.Moved{Tables: 1, Entries: 1, Notes: []movein.HostRow{{Row: movein.Row{File: "a.timer", Reason: "a timer of systemd is left as it is"}, Hosts: []string{"a"}}}}
	if got := hostReport(f, moved); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if expr := f.targets("*"); expr != "" {
		t.Errorf("the target is %q, which selects peels without tables", expr)
	}
	if expr := (&crontabs{hosts: f.hosts}).targets("*"); expr != "*" {
		t.Errorf("the target is %q, and all peels have sent tables", expr)
	}
	if expr := (&crontabs{hosts: f.hosts, unknown: []target.PeelID{"typo-01"}}).targets("a or typo-01"); expr != "" {
		t.Errorf("the target is %q, which selects a peel that is unknown", expr)
	}
}

// FuzzCronTables has peels answer anything to cron.tables.
func FuzzCronTables(f *testing.F) {
	for _, data := range []any{
		survey.Cron{},
		"text",
		map[string]any{"tables": 1},
		survey.Cron{
			Tables:  []survey.Table{{File: "/etc/crontab\n\x1b", User: "a\nb", Text: "0 1 * * * x\x00\n* * * * * root %\n"}},
			Skipped: []survey.Skip{{File: "\x1b[2J", Reason: "\u202e"}}, Timers: []string{"a\n"},
		},
	} {
		raw, err := canon.Marshal(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := wire.Return{Result: wire.Result{Success: true}}
		if canon.Unmarshal(raw, &r.Data) != nil {
			return
		}
		cron, err := cronOf(&r)
		if err != nil {
			return
		}
		moved, err := movein.Hosts([]movein.Host{{HostFacts: movein.HostFacts{ID: "a"}, Cron: cron}, {HostFacts: movein.HostFacts{ID: "b"}}}, "*", time.Unix(1_800_000_000, 0))
		if err != nil {
			return
		}
		for _, c := range hostReport(&crontabs{}, moved) {
			if !harmless(c) {
				t.Errorf("%q is printed", c)
			}
		}
	})
}

func TestAStateThatWouldChangeIsNotAdopted(t *testing.T) {
	same := stateRun{Counts: map[string]int{"unchanged": 1}, States: []stateOutcome{{State: "/etc/motd", Result: "unchanged"}}}
	if err := same.fulfilled("web-01", "/etc/motd"); err != nil {
		t.Error(err)
	}
	other := stateRun{Counts: map[string]int{"would_change": 1}, States: []stateOutcome{{State: "/etc/motd", Result: "would_change", Comment: "mode 0640"}}}
	if err := other.fulfilled("web-01", "/etc/motd"); err == nil || err.Error() != "nothing is written, because /etc/motd of web-01 would change: mode 0640" {
		t.Error(err)
	}
}

// A secret of the settings looks like any other text: only the peel knows it.
func TestAFileThatThePeelSuspectsIsWrittenBesideTheRepo(t *testing.T) {
	found := adoption{peel: "web-01", secrets: map[string][]byte{}, files: map[string][]byte{}}
	for name, why := range map[string]string{"own": "it has a secret of the settings", "motd": ""} {
		live := movein.LiveFile{Path: "/etc/" + name, Kind: "file", Mode: "0600", User: "root", Group: "root", Suspect: why, Content: []byte("x\n")}
		s, err := movein.AdoptFile("web-01", live)
		if err != nil {
			t.Fatal(err)
		}
		found.add(s)
	}
	if len(found.files) != 1 || found.files["files/adopted/web-01/etc/motd"] == nil {
		t.Errorf("in the repo are %v", slices.Sorted(maps.Keys(found.files)))
	}
	if len(found.secrets) != 1 || found.secrets["files/adopted/web-01/etc/own"] == nil {
		t.Errorf("beside the repo are %v", slices.Sorted(maps.Keys(found.secrets)))
	}
}
