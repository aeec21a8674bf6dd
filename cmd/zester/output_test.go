package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/master/job"
)

func TestATableFitsTheTerminal(t *testing.T) {
	jobs := table{header: []string{"JID", "FUNCTION", "TARGET", "OK"}, narrow: []string{"FUNCTION", "TARGET"}}
	jobs.add("3MOoAwD4Gogc9xTRmswPKZrjidH", "cmd.run", "G@os:debian and not\tdb-*", "3/3")
	jobs.add("3MOoAwD4Gogc9xTRmswPKZrjidJ", "facts.items", "wéb-*\n", "10/12")
	for _, test := range []struct {
		name  string
		width int
		want  string
	}{
		{"anywhere else nothing is cut", 0, `
JID                          FUNCTION     TARGET                    OK
3MOoAwD4Gogc9xTRmswPKZrjidH  cmd.run      G@os:debian and not db-*  3/3
3MOoAwD4Gogc9xTRmswPKZrjidJ  facts.items  wéb-*                     10/12
`},
		{"the widest is cut first", 65, `
JID                          FUNCTION     TARGET            OK
3MOoAwD4Gogc9xTRmswPKZrjidH  cmd.run      G@os:debian and…  3/3
3MOoAwD4Gogc9xTRmswPKZrjidJ  facts.items  wéb-*             10/12
`},
		{"names and what is short stay", 20, `
JID                          FUNCT…  TARGET  OK
3MOoAwD4Gogc9xTRmswPKZrjidH  cmd.r…  G@os:…  3/3
3MOoAwD4Gogc9xTRmswPKZrjidJ  facts…  wéb-*   10/12
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := jobs.print(&out, screen{width: test.width}); err != nil {
				t.Fatal(err)
			}
			if got := "\n" + out.String(); got != test.want {
				t.Errorf("got%swant%s", got, test.want)
			}
		})
	}
}

func TestPlainTextIsHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nc é 世 \ufffd": "a\tb\nc é 世 \ufffd",
		"\x1b[2J\r\x00\x7f":  `\x1b[2J\x0d\x00\x7f`,
		"\u009b2J\u0085":     `\u009b2J\u0085`,
		"\u202eevil\u2069":   `\u202eevil\u2069`,
		"a\xffb\xc3":         `a\xffb\xc3`,
	} {
		if got := plain(in); got != want {
			t.Errorf("%q is printed as %q, want %q", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a\xff\x1b[31m\u009b\u202e\ufffd\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := plain(s)
		if !utf8.ValidString(got) || strings.IndexFunc(got, func(r rune) bool { return !harmless(r) }) >= 0 {
			t.Errorf("%q is printed as %q", s, got)
		}
		if plain(got) != got {
			t.Errorf("%q is not plain", got)
		}
	})
}

// FuzzData: data for programs keeps every text, and holds nothing that a terminal acts on.
func FuzzData(f *testing.F) {
	for _, s := range []string{"3", "true", "null", "1.0", "- a\n", "a: b", "\u007f\u009b", "\x1b[2J", " a", "a\u2028b", "😀", "~", "", "\n", " a\n b", "a\u202eb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip("bytes that are no text are base64")
		}
		var asJSON, asYAML bytes.Buffer
		if err := encodeJSON(&asJSON, s); err != nil {
			t.Fatal(err)
		}
		if err := encodeYAML(&asYAML, s); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		var got string
		if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil || got != s {
			t.Errorf("%q is %s in JSON", s, &asJSON)
		}
		if err := yaml.Unmarshal(asYAML.Bytes(), &got); err != nil || got != s {
			t.Errorf("%q is %s in YAML", s, &asYAML)
		}
		if strings.ContainsFunc(asJSON.String(), func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%q changes the direction of text in JSON %q", s, &asJSON)
		}
		for _, r := range asJSON.String() + asYAML.String() {
			if r != '\n' && r != '\t' && r != '\u0085' && unicode.IsControl(r) {
				t.Errorf("%q holds %U in JSON %q or YAML %q", s, r, &asJSON, &asYAML)
			}
		}
	})
}

// A full disk is what says no here.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestAFailedWriteOfOutputIsAFailure(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	offline := []string{"help", "version", "schedule explain @daily"}
	online := []string{
		"peel list", "peel list -o name", "peel facts", "sync status", "sync peels -o json", "target eval web-* -o name",
		"web-01 test.ping", "web-01 test.ping -o name", "job list -o jsonl", "audit list --limit 1",
	}
	for _, args := range append(offline, online...) {
		words := strings.Fields(args)
		if slices.Contains(online, args) {
			words = append([]string{"--data-dir", f.dir}, words...)
		}
		var errOut bytes.Buffer
		if code := run(t.Context(), words, full{}, &errOut); code != exitFailed {
			t.Errorf("zester %s ended with %d", args, code)
		}
		if said := errOut.String(); strings.Count(said, "no space left on device") != 1 {
			t.Errorf("zester %s said:\n%s", args, said)
		}
	}
}

func TestTheIDAndTheStatusOfJobsAreShownOnEightyColumns(t *testing.T) {
	created := time.Date(2020, 1, 2, 3, 4, 5, 0, time.Local)
	j := job.Job{Status: job.Canceled, Created: created, User: "operator-with-a-name", TargetCount: 12345}
	j.JID, j.Function, j.Target = "3MSR6mQUmZMKIsPhEiWO1ynYOra", "schedule.history", "G@os:debian and not L@web-01,web-02"
	j.Metadata = map[string]string{job.MetaSource: job.SourceSchedule, job.MetaSchedule: "nightly-backup"}
	var b strings.Builder
	if err := jobsTable([]job.Job{j}).print(&b, screen{width: 80}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)) - 1; n > 80 {
			t.Errorf("%q takes %d columns", line, n)
		}
	}
	if want := "3MSR6mQUm  "; !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "  canceled  ") {
		t.Errorf("it shows\n%s", &b)
	}
	b.Reset()
	if err := jobsTable([]job.Job{j}).print(&b, screen{}); err != nil || !strings.Contains(b.String(), string(j.JID)) || strings.Contains(b.String(), "…") {
		t.Errorf("without a terminal it shows\n%s", &b)
	}
}
