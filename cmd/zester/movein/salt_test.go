package movein

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func open[T any](t *testing.T, name string) map[string]T {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := ReadSalt[T](f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fleet returns five hosts whose states have the shapes of public formulas.
func fleet(t *testing.T) SaltInput {
	t.Helper()
	hosts, err := Minions(open[[]map[string]any](t, "low.json"), open[map[string]any](t, "pillar.json"),
		open[map[string]any](t, "grains.json"))
	if err != nil {
		t.Fatal(err)
	}
	return SaltInput{Hosts: hosts, Target: "*", Roots: []fs.FS{os.DirFS("testdata/roots")}}
}

// TestStatesWithTheShapesOfFormulas compares the whole repo with what was read and approved by a person.
func TestStatesWithTheShapesOfFormulas(t *testing.T) {
	t.Parallel()
	r, err := Salt(fleet(t))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, tree := range []map[string][]byte{r.Files, r.Secrets} {
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			fmt.Fprintf(&got, "== %s\n%s\n", name, tree[name])
		}
	}
	for _, row := range append(r.Refused, r.Notes...) {
		fmt.Fprintf(&got, "%dx %s: %s %v\n", row.Count, row.Function, row.Reason, row.Hosts)
	}
	if *update {
		if err := os.WriteFile("testdata/want.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/want.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("testdata/want.txt differs, write it with -update and read the difference:\n%s", got.String())
	}
	t.Logf("%d of %d declarations", r.Converted, r.Declarations)
	if r.Converted*100 < r.Declarations*80 || len(r.Reordered) > 0 {
		t.Errorf("%d of %d converted, reordered on %v", r.Converted, r.Declarations, r.Reordered)
	}
	for name, text := range r.Files {
		if strings.Contains(string(text), "topsecretpw") || strings.Contains(string(text), "$6$abc") {
			t.Errorf("%s has a secret", name)
		}
	}
}

// low returns the lowstate of one host.
func low(t *testing.T, text string) Minion {
	t.Helper()
	all, err := ReadSalt[[]map[string]any](strings.NewReader(`{"h": ` + text + `}`))
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := Minions(all, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hosts[0]
}

// An ID that is no ID of a peel would be a target of other hosts.
func TestAMinionWithAnIDThatPeelsCannotHave(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"*", "a or *", "a,b", "../a", "", "web-[1]"} {
		_, err := Minions(map[string][]map[string]any{id: nil}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "take it out of the input") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestTemplates holds that a template gives the text that Jinja gives: a line with a tag stays, and - removes blanks.
func TestTemplates(t *testing.T) {
	t.Parallel()
	h := low(t, `[{"__sls__": "s", "__id__": "/f", "state": "file", "fun": "managed", "name": "/f", "context": {
		"user": "www", "on": true, "off": false, "empty": "", "list": ["a", "b"], "none": [], "port": 80, "a": {"b-c": "deep"}}}]`)
	h.Pillar = map[string]any{"nginx": map[string]any{"workers": "4"}}
	h.Grains = map[string]any{"id": "h", "os": "Debian"}
	for _, c := range []struct{ jinja, want string }{
		{"u {{ user }};\n", "u www;\n"},
		{"{{ port }}{{port}}\n", "8080\n"},
		{"{# c #}\nx\n", "\nx\n"},
		{"{% if on %}\nx\n{% endif %}\ny\n", "\nx\n\ny\n"},
		{"{% if off %}\nx\n{% else %}\nz\n{% endif %}\ny\n", "\nz\n\ny\n"},
		{"{%- if not empty %}x{% endif -%}\n\ny\n", "xy\n"},
		{"a\n{%- if on %}\nx\n{%- endif %}\n", "a\nx\n"},
		{"{% for s in list %}\ns={{ s }} {{ user }}\n{% endfor %}\n", "\ns=a www\n\ns=b www\n\n"},
		{"{% for s in list -%}\ns={{ s }};\n{%- endfor %}\n", "s=a;s=b;\n"},
		{"{% for s in none %}x{% endfor %}|\n", "|\n"},
		{"{% if on %}{% if off %}1{% else %}2{% endif %}{% else %}3{% endif %}", "2"},
		{"{{ pillar['nginx']['workers'] }} {{ pillar.nginx.workers }} {{ salt['pillar.get']('nginx:workers', 1) }}", "4 4 4"},
		{"{{ grains['os'] }} {{ grains.id }} {{ a['b-c'] }}", "Debian h deep"},
	} {
		conv := &conversion{Declaration: h.Low[0], host: &h, left: maps.Clone(h.Low[0].args)}
		text, vars, err := conv.template(c.jinja)
		if err != nil {
			t.Errorf("%q: %v", c.jinja, err)
			continue
		}
		if got, ok := render(text, vars); !ok || got != c.want {
			t.Errorf("%q became %q, which gives %q, want %q", c.jinja, text, got, c.want)
		}
	}
	for _, jinja := range []string{
		"{{ user | upper }}", "{{ missing }}", "{% set x = 1 %}", "{% if port == 80 %}a{% endif %}", "{% if port %}a{% endif %}",
		"{% for k, v in a.items() %}{% endfor %}", "{{ on }}", "{% if on %}", "{% endif %}", "{% for s in user %}{% endfor %}",
		"{% for s in list %}{{ loop.index }}{% endfor %}", "{% if list %}a{% endif %}", "{% elif on %}",
		"${#x[@]}\nz {{ user }}\n", "a ${#x}\n", "{{ user }} {{ user\n", "{% if on }}a{% endif %}",
		"{% for s in list %}{% for r in list %}{% endfor %}{% endfor %}", "{% for s in list %}{% if s %}{% endif %}{% endfor %}",
	} {
		conv := &conversion{Declaration: h.Low[0], host: &h, left: maps.Clone(h.Low[0].args)}
		if text, _, err := conv.template(jinja); err == nil {
			t.Errorf("%q became %q, want a refusal", jinja, text)
		}
	}
}

// TestWhatHasNoCounterpart types declarations that would do something else here.
func TestWhatHasNoCounterpart(t *testing.T) {
	t.Parallel()
	for args, reason := range map[string]string{
		`"state": "cmd", "fun": "run", "stateful": [{"test_name": "x"}]`:                        "argument stateful",
		`"state": "ini", "fun": "options_present", "sections": {"a": {"b": 1}, "c": 1}`:         "argument sections: options of a section, and some of none",
		`"state": "ini", "fun": "options_present", "sections": []`:                              "argument sections: a value of another form",
		`"state": "ini", "fun": "options_present", "sections": {"a": 1}, "strict": true`:        "argument strict: true, which removes other options",
		`"state": "pkgrepo", "fun": "absent", "ppa": "a/b"`:                                     "a repository without a file of its own in /etc/apt/sources.list.d",
		`"state": "pkgrepo", "fun": "absent", "file": "/etc/apt/sources.list"`:                  "a repository without a file of its own in /etc/apt/sources.list.d",
		`"state": "user", "fun": "present", "optional_groups": {"adm": 1}`:                      "argument optional_groups: a value of another form",
		`"state": "ssh_auth", "fun": "present", "user": "a", "source": "salt://none"`:           "argument source: a file that is not below --roots",
		`"state": "ssh_auth", "fun": "present", "source": "salt://k", "options": ["no-pty"]`:    "argument options: a line of the file does not begin with ssh- or ecdsa-",
		`"state": "cmd", "fun": "run", "onlyif": [{"fun": "file.exists"}]`:                      "argument onlyif: a function of Salt",
		`"state": "cmd", "fun": "run", "require": [{"pkg": "none"}]`:                            "requisite require: it names no state",
		`"state": "cmd", "fun": "run", "prereq": [{"pkg": "x"}]`:                                "argument prereq",
		`"state": "cmd", "fun": "wait"`:                                                         "a wait without watch, which never runs",
		`"state": "file", "fun": "managed", "source": "https://e.org/x"`:                        "argument source_hash: not a SHA-256 in digits, which a source from https needs",
		`"state": "file", "fun": "managed", "source": "http://e.org/x"`:                         "argument source: a file that is not salt://",
		`"state": "archive", "fun": "extracted", "source": "salt://a.tar", "options": "v"`:      "argument options: not --strip-components",
		`"state": "archive", "fun": "extracted", "source": "salt://none.tar"`:                   "argument source: a file that is not below --roots",
		`"state": "file", "fun": "managed", "template": "jinja", "source": "https://e.org/x"`:   "argument source: a template from https",
		`"state": "file", "fun": "managed", "source": "salt://none"`:                            "argument source: a file that is not below --roots",
		`"state": "file", "fun": "managed", "contents": "a", "mode": "keep"`:                    "argument mode: keep",
		`"state": "file", "fun": "append", "text": "` + strings.Repeat(`a\n`, 51) + `"`:         "argument text: more lines than 50, or none",
		`"state": "file", "fun": "replace", "pattern": "(?<=a)b", "repl": "c"`:                  "error parsing regexp: invalid ",
		`"state": "pkgrepo", "fun": "managed"`:                                                  "a repository that is not a line such as deb URI SUITE COMPONENT",
		`"state": "user", "fun": "present", "gid": 999`:                                         "argument gid: a number of a group that no state has",
		`"state": "file", "fun": "managed", "contents": "a", "attrs": "i"`:                      "argument attrs",
		`"state": "service", "fun": "enabled", "enable": true`:                                  "unknown key",
		`"state": "rsync", "fun": "synchronized"`:                                               "no such function here",
		`"state": "file", "fun": "managed", "contents_pillar": "a:b"`:                           "argument contents_pillar: a value that is not in the pillar; give --pillar",
		`"state": "cron", "fun": "present", "hour": "random"`:                                   "argument hour: random",
		`"state": "group", "fun": "present", "members": ["a"], "addusers": ["b"]`:               "arguments members and addusers of one group",
		`"state": "user", "fun": "present", "password": "!", "enforce_password": false`:         "argument enforce_password: false, and a password that a person sets would be replaced",
		`"state": "pkgrepo", "fun": "managed", "name": "deb http://e.org x", "disabled": true`:  "argument disabled: a repository that the host does not use",
		`"state": "pkgrepo", "fun": "managed", "name": "deb http://e.org x", "disabled": "yes"`: "argument disabled: a value of another form",
		`"state": "file", "fun": "absent", "name": "/etc"`:                                      "",
		`"state": "service", "fun": "running", "enable": "yes"`:                                 "argument enable: a value of another form",
	} {
		name := "/x"
		if strings.Contains(args, `"user", `) || strings.Contains(args, `"service"`) {
			name = "x"
		}
		text := `[{"__sls__": "s", "__id__": "x", "name": "` + name + `", ` + args + `}]`
		roots := fstest.MapFS{"k": {Data: []byte("ssh-ed25519 AAAA a\nno-X11-forwarding ssh-ed25519 BBBB b\n")}}
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, text)}, Roots: []fs.FS{roots}})
		if err != nil {
			t.Fatal(args, err)
		}
		isReason := func(row SaltRow) bool { return strings.HasPrefix(row.Reason, reason) }
		if len(r.Refused) == 0 || !slices.ContainsFunc(r.Refused, isReason) {
			t.Errorf("%s: %v, want %q", args, r.Refused, reason)
		}
		if !strings.Contains(string(r.Files["settings/s.yaml"]), "enabled: false") {
			t.Errorf("%s: the state is not disabled:\n%s", args, r.Files["settings/s.yaml"])
		}
	}
}

