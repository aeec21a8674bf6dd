package movein

import (
	"maps"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestStatesSayWhatAHostHas(t *testing.T) {
	t.Parallel()
	var all []Adopted
	add := func(s Adopted, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		all = append(all, s)
	}
	const host = "web-01.example.org"
	add(AdoptFile(host, LiveFile{Path: "/etc/motd", Kind: "file", Mode: "0644", User: "root", Group: "adm", Content: []byte("hello\n")}))
	add(AdoptFile(host, LiveFile{Path: "/srv/app", Kind: "directory", Mode: "2750", User: "deploy", Group: "app"}))
	add(AdoptFile(host, LiveFile{Path: "/etc/localtime", Kind: "symbolic link", Target: "/usr/share/zoneinfo/UTC", Mode: "0777", User: "root", Group: "root"}))
	add(AdoptPackage(host, "nginx", "1.26.3-3"))
	add(AdoptUnit(host, LiveUnit{Name: "nginx.service", Load: "loaded", Active: "active", Enabled: "enabled"}))
	add(AdoptUnit(host, LiveUnit{Name: "ssh.socket", Load: "loaded", Active: "active", Enabled: "disabled"}))
	add(AdoptUnit(host, LiveUnit{Name: "dbus.service", Load: "loaded", Active: "active", Enabled: "static"}))
	add(AdoptUnit(host, LiveUnit{Name: "late.service", Load: "loaded", Active: "inactive", Enabled: "enabled"}))
	add(AdoptUnit(host, LiveUnit{Name: "off.service", Load: "loaded", Active: "failed", Enabled: "disabled"}))
	add(AdoptUnit(host, LiveUnit{Name: "never.service", Load: "masked", Active: "inactive", Enabled: "masked"}))
	if note := all[8].Note; note != "it failed on the host, which the state does not say" {
		t.Errorf("the note on a failed unit is %q", note)
	}
	text, err := Settings([]byte("# ours\nstates:\n  /etc/issue:\n    file.absent: {}\n"), all)
	want := `# ours
states:
  /etc/issue:
    file.absent: {}
  /etc/motd:
    file.managed:
      source: files/adopted/web-01-example-org/etc/motd
      user: root
      group: adm
      mode: "0644"
  /srv/app:
    file.directory:
      user: deploy
      group: app
      mode: "2750"
  /etc/localtime:
    file.symlink:
      target: /usr/share/zoneinfo/UTC
  nginx:
    pkg.installed: {}
  nginx.service:
    service.running:
      enable: true
  ssh.socket:
    service.running:
      enable: false
  dbus.service:
    service.running: {}
  late.service:
    service.enabled: {}
  off.service:
    service.dead:
      enable: false
  never.service:
    service.dead:
      mask: true
`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
	doc, err := strictyaml.Parse("adopted.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := state.Parse(doc.Get(state.Key), state.Options{}); err != nil || len(set) != len(all)+1 {
		t.Errorf("%d states, %v", len(set), err)
	}
	if got := all[0].Test(); !maps.Equal(got, map[string]any{"content": "", "replace": false, "user": "root", "group": "adm", "mode": "0644", "test": true}) {
		t.Errorf("the test of a file is %v", got)
	}
	if got := all[4].Test(); !maps.Equal(got, map[string]any{"enable": true, "test": true}) {
		t.Errorf("the test of a unit is %v", got)
	}
	if _, err := Settings(text, all[:1]); err == nil || err.Error() != "the file has the state /etc/motd already" {
		t.Error(err)
	}
	for _, old := range []string{"states: []\n", "- a\n", "states: 3\n"} {
		if _, err := Settings([]byte(old), all[:1]); err == nil || err.Error() != "the file has no map under states, to which states can be added" {
			t.Errorf("%q: %v", old, err)
		}
	}
}

func TestWhatAHostDoesNotHaveIsNotAdopted(t *testing.T) {
	t.Parallel()
	for want, do := range map[string]func() (Adopted, error){
		"a has no /none": func() (Adopted, error) { return AdoptFile("a", LiveFile{Path: "/none", Kind: "absent"}) },
		"cannot adopt /dev/null: it is a device, socket or pipe, and states are of files, directories and symbolic links": func() (Adopted, error) {
			return AdoptFile("a", LiveFile{Path: "/dev/null", Kind: "device, socket or pipe"})
		},
		"cannot keep /srv/.gitattributes in the repo: Git gives files named .git… a meaning": func() (Adopted, error) {
			return AdoptFile("a", LiveFile{Path: "/srv/.gitattributes", Kind: "file"})
		},
		"a has no package nginx; zester a pkg.list names those that it has": func() (Adopted, error) { return AdoptPackage("a", "nginx", "") },
		"a has no unit x.service": func() (Adopted, error) { return AdoptUnit("a", LiveUnit{Name: "x.service", Load: "not-found"}) },
		// A state service.dead would stop it while its timer has it run.
		"cannot adopt apt-daily.service: it does not run, and something else than the boot starts it (static); adopt what does": func() (Adopted, error) {
			return AdoptUnit("a", LiveUnit{Name: "apt-daily.service", Load: "loaded", Active: "inactive", Enabled: "static"})
		},
		"cannot adopt backup.service: it is activating; try again when it has started or stopped": func() (Adopted, error) {
			return AdoptUnit("a", LiveUnit{Name: "backup.service", Load: "loaded", Active: "activating", Enabled: "disabled"})
		},
		"cannot write a state for /etc/a: ": func() (Adopted, error) {
			return AdoptFile("a", LiveFile{Path: "/etc/a", Kind: "file", Mode: "rw", User: "root", Group: "root"})
		},
	} {
		if _, err := do(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What a timer starts is dead most of the time, and what a socket starts until somebody calls: adopt takes what starts it.
func TestAUnitThatAnotherStartsIsNeverAdoptedAsDead(t *testing.T) {
	t.Parallel()
	timer, socket := []string{"backup.timer"}, []string{"a.path", "a.socket"}
	for _, c := range []struct {
		unit LiveUnit
		want string
	}{
		{LiveUnit{Load: "loaded", Active: "inactive", Enabled: "static", TriggeredBy: timer}, "backup.timer"},
		{LiveUnit{Load: "loaded", Active: "inactive", Enabled: "disabled", TriggeredBy: timer}, "backup.timer"},
		{LiveUnit{Load: "loaded", Active: "failed", Enabled: "disabled", TriggeredBy: timer}, "backup.timer"},
		{LiveUnit{Load: "loaded", Active: "activating", Enabled: "static", TriggeredBy: timer}, "backup.timer"},
		{LiveUnit{Load: "loaded", Active: "active", Enabled: "disabled", TriggeredBy: timer}, "backup.timer"},
		{LiveUnit{Load: "loaded", Active: "inactive", Enabled: "enabled", TriggeredBy: timer}, ""},
		{LiveUnit{Load: "loaded", Active: "inactive", Enabled: "static", TriggeredBy: socket}, "a.path"},
		{LiveUnit{Load: "loaded", Active: "active", Enabled: "static", TriggeredBy: socket}, ""},
		{LiveUnit{Load: "masked", Active: "inactive", Enabled: "masked", TriggeredBy: timer}, ""},
		{LiveUnit{Load: "loaded", Active: "inactive", Enabled: "disabled"}, ""},
	} {
		c.unit.Name = "backup.service"
		if got := c.unit.Starter(); got != c.want {
			t.Errorf("%+v: the starter is %q, want %q", c.unit, got, c.want)
		}
		s, err := AdoptUnit("a", c.unit)
		if err == nil && s.Function == "service.dead" && c.want == "" && c.unit.TriggeredBy != nil && c.unit.Load != "masked" {
			t.Errorf("%+v is adopted as dead", c.unit)
		}
	}
	s, err := AdoptUnit("a", LiveUnit{Name: "backup.timer", Load: "loaded", Active: "active", Enabled: "enabled"})
	if err != nil || s.Function != "service.running" || s.ID != "backup.timer" {
		t.Errorf("%+v, %v", s, err)
	}
}
