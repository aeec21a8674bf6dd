package edit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

const replaceable = `# people's words
schedule:
  first: {module: test.ping, interval: 1h}
  second:
    module: test.ping
    interval: 2h
    api: {id: 7, name: second}
contact: ann
`

func TestOnlyEntriesOfAFileAreReplaced(t *testing.T) {
	m, r := repo(t, "settings/web.yaml", replaceable)
	change := func(old, now string) string { return strings.Replace(replaceable, old, now, 1) }
	good := change("interval: 2h", "interval: 3h # slower") + "# the end\n"
	files, err := r.Replace(r.ByID(7)[0], []byte(good))
	if err != nil || len(files) != 1 || string(files["settings/web.yaml"]) != good {
		t.Fatalf("%v\n%s", err, files["settings/web.yaml"])
	}
	after, err := edit.Read(apply(m, files))
	if err != nil {
		t.Fatal(err)
	}
	if changed := r.Changed(after); len(changed) != 1 || changed[0].Entry.Name != "second" {
		t.Errorf("%d entries changed", len(changed))
	}
	for _, c := range []struct {
		name, text, want string
		is               error
	}{
		{"another setting", change("contact: ann", "contact: bob"), "settings/web.yaml:8:1: contact would change", edit.ErrInvalid},
		{"a setting less", change("contact: ann\n", ""), "settings/web.yaml:8:1: contact would change", edit.ErrInvalid},
		{"a setting more", replaceable + "more: 1\n", "settings/web.yaml:9:1: more would change", edit.ErrInvalid},
		{"another number", change("id: 7", "id: 8"), "the field api of second is written by masters alone", edit.ErrInvalid},
		{"a number for another", change("interval: 1h}", "interval: 1h, api: {id: 9}}"), "the field api of first is written by masters alone", edit.ErrInvalid},
		{"without its number", change("    api: {id: 7, name: second}\n", ""), "the field api of second is written by masters alone", edit.ErrInvalid},
		{"another name", change("  second:", "  third:"), "the field api of third", edit.ErrInvalid},
		{"no entry", "schedule:\n  first: {module: test.ping, interval: 1h}\ncontact: ann\n", "would have no entry second: remove it instead", edit.ErrInvalid},
		{"a mistake", change("interval: 2h", "interval: 2x"), "settings/web.yaml:6:15: schedule.second.interval: ", nil},
		{"no YAML", "a: [", "settings/web.yaml:1:", nil},
	} {
		if _, err := r.Replace(r.ByID(7)[0], []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestAnEncryptedFileIsNotEdited(t *testing.T) {
	text := sopstest.New(t).Encrypt("^password$", replaceable+"password: x\n")
	_, r := repo(t, "settings/web.yaml", text)
	if _, err := r.Replace(r.ByID(7)[0], []byte(text+"# more\n")); !errors.Is(err, edit.ErrByHand) || !strings.Contains(err.Error(), "settings/web.yaml is encrypted") {
		t.Error(err)
	}
}

func FuzzReplace(f *testing.F) {
	f.Add(replaceable)
	f.Add("schedule:\n  second: {module: test.ping, interval: 5h, api: {id: 7, name: second}}\n  new: {module: test.ping, cron: '@daily'}\ncontact: ann\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, r := repo(t, "settings/web.yaml", replaceable)
		files, err := r.Replace(r.ByID(7)[0], []byte(text))
		if err != nil {
			return
		}
		after, err := edit.Read(apply(m, files))
		if err != nil {
			t.Fatalf("what is accepted has mistakes: %v\n%s", err, text)
		}
		if e := after.ByID(7); len(e) != 1 || e[0].Entry.Name != "second" || len(files) != 1 {
			t.Fatalf("entry 7 is gone, renamed or twice there\n%s", text)
		}
	})
}