// TestHostsThatDiffer holds that what hosts have in common is one file, and that facts make targets.
func TestHostsThatDiffer(t *testing.T) {
	t.Parallel()
	pkg := `{"__sls__": "a", "__id__": "p", "name": "p", "state": "pkg", "fun": "installed"}`
	hosts := map[string]string{"d1": "[" + pkg + "]", "d2": "[" + pkg + "]"}
	for _, id := range []string{"u1", "u2"} {
		hosts[id] = "[" + pkg + `, {"__sls__": "a", "__id__": "q", "name": "q", "state": "pkg", "fun": "removed"}]`
	}
	var in SaltInput
	for _, id := range []string{"d1", "d2", "u1", "u2"} {
		h := low(t, hosts[id])
		h.ID, h.Grains = id, map[string]any{"os": map[string]string{"d": "Debian", "u": "Ubuntu"}[id[:1]]}
		in.Hosts = append(in.Hosts, h)
	}
	for target, want := range map[string]string{
		"*":             "base:\n  '*':\n    - a\n  G@os:ubuntu:\n    - a-ubuntu\n",
		"[du]*":         "base:\n  '[du]*':\n    - a\n  '[du]* and G@os:ubuntu':\n    - a-ubuntu\n",
		"d* or L@u1,u2": "base:\n  d* or L@u1,u2:\n    - a\n  (d* or L@u1,u2) and G@os:ubuntu:\n    - a-ubuntu\n",
		"":              "base:\n  L@d1,d2,u1,u2:\n    - a\n  L@u1,u2:\n    - a-2-hosts\n",
	} {
		in.Target = target
		r, err := Salt(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Files["top.yaml"]); got != want {
			t.Errorf("%q: top.yaml is\n%s\nwant\n%s", target, got, want)
		}
		for name, text := range r.Files {
			if name != "settings/a.yaml" && strings.Contains(string(text), "pkg.installed") {
				t.Errorf("the file of some hosts repeats what all have:\n%s", text)
			}
		}
	}
	for target, want := range map[string]string{
		"u*":          "the target u* does not select d1, which Salt printed states of",
		"G@os:debian": "the target G@os:debian does not select u1, which Salt printed states of",
		"N@web":       "N@web",
	} {
		in.Target = target
		if _, err := Salt(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", target, err, want)
		}
	}
}

