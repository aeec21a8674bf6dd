package schedule

import (
	"fmt"
	"maps"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// values gives a document as the peel has it: of decoded values, which have no places.
func values(t *testing.T, text string) *strictyaml.Node {
	t.Helper()
	return strictyaml.FromValue("settings", node(t, "f.yaml", text).Any())
}

func TestOnlyChangedEntriesOfANewDocumentAreParsed(t *testing.T) {
	const was = `
same: {module: cmd.run, args: {command: [a, {b: 1}]}, cron: "0 4 * * *"}
retimed: {module: cmd.run, interval: 1h}
swapped: {module: cmd.run, args: {n: 1}, interval: 1h}
removed: {module: cmd.run, interval: 1h}
needing: {module: cmd.run, needs: {entry: removed}}
bad: {module: cmd.run, interval: 1}
`
	const is = `
same: {cron: "0 4 * * *", module: cmd.run, args: {command: [a, {b: 1}]}}
retimed: {module: cmd.run, interval: 2h}
swapped: {module: cmd.run, args: {n: 1.0}, interval: 1h}
needing: {module: cmd.run, needs: {entry: removed}}
bad: {module: cmd.run, interval: 1}
added: {module: cmd.run, interval: 1h}
`
	old, latest := values(t, was), values(t, is)
	before, err := ParseSet(old)
	KeepInvalid(before, old, err)
	after, err := Reparse(before, old, latest)
	want, wantErr := ParseSet(latest)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || len(after) != 4 {
		t.Errorf("%d entries, %v, want %v", len(after), err, wantErr)
	}
	if !maps.EqualFunc(after, want, func(a, b *Entry) bool { return a.Hash() == b.Hash() }) {
		t.Errorf("%v, want %v", after, want)
	}
	for name, e := range after {
		if same := e == before[name]; same != (name == "same") {
			t.Errorf("%s is the very same: %v", name, same)
		}
	}
}

func TestAChangedSecretIsParsedAgain(t *testing.T) {
	doc := func(secret string) *strictyaml.Node {
		form := map[string]any{"e": map[string]any{"module": "cmd.run", "interval": "1h", "args": map[string]any{"command": "shown"}}}
		plain := map[string]any{"e": map[string]any{"module": "cmd.run", "interval": "1h", "args": map[string]any{"command": secret}}}
		n, ok := strictyaml.FromSecret("settings", form, plain)
		if !ok {
			t.Fatal("not alike")
		}
		return n
	}
	before, err := ParseSet(doc("one"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"one", "two"} {
		after, err := Reparse(before, doc("one"), doc(secret))
		if err != nil || after["e"].CallArgs()["command"] != secret {
			t.Errorf("%v, %v", after["e"].CallArgs(), err)
		}
	}
}

func BenchmarkReparse(b *testing.B) {
	doc := map[string]any{}
	for i := range 100 {
		doc[fmt.Sprint("e", i)] = map[string]any{"module": "cmd.run", "cron": "17 3 * * *", "splay": "1h", "args": map[string]any{"command": "true"}}
	}
	n := strictyaml.FromValue("settings", doc)
	set, err := ParseSet(n)
	if err != nil {
		b.Fatal(err)
	}
	for name, was := range map[string]*strictyaml.Node{"all": nil, "none": n} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Reparse(set, was, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
