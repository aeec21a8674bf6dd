package movein

import (
	"strings"
	"testing"
)

// TestEachRequisite has a state need one and two others by each requisite of Salt, and others of a file of their own
// have it for a state. Each is converted, or the declaration that has it is refused.
func TestEachRequisite(t *testing.T) {
	t.Parallel()
	const (
		one = `[{"file": "/a"}]`
		two = `[{"file": "/a"}, "b"]`
		a   = "/a"
		ab  = "/a, b"
	)
	for _, c := range []struct{ requisite, function, value, want string }{
		{"require", "cmd.run", one, "require: /a"},
		{"require", "cmd.run", two, "require: /a, b"},
		{"require", "cmd.run", `[{"sls": "*"}]`, "require: /a, b"},
		{"require", "cmd.run", `[{"sls": "o.*"}]`, "require: b"},
		{"require", "cmd.run", `[{"sls": "*/q"}]`, "require: b"},
		{"require", "cmd.run", `[{"file": "*"}]`, "require: /a"},
		{"require", "cmd.run", `[{"id": "[!b]*"}]`, "require: /a"},
		{"require", "cmd.run", `[{"file": "/none"}]`, "refused: requisite require: it names no state"},
		{"require_any", "cmd.run", one, "require: /a"},
		{"require_any", "cmd.run", two, "require: /a, b"},
		{"watch", "service.running", two, "watch: /a, b"},
		{"watch", "cmd.wait", two, "onchanges: /a, b"},
		{"watch", "cmd.run", one, "require: /a"},
		{"watch_any", "service.running", one, "watch: /a"},
		{"watch_any", "service.running", two, "watch: /a, b"},
		{"listen", "service.running", two, "watch: /a, b"},
		{"listen", "cmd.run", one, "require: /a"},
		{"onchanges", "cmd.run", two, "onchanges: /a, b"},
		{"onchanges_any", "cmd.run", two, "onchanges: /a, b"},
		{"onfail", "cmd.run", two, "onfail: /a, b"},
		{"onfail_any", "cmd.run", two, "onfail: /a, b"},
		{"onfail_all", "cmd.run", two, "refused: argument onfail_all: onfail, if one failure is enough"},
		{"onfail_stop", "cmd.run", `false`, "refused: argument onfail_stop: leave it out: a failure ends no run without failhard"},
		{"prereq", "cmd.run", one, "refused: argument prereq; what prereq is in Salt is here onlyif, or watch of the service"},
		{"prereq_in", "cmd.run", one, "refused: argument prereq_in"},
		{"use", "cmd.run", one, ""}, // Salt has copied the arguments
		{"use_in", "cmd.run", one, ""},
		{"require_in", "cmd.run", `[{"file": "/none"}]`, "refused: argument require_in"},
	} {
		module, fun, _ := strings.Cut(c.function, ".")
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[
			{"__sls__": "m", "__id__": "/a", "name": "/srv/a/b", "state": "file", "fun": "absent"},
			{"__sls__": "o.p/q", "__id__": "b", "name": "b", "state": "service", "fun": "enabled"},
			{"__sls__": "s", "__id__": "x", "name": "x", "state": "`+module+`", "fun": "`+fun+`", "`+c.requisite+`": `+c.value+`}]`)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := needsOf(r); got != c.want {
			t.Errorf("%s of %s: %s: %q, want %q", c.requisite, c.function, c.value, got, c.want)
		}
	}
	for _, c := range []struct{ requisite, function, want string }{
		{"require_in", "cmd.run", "require: other"},
		{"watch_in", "service.running", "watch: other"},
		{"listen_in", "service.running", "watch: other"},
		{"onchanges_in", "cmd.run", "onchanges: other"},
		{"onfail_in", "cmd.run", "onfail: other"},
	} {
		module, fun, _ := strings.Cut(c.function, ".")
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[
			{"__sls__": "o", "__id__": "other", "name": "/srv/a/b", "state": "file", "fun": "absent", "`+c.requisite+`": [{"`+module+`": "x"}]},
			{"__sls__": "s", "__id__": "x", "name": "x", "state": "`+module+`", "fun": "`+fun+`"}]`)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := needsOf(r); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.requisite, c.function, got, c.want)
		}
	}
}

// needsOf returns the requisites of the state in the settings file s, or why it is refused.
func needsOf(r SaltResult) string {
	if len(r.Refused) > 0 {
		return "refused: " + r.Refused[0].Reason
	}
	_, fields, _ := strings.Cut(withoutNotes(string(r.Files["settings/s.yaml"])), ": {}\n")
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(fields), "\n      - ", ", "), ":, ", ": "), "\n    ", "; ")
}