// fleetOf returns hosts with packages as states: the words of a host are names, and name=version is another state of
// this name. A word that begins with / begins an .sls file.
func fleetOf(t *testing.T, hosts map[string]string) SaltInput {
	t.Helper()
	in := SaltInput{Target: "*"}
	for _, id := range slices.Sorted(maps.Keys(hosts)) {
		sls, all := "a", []string{}
		for word := range strings.FieldsSeq(hosts[id]) {
			if file, isFile := strings.CutPrefix(word, "/"); isFile {
				sls = file
				continue
			}
			name, version, _ := strings.Cut(word, "=")
			all = append(all, `{"__sls__": "`+sls+`", "__id__": "`+name+`", "name": "`+name+
				`", "state": "pkg", "fun": "installed", "version": "`+version+`"}`)
		}
		h := low(t, "["+strings.Join(all, ",")+"]")
		h.ID = id
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

// Each state is written once, in the file of all hosts that have it. Where hosts differ in the middle, a file with the
// names alone keeps the order.
func TestWhatHostsHaveInCommonIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hosts   map[string]string
		files   map[string]string // the names of the states of each file
		differs []string          // hosts with another order than in Salt
	}{
		{
			map[string]string{"h1": "p x q r", "h2": "p x q r", "h3": "p x=2 q y r"},
			map[string]string{"salt-order": "p x q y r", "a": "p q r", "a-2-hosts": "x", "a-h3": "x y"},
			nil,
		},
		{map[string]string{"h1": "p q", "h2": "p q x"}, map[string]string{"a": "p q", "a-h2": "x"}, nil},
		{map[string]string{"h1": "x p", "h2": "p"}, map[string]string{"a": "p", "a-h1": "x"}, nil},
		{
			map[string]string{"h1": "/a p /b x /c r", "h2": "/a p /c r"},
			map[string]string{"salt-order": "p x r", "a": "p", "b": "x", "c": "r"},
			nil,
		},
		{
			map[string]string{"h1": "p x q", "h2": "q p"},
			map[string]string{"salt-order": "p x q", "a": "p q", "a-h1": "x"},
			[]string{"h2"},
		},
	} {
		r, err := Salt(fleetOf(t, c.hosts))
		if err != nil || len(r.Mistakes) > 0 {
			t.Fatal(err, r.Mistakes)
		}
		files := map[string]string{}
		for path, text := range r.Files {
			ref, isSettings := strings.CutPrefix(path, "settings/")
			if !isSettings {
				continue
			}
			var names []string
			for line := range strings.Lines(string(text)) {
				name, isState := strings.CutPrefix(line, "  ")
				if isState && !strings.ContainsAny(name[:1], " #") {
					names = append(names, strings.TrimSuffix(strings.TrimSuffix(name, ": null\n"), ":\n"))
				}
			}
			files[strings.TrimSuffix(ref, ".yaml")] = strings.ReplaceAll(strings.Join(names, " "), `"y"`, "y")
		}
		if !maps.Equal(files, c.files) || !slices.Equal(r.Reordered, c.differs) {
			t.Errorf("%v became %v, reordered on %v\n%s", c.hosts, files, r.Reordered, r.Files["top.yaml"])
		}
	}
}

