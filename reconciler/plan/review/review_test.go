package review_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// merge is a Saturday before the clocks of London go forward.
var merge = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

func peels(n int) *peelindex.Index {
	index := peelindex.New()
	for i := range n {
		index.Put(target.PeelID(fmt.Sprintf("web-%03d", i)), target.Facts{"rack": fmt.Sprint(i % 4)})
	}
	return index
}

func tree(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{"top.yaml": {Data: []byte("base:\n  '*': [all]\n  'web-00*': [few]\n"), Mode: 0o644}}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return m
}

func compile(t testing.TB, c *plan.Compiler, fs fstest.MapFS, fleet *peelindex.Index) *plan.Plan {
	t.Helper()
	p, err := c.Compile(fs, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compare(t testing.TB, fleet *peelindex.Index, base, head fstest.MapFS) *review.Review {
	t.Helper()
	c := plan.NewCompiler()
	before := compile(t, c, base, fleet)
	r, err := review.Make(before, compile(t, c, head, fleet), review.Options{From: merge, Zone: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const backup = `schedule:
  backup: {module: cmd.run, args: {command: backup}, cron: '30 1 * * *', timezone: Europe/London}
  check: {module: test.ping, interval: 1h}
`

func TestWhatAChangeDoes(t *testing.T) {
	base := tree("settings/all.yaml", backup, "settings/few.yaml", "nginx: {workers: 4, listen: [80]}\n")
	head := tree("settings/all.yaml", `schedule:
  backup: {module: cmd.run, args: {command: backup}, cron: '30 3 * * *', timezone: Europe/London}
  check: {module: test.ping, interval: 60m, splay: 5m}
`, "settings/few.yaml", "nginx: {workers: 8, listen: [80]}\nschedule:\n  hello: {module: test.ping, interval: 2m, run_on_start: true}\n")
	r := compare(t, peels(20), base, head)
	if len(r.Touched) != 20 || r.Peels != 20 || r.Hash == "" || r.Blocked == "" {
		t.Errorf("%+v", r)
	}
	want := review.Totals{Before: 40, Added: 10, Changed: 40, TimersReset: 20}
	if r.Totals != want {
		t.Errorf("totals %+v, want %+v", r.Totals, want)
	}
	if len(r.Changes) != 3 {
		t.Fatalf("%d changes: %+v", len(r.Changes), r.Changes)
	}
	b, check, hello := r.Changes[0], r.Changes[1], r.Changes[2]
	if b.Entry != "backup" || len(b.Peels) != 20 || b.Action != review.Modify || !b.ResetsTimer || b.Origin != "settings/all.yaml:2" {
		t.Errorf("backup: %+v", b)
	}
	if v := b.Fields["cron"]; len(b.Fields) != 1 || v.Before != "30 1 * * *" || v.After != "30 3 * * *" {
		t.Errorf("fields of backup: %+v", b.Fields)
	}
	// On the 29th there is no 01:30 in London: it runs as the clocks go forward.
	if got := b.Next.Before[0].UTC().Format(time.DateTime) + " " + b.Next.After[0].UTC().Format(time.DateTime); got != "2026-03-29 01:00:00 2026-03-29 02:30:00" {
		t.Errorf("next of backup: %s", got)
	}
	// 1h and 60m are one interval; its phase is not known here.
	if check.ResetsTimer || len(check.Next.Before) != 0 || fmt.Sprint(check.Fields["splay"].After) != "5m" {
		t.Errorf("check: %+v", check)
	}
	if hello.Action != review.Add || len(hello.Peels) != 10 || hello.Next.After[0] != merge.Add(2*time.Minute) {
		t.Errorf("hello: %+v", hello)
	}
	if len(r.Settings) != 1 || r.Settings[0].Key != "nginx.workers" || fmt.Sprint(r.Settings[0].Before, r.Settings[0].After) != "4 8" {
		t.Errorf("settings: %+v", r.Settings)
	}
	if before, after := r.Load.Before, r.Load.After; before.Runs < 499 || before.Runs > 501 || after.Runs < 7600 || after.Runs > 7700 || after.Worst.Runs <= before.Worst.Runs {
		t.Errorf("load %+v → %+v", before, after)
	}
}

func TestWarningsAreThoseOfTheLinterToo(t *testing.T) {
	base := tree("settings/all.yaml", "{}\n", "settings/few.yaml", "{}\n")
	head := tree("settings/all.yaml", "schedule: {a: {module: test.pong, interval: 1h, splay: 2h}}\n", "settings/few.yaml", "{}\n")
	c := plan.NewCompiler()
	before := compile(t, c, base, peels(20))
	r, err := review.Make(before, compile(t, c, head, peels(20)), review.Options{
		From: merge, Static: map[string]strictyaml.Pos{"a": {File: "peel.yaml", Line: 7, Column: 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"test.pong", "splay", "peel.yaml:7"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing about %s: %s", want, all)
		}
	}
}

func TestCommentsAndOrderAreNoChange(t *testing.T) {
	base := tree("settings/all.yaml", backup, "settings/few.yaml", "a: 1\nb: 2\n")
	head := tree("settings/all.yaml", "# a comment\n"+backup, "settings/few.yaml", "b: 2\na: 1\n")
	if r := compare(t, peels(20), base, head); !r.Empty() || len(r.Changes)+len(r.Settings) != 0 || r.Blocked != "" {
		t.Errorf("%+v", r)
	}
}

func TestPeelsThatLoseEverythingAreNamed(t *testing.T) {
	base := tree("settings/all.yaml", "a: 1\n", "settings/few.yaml", backup)
	head := tree("settings/all.yaml", "a: 1\n", "settings/few.yaml", "{}\n")
	r := compare(t, peels(20), base, head)
	if len(r.Emptied) != 10 || r.Totals.Removed != 20 || !strings.Contains(r.Blocked, "20 of 40 settings over all peels would go") || r.Changes[0].Origin != "settings/few.yaml:2" {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Release, "the line Zester-Allow: remove at") {
		t.Error(r.Release)
	}
	head["zester.yaml"] = &fstest.MapFile{Data: []byte("limits: {change: off, remove: off, peels: off}\n"), Mode: 0o644}
	if r := compare(t, peels(20), base, head); r.Blocked == "" {
		t.Error("a revision relaxes the limits for itself")
	}
	delete(head, "zester.yaml")
	c := plan.NewCompiler()
	allowed, err := review.Make(compile(t, c, base, peels(20)), compile(t, c, head, peels(20)), review.Options{From: merge, Zone: time.UTC, Message: "Away\n\nZester-Allow: remove\n"})
	if err != nil || allowed.Blocked != "" {
		t.Errorf("%v, blocked: %s", err, allowed.Blocked)
	}
}

// refusal is of a head with a mistake.
func refusal(t *testing.T) *plan.Error {
	t.Helper()
	_, err := plan.NewCompiler().Compile(tree("settings/all.yaml", "schedule: {a: {modul: x}}\n", "settings/few.yaml", "a: yes\n"), peels(1))
	refused, ok := errors.AsType[*plan.Error](err)
	if !ok {
		t.Fatal(err)
	}
	return refused
}

func TestARefusedHeadHasItsErrors(t *testing.T) {
	r := review.Refuse(refusal(t), review.Options{})
	if !r.Refused || len(r.Errors) != 1 || !strings.HasPrefix(r.Errors[0], "settings/all.yaml:1:") {
		t.Errorf("%+v", r)
	}
	for _, e := range r.Errors {
		if !strings.Contains(r.Markdown(), e) {
			t.Errorf("the comment lacks %s", e)
		}
	}
}

func TestACommentStaysWithinItsSize(t *testing.T) {
	base, head := tree("settings/few.yaml", "{}\n", "settings/all.yaml", "{}\n"), tree("settings/few.yaml", "{}\n", "settings/all.yaml", "{}\n")
	var top strings.Builder
	top.WriteString("base:\n  'web-*': [all]\n")
	for i := range 300 {
		name := fmt.Sprintf("one%d", i)
		fmt.Fprintf(&top, "  'web-%03d': [%s]\n", i, name)
		base["settings/"+name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, "text: %q\n", strings.Repeat("é", 500)), Mode: 0o644}
		head["settings/"+name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, "text: \"%d `````%s\"\n", i, strings.Repeat("ü", 500)), Mode: 0o644}
	}
	base["top.yaml"] = &fstest.MapFile{Data: []byte(top.String()), Mode: 0o644}
	head["top.yaml"] = base["top.yaml"]
	r := compare(t, peels(300), base, head)
	text := r.Markdown()
	if len(text) > review.MaxMarkdown || !utf8.ValidString(text) || !strings.HasPrefix(text, review.Marker) {
		t.Errorf("%d bytes", len(text))
	}
	if strings.Count(text, "<details>") != strings.Count(text, "</details>") || strings.Count(text, "``````diff") != strings.Count(text, "<details>") {
		t.Error("something is cut in its middle")
	}
	shown := strings.Count(text, "<details>")
	if want := fmt.Sprintf("%d more groups of changes are left out", 300-shown); !strings.Contains(text, want) {
		t.Errorf("%q is missing", want)
	}
}

func TestACommentMentionsNoUser(t *testing.T) {
	base := tree("settings/all.yaml", "{}\n", "settings/few.yaml", "{}\n")
	head := tree("settings/all.yaml", "'@everybody <script>': \"```\\n</details>\\n# big\"\n", "settings/few.yaml", "{}\n")
	c := plan.NewCompiler()
	before := compile(t, c, base, peels(3))
	r, err := review.Make(before, compile(t, c, head, peels(3)), review.Options{From: merge, Zone: time.UTC, Head: review.Revision{Name: "h", Subject: "@ada closes #1 <b>"}})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Markdown()
	head1, rest, _ := strings.Cut(text, "<details>")
	if strings.Contains(head1, "@ada") || strings.Contains(head1, "#1") || strings.Contains(head1, "<b>") {
		t.Error(head1)
	}
	_, fenced, ok := strings.Cut(rest, "````diff\n")
	if !ok || strings.Count(fenced, "````") != 1 {
		t.Errorf("the fence can be left: %s", rest)
	}
}

// A backslash of a subject must not take away the one that escapes the sign after it.
func TestNoSignOfASubjectIsMarkdown(t *testing.T) {
	for subject, want := range map[string]string{
		`[here](https://evil.example)`:   `\[here\](https://evil.example)`,
		`\[here\](https://evil.example)`: `\\\[here\\\](https://evil.example)`,
		`\*loud\* \_\|`:                  `\\\*loud\\\* \\\_\\\|`,
		`\<b>`:                           `\\&lt;b&gt;`,
	} {
		same := compile(t, plan.NewCompiler(), tree("settings/all.yaml", "{}\n", "settings/few.yaml", "{}\n"), peels(3))
		r, err := review.Make(same, same,
			review.Options{From: merge, Zone: time.UTC, Head: review.Revision{Name: "h", Subject: subject}})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Markdown(); !strings.Contains(text, "`h` "+want+"\n") {
			t.Errorf("%s: %s", subject, text)
		}
	}
}

func TestAReviewReadsTheSameEveryTime(t *testing.T) {
	base := tree("settings/all.yaml", backup, "settings/few.yaml", "a: {b: 1, c: 2}\n")
	head := tree("settings/all.yaml", "{}\n", "settings/few.yaml", "a: {b: 3, d: 2}\nx: 1\n"+backup)
	var first string
	for range 20 {
		data, err := json.Marshal(compare(t, peels(40), base, head))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(data)
		}
		if string(data) != first {
			t.Fatalf("%s\n%s", first, data)
		}
	}
}

func TestBlocksHoldEveryChangeOnce(t *testing.T) {
	base := tree("settings/all.yaml", backup, "settings/few.yaml", "{}\n")
	head := tree("settings/all.yaml", "a: 1\n", "settings/few.yaml", "b: 2\nschedule: {x: {module: test.ping, interval: 24h}}\n")
	r := compare(t, peels(40), base, head)
	var entries, keys []string
	last := len(r.Touched) + 1
	for _, b := range r.Blocks() {
		if len(b.Peels) > last {
			t.Error("a block of more peels comes later")
		}
		last = len(b.Peels)
		for _, c := range b.Changes {
			entries = append(entries, c.Entry)
		}
		for _, s := range b.Settings {
			keys = append(keys, s.Key)
		}
	}
	slices.Sort(entries)
	slices.Sort(keys)
	if fmt.Sprint(entries, keys) != "[backup check x] [a b]" {
		t.Error(entries, keys)
	}
}

func BenchmarkReview(b *testing.B) {
	fleet := peelindex.New()
	for i := range 10_000 {
		fleet.Put(target.PeelID(fmt.Sprintf("web-%05d", i)), target.Facts{"lot": fmt.Sprint(i % 1000)})
	}
	base, head := fstest.MapFS{}, fstest.MapFS{}
	var top strings.Builder
	top.WriteString("base:\n")
	for i := range 1000 {
		name := fmt.Sprintf("f%d", i)
		fmt.Fprintf(&top, "  'G@lot:%d': [%s]\n", i, name)
		base["settings/"+name+".yaml"] = &fstest.MapFile{Data: []byte(backup), Mode: 0o644}
		head["settings/"+name+".yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(backup, "30 1", fmt.Sprintf("%d 1", i%60), 1)), Mode: 0o644}
	}
	base["top.yaml"] = &fstest.MapFile{Data: []byte(top.String()), Mode: 0o644}
	head["top.yaml"] = base["top.yaml"]
	for b.Loop() {
		compare(b, fleet, base, head).Markdown()
	}
}

func TestSecretsAreNumberedAndNotShown(t *testing.T) {
	entry := func(password, user string) string {
		return fmt.Sprintf("schedule:\n  dump: {module: cmd.run, args: {command: dump, env: {PGPASSWORD: %s, PGUSER: %s}}, interval: 1d}\n"+
			"db: {secrets: {root: [%[1]s, 4711%[3]d], used: true}, user: %[2]s, max_tokens: %[3]d, key: 'ENC[AES256_GCM,data:%[1]s]'}\n",
			password, user, len(user))
	}
	r := compare(t, peels(3), tree("settings/all.yaml", entry("hunter1", "ada"), "settings/few.yaml", "{}\n"),
		tree("settings/all.yaml", entry("hunter2", "dora"), "settings/few.yaml", "{}\n"))
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"data": string(data), "comment": r.Markdown()} {
		if strings.Contains(text, "hunter") || strings.Contains(text, "4711") {
			t.Errorf("the %s tells: %s", form, text)
		}
	}
	for _, want := range []string{
		`"PGPASSWORD":"(secret 1)","PGUSER":"ada"`, `"PGPASSWORD":"(secret 2)","PGUSER":"dora"`,
		`"key":"db.key","before":"(secret 3)","after":"(secret 4)"`,
		`"key":"db.max_tokens","before":3,"after":4`,
		`"key":"db.secrets.root","before":["(secret 1)","(secret 5)"],"after":["(secret 2)","(secret 6)"]`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

func TestWarningsThatTheBaseHasComeLast(t *testing.T) {
	old, fresh := "a: {module: test.pong, interval: 1h}", "b: {module: test.ping, interval: 1h, splay: 2h}"
	r := compare(t, peels(3), tree("settings/all.yaml", "schedule:\n  "+old+"\n", "settings/few.yaml", "{}\n"),
		tree("settings/all.yaml", "schedule:\n  "+fresh+"\n  "+old+"\n", "settings/few.yaml", "{}\n"))
	if r.NewWarnings != 1 || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "schedule.b.splay") || !strings.Contains(r.Warnings[1], "test.pong") {
		t.Fatalf("%d new of %q", r.NewWarnings, r.Warnings)
	}
	text := r.Markdown()
	if !strings.Contains(text, "1 warning<") || strings.Contains(text, "test.pong") || !strings.Contains(text, "warnings that the base has too: 1") {
		t.Error(text)
	}
}

func TestTheRadiusOfOnePeelIsInTheSingular(t *testing.T) {
	var r review.Review
	r.Peels, r.Touched = 3, []target.PeelID{"a"}
	for _, want := range []string{"1 of 3 peels changes (33.3 %)", "2 of 3 peels change (66.7 %)"} {
		if got := r.Radius(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		r.Touched = append(r.Touched, "b")
	}
}
