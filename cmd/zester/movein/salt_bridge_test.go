package movein

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// declared returns the lowstate of one host. A line is a function, an ID and further keys as JSON.
func declared(t *testing.T, lines ...[3]string) Minion {
	t.Helper()
	var all []string
	for _, line := range lines {
		module, fun, _ := strings.Cut(line[0], ".")
		text := `{"__sls__": "s", "__id__": "` + line[1] + `", "name": "` + line[1] + `", "state": "` + module +
			`", "fun": "` + fun + `"`
		if line[2] != "" {
			text += ", " + line[2]
		}
		all = append(all, text+"}")
	}
	return low(t, "["+strings.Join(all, ",")+"]")
}

// What has no effect of its own carries requisites: what needs it waits for what it needs, and reacts as in Salt.
func TestRequisitesGoThroughWhatDoesNothing(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{declared(t,
		[3]string{"pkg.installed", "a", ""},
		[3]string{"test.nop", "nop", `"require": [{"pkg": "a"}]`},
		[3]string{"file.managed", "/b", `"contents": "b", "require": [{"test": "nop"}]`},
		[3]string{"test.nop", "relay", `"watch": [{"file": "/b"}], "require": [{"pkg": "a"}]`},
		[3]string{"service.running", "web", `"watch": [{"test": "relay"}]`},
		[3]string{"test.nop", "still", `"onchanges": [{"file": "/b"}]`},
		[3]string{"service.running", "db", `"watch": [{"test": "still"}]`},
		[3]string{"module.run", "service.systemctl_reload", `"onchanges": [{"file": "/b"}]`},
		[3]string{"service.running", "app", `"watch": [{"module": "service.systemctl_reload"}]`},
		[3]string{"module.run", "again", `"service.systemctl_reload": null, "onchanges": [{"file": "/b"}]`},
		[3]string{"module.run", "test.ping", ""},
		[3]string{"cmd.run", "make", `"onchanges": [{"module": "test.ping"}]`},
		[3]string{"stateconf.set", "set", `"onchanges": [{"file": "/b"}]`},
		[3]string{"test.nop", "alone", ""},
	)}})
	if err != nil || len(r.Refused) > 0 {
		t.Fatal(err, r.Refused)
	}
	compiles(t, r, map[target.PeelID]target.Facts{"h": {}})
	text := string(r.Files["settings/s.yaml"])
	const never = "    cmd.run:\n      argv:\n        - \"true\"\n      creates: /\n"
	const always = "    cmd.run:\n      argv:\n        - \"true\"\n"
	for _, want := range []string{
		"  nop:\n" + never + "    require:\n      - a\n",
		"    require:\n      - nop\n",
		"  relay:\n" + always + "    onchanges:\n      - /b\n    require:\n      - a\n",
		"    watch:\n      - relay\n",
		"  still:\n" + never + "    require:\n      - /b\n",
		"  service.systemctl_reload:\n" + always + "    onchanges:\n      - /b\n",
		"    watch:\n      - service.systemctl_reload\n",
		"  again:\n" + always + "    onchanges:\n      - /b\n",
		"  test.ping:\n" + always + "  make:\n", // it changes in each run, as in Salt
		"  set:\n" + never + "    require:\n      - /b\n",
		"  alone:\n" + always + "    enabled: false\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// What needs a declaration that is not converted gets what that one needs, and a note at the state and in the report.
func TestRequisitesOnWhatIsNotConvertedAreNoted(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{declared(t,
		[3]string{"cmd.run", "late", `"creates": "/l", "require": [{"rsync": "second"}]`},
		[3]string{"pkg.installed", "a", ""},
		[3]string{"rsync.synchronized", "first", `"require": [{"pkg": "a"}]`},
		[3]string{"rsync.synchronized", "second", `"require": [{"rsync": "first"}]`},
		[3]string{"service.running", "web", `"watch": [{"rsync": "first"}, {"pkg": "a"}]`},
		[3]string{"cmd.run", "never", `"onchanges": [{"rsync": "second"}]`},
		[3]string{"cmd.run", "some", `"onchanges": [{"rsync": "second"}, {"pkg": "a"}]`},
		[3]string{"cmd.run", "mend", `"onfail": [{"rsync": "first"}]`},
		[3]string{"ini.options_present", "/i", `"sections": {"a": "1", "b": "2"}, "require": [{"x": "none"}]`},
		[3]string{"cmd.run", "parts", `"creates": "/p", "require": [{"ini": "/i"}]`},
		[3]string{"file.directory", "/srv/d", `"clean": true`},
		[3]string{"file.managed", "/srv/d/a", `"contents": [], "require": [{"file": "/srv/d"}]`},
		[3]string{"file.directory", "/srv/d/b", `"clean": true`},
	)}})
	if err != nil {
		t.Fatal(err)
	}
	compiles(t, r, map[target.PeelID]target.Facts{"h": {}})
	text := string(r.Files["settings/s.yaml"])
	for _, want := range []string{
		"  # note: it runs without what it requires: second, not converted\n  late:\n    cmd.run:\n      creates: /l\n    require:\n      - second\n      - a\n",
		"  # note: it does not react to a change of first, not converted\n  web:\n    service.running: {}\n    require:\n      - a\n    watch:\n      - first\n      - a\n",
		"  # note: it never runs: it waits for a change of second, not converted\n  never:\n    cmd.run: {}\n    onchanges:\n      - second\n    require:\n      - a\n",
		"  # note: it does not run after a change of second, not converted\n  some:\n",
		"  # note: it never runs: it waits for a failure of first, not converted\n  mend:\n    cmd.run: {}\n    onfail:\n      - first\n",
		"  # note: it runs without what it requires: /i, not converted\n  parts:\n    cmd.run:\n      creates: /p\n    require:\n      - /i\n",
		"  # note: argument clean is left out: it would delete /srv/d/a, not converted\n  /srv/d:\n    file.directory: {}\n",
		"  /srv/d/b:\n    file.directory:\n      clean: true\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for _, row := range r.Notes {
		if strings.Contains(row.Reason, "not converted") && !slices.Equal(row.Hosts, []string{"h"}) {
			t.Errorf("%v", row)
		}
	}
	if n := strings.Count(text, ", not converted\n"); n != 7 {
		t.Errorf("%d notes in\n%s", n, text)
	}
}

// Salt runs each declaration in its place, after what it needs; so does the file.
func TestStatesAreInTheOrderInWhichSaltRunsThem(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{declared(t,
		[3]string{"pkg.installed", "z", ""},
		[3]string{"service.running", "web", `"watch": [{"file": "/conf"}], "listen": [{"cmd": "last"}]`},
		[3]string{"cmd.run", "between", `"creates": "/b"`},
		[3]string{"file.managed", "/conf", `"contents": "c", "require": [{"pkg": "web-pkg"}]`},
		[3]string{"pkg.installed", "web-pkg", ""},
		[3]string{"cmd.run", "last", `"creates": "/l"`},
	)}})
	if err != nil || len(r.Reordered) > 0 {
		t.Fatal(err, r.Reordered)
	}
	var order []string
	for line := range strings.Lines(string(r.Files["settings/s.yaml"])) {
		if name, isState := strings.CutPrefix(line, "  "); isState && name[0] != ' ' && name[0] != '#' {
			order = append(order, strings.TrimSuffix(name, ":\n"))
		}
	}
	if want := []string{"z", "web-pkg", "/conf", "web", "web-listen", "between", "last"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}