func TestWhatSaltPrintsInstead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"h": ["Rendering SLS 'base:x' failed"]}`: "host h: salt could not render its states: Rendering SLS 'base:x' failed",
		`{"h": "Minion did not return."}`:          "host h: salt got no answer: Minion did not return.",
		`h: [`:                                     "it is not what salt prints with --out json --static: ",
	} {
		_, err := ReadSalt[[]map[string]any](strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	all, err := ReadSalt[[]map[string]any](strings.NewReader("{\"a\": []}\n{\"b\": []}\n"))
	if err != nil || len(all) != 2 {
		t.Errorf("one object for each host gives %v, %v", all, err)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{% if on %}\n{{ a }}{%- else -%}{# #}{% endif %}{% for x in l %}{{ x }}{% endfor %}")
	args := map[string]any{"context": map[string]any{"on": true, "a": "x", "l": []any{"1", "2"}}}
	f.Fuzz(func(t *testing.T, text string) {
		c := &conversion{host: &Minion{}, left: maps.Clone(args)}
		converted, vars, err := c.template(text)
		if err != nil {
			return
		}
		parsed, err := mustache.Parse("t", converted)
		if err != nil {
			return // check refuses the state
		}
		if _, _, err := parsed.Render(map[string]any{"vars": vars}); err != nil {
			t.Errorf("%q became %q: %v", text, converted, err)
		}
	})
}

// TestDeclarationsOfOneThing has declarations that lint would refuse together, and those that say the same.
func TestDeclarationsOfOneThing(t *testing.T) {
	t.Parallel()
	h := Minion{ID: "a"}
	for i, d := range []Declaration{
		{Name: "/made", State: "file", Fun: "managed", args: map[string]any{"replace": false, "mode": "0440", "user": "root"}},
		{Name: "/made", State: "file", Fun: "managed", args: map[string]any{"contents": "x"}},
		{Name: "/dir", State: "file", Fun: "directory", args: map[string]any{"mode": "0755"}},
		{Name: "/dir", State: "file", Fun: "directory", args: map[string]any{"mode": "0755"}},
		{Name: "/dir", State: "file", Fun: "directory", args: map[string]any{"mode": "0700"}},
		{Name: "/dir", State: "file", Fun: "absent", args: map[string]any{}},
		{Name: "web", State: "service", Fun: "running", args: map[string]any{}},
		{Name: "web", State: "service", Fun: "dead", args: map[string]any{}},
	} {
		d.SLS, d.ID = "s", fmt.Sprintf("d%d", i)
		h.Low = append(h.Low, d)
	}
	r, err := Salt(SaltInput{Hosts: []Minion{h}})
	if err != nil {
		t.Fatal(err)
	}
	compiles(t, r, map[target.PeelID]target.Facts{"a": nil})
	text := string(r.Files["settings/s.yaml"])
	for _, want := range []string{
		"  d1:\n    file.managed:\n      path: /made\n      content: |\n        x\n      user: root\n      mode: \"0440\"\n",
		"  d3:\n    file.directory:\n", "not converted: another state has the same, with other arguments: write what both need into one\n",
		"not converted: another state has the same, with another function: write what both need into one\n", "  d7:\n    cmd.run:\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if r.Converted != 5 || len(r.Notes) != 2 {
		t.Errorf("%d converted, notes %v", r.Converted, r.Notes)
	}
}
