package state

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func node(t testing.TB, text string) *strictyaml.Node {
	t.Helper()
	n, err := strictyaml.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func names(s Set) []string {
	out := make([]string, len(s))
	for i, x := range s {
		out[i] = x.Name
	}
	return out
}

func TestAHostOfStates(t *testing.T) {
	set, err := Parse(node(t, `
nginx: {pkg.installed: null}
/etc/nginx/nginx.conf:
  file.managed: {source: files/nginx.conf, template: true, check: [nginx, -t, -c, "{}"], mode: "0640"}
  require: [nginx]
web: {service.running: {name: nginx, enable: true, reload: true}, watch: [/etc/nginx/nginx.conf]}
say:
  cmd.run: {command: "echo hello"}
  onchanges: [web]
  unless: test -e /tmp/said
  onlyif: [a, b]
  retry: {attempts: 3}
  timeout: 90s
  failhard: true
  enabled: false
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"nginx", "/etc/nginx/nginx.conf", "web", "say"}; !slices.Equal(names(set), want) {
		t.Errorf("the order is %v, want %v", names(set), want)
	}
	if a := set.Get("nginx").Args.(*PkgInstalled); a.Name != "nginx" {
		t.Errorf("the package is %q", a.Name)
	}
	file := set.Get("/etc/nginx/nginx.conf")
	if a := file.Args.(*FileManaged); a.Path != file.Name || a.Mode != "0640" || !a.Template {
		t.Errorf("the file is %+v", a)
	}
	if s := file.Sources(); len(s) != 1 || s[0].Path != "files/nginx.conf" || !s[0].Template || s[0].Dir {
		t.Errorf("its sources are %+v", s)
	}
	say := set.Get("say")
	if say.IsEnabled() || !say.FailHard || say.Timeout != 90*time.Second || *say.Retry != (Retry{3, 5 * time.Second}) ||
		!slices.Equal(say.Unless, []string{"test -e /tmp/said"}) || !slices.Equal(say.OnlyIf, []string{"a", "b"}) {
		t.Errorf("the fields are %+v", say.Fields)
	}
	if !file.IsEnabled() {
		t.Error("a state without enabled is not enabled")
	}
}

func TestWhatAStateCannotSay(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[a]", "f.yaml:1:1: states: must be a map of states, not a list"},
		{"{'a,b': {pkg.latest: {}}}", `f.yaml:1:2: states: "a,b" is not a name of a state: letters, digits, _ . / @ + - and blanks between them, at most 256`},
		{"x: nginx", "f.yaml:1:4: states.x: must be a map with a function such as pkg.installed, not a string (nginx)"},
		{"x: {require: [x]}", "f.yaml:1:15: states.x.require: a state cannot name itself"},
		{"x: {pkg.installed: {}, cmd.run: {}}", "f.yaml:1:24: states.x: a state has one function; this one has pkg.installed and cmd.run"},
		{"x: {pkg.instaled: {}}", `f.yaml:1:5: states.x: there is no function pkg.instaled; did you mean "pkg.installed"?`},
		{"x: {pkg: [installed]}", "f.yaml:1:5: states.x: pkg is a module; write a function of it such as pkg.installed"},
		{"x: {pkg.installed: [{name: y}]}", "f.yaml:1:20: states.x.pkg.installed: must be a map, not a list"},
		{"x: {pkg.installed: {versoin: 1}}", `f.yaml:1:21: states.x.pkg.installed.versoin: unknown key; did you mean "version"?`},
		{"x: {pkg.latest: {}, requires: [y]}", `f.yaml:1:21: states.x.requires: unknown key; did you mean "require"?`},
		{"x: {pkg.latest: {}, require: y}", "f.yaml:1:30: states.x.require: must be a list, not a string (y)"},
		{"nginx: {pkg.latest: {}}\ny: {pkg.latest: {}, require: [ngnix]}", `f.yaml:2:31: states.y.require: there is no state "ngnix"; did you mean "nginx"?`},
		{"x: {pkg.latest: {}, require: ['file:web.nginx']}", `f.yaml:1:31: states.x.require: no settings file "web.nginx" of this peel has states`},
		{"a: {pkg.latest: {}, require: [b]}\nb: {pkg.latest: {}, watch_in: [c]}\nc: {service.running: {}, require_in: [a], onfail: [a]}", "f.yaml:1:1: states.a: the requisites form a cycle: a needs c needs a"},
		{"a: {pkg.latest: {}}\nx: {pkg.latest: {name: y}, watch: [a]}", "f.yaml:2:36: states.x.watch: pkg.latest does not react to changes; use require, or onchanges with cmd.run"},
		{"a: {pkg.latest: {}}\nx: {cmd.run: {}, watch_in: [a]}", "f.yaml:2:29: states.x.watch_in: pkg.latest does not react to changes"},
		{"/etc/a: {file.managed: {content: x}}\nb: {file.absent: {path: /etc/a}}", "f.yaml:2:1: states.b: the path /etc/a belongs to the state /etc/a already (f.yaml:1:1), with another function"},
		{"/etc/a: {file.line: {line: x}}\nb: {file.managed: {path: /etc/a, content: x}}", "f.yaml:2:1: states.b: the path /etc/a belongs to the state /etc/a already (f.yaml:1:1), with another function"},
		{"x: {pkg.installed: {names: [a, b]}}\nb: {pkg.removed: {}}", "f.yaml:2:1: states.b: the package b belongs to the state x already (f.yaml:1:1), with another function"},
		{"x: {service.running: {name: nginx}}\ny: {service.dead: {name: nginx.service}}", "f.yaml:2:1: states.y: the service nginx.service belongs to the state x already (f.yaml:1:1), with another function"},
		{"job: {cron.absent: {}}\nx: {file.absent: {path: /etc/cron.d/job}}", "f.yaml:2:1: states.x: the path /etc/cron.d/job belongs to the state job already (f.yaml:1:1), with another function"},
		{"/etc/a: {file.managed: {content: x, mode: 0644}}", "f.yaml:1:43: /etc/a.file.managed.mode: 0644 "},
		{"/etc/a: {file.managed: {content: x, mode: 644}}", "f.yaml:1:43: states./etc/a.file.managed.mode: must be a string, not a whole number (644); put it in quotes"},
		{"/etc/a: {file.managed: {content: x, mode: '64'}}", `f.yaml:1:43: states./etc/a.file.managed.mode: "64" is not a mode: three or four octal digits in quotes, such as "0644"`},
		{"a: {file.managed: {content: x}}", `f.yaml:1:19: states.a.file.managed.path: "a" is not an absolute path`},
		{"/etc//a: {file.managed: {content: x}}", `f.yaml:1:25: states./etc//a.file.managed.path: "/etc//a" is not a clean path; write "/etc/a"`},
		{"/a/b: {file.managed: {}}", "f.yaml:1:22: states./a/b.file.managed: source is missing: give source, a file below files/, or content"},
		{"/a/b: {file.managed: {source: files/x, content: y}}", "f.yaml:1:49: states./a/b.file.managed.content: give source or content, not both"},
		{"/a/b: {file.managed: {source: nginx.conf}}", `f.yaml:1:31: states./a/b.file.managed.source: "nginx.conf" is not below files/; contents are in files/ of the config repo`},
		{"/a/b: {file.managed: {source: files/../x}}", `f.yaml:1:31: states./a/b.file.managed.source: "files/../x" is not below files/; contents are in files/ of the config repo`},
		{"/a/b: {file.managed: {content: '{{a', template: true}}", "f.yaml:1:32: states./a/b.file.managed.content: the template is not valid: content:1:1: the tag is not closed; add }}"},
		{"/a/b: {file.managed: {content: x, vars: {a: 1}}}", "f.yaml:1:41: states./a/b.file.managed.vars: a map, and only with template: true"},
		{"/a/b: {file.managed: {content: x, check: [nginx]}}", "f.yaml:1:42: states./a/b.file.managed.check: the command needs {}, which stands for the new file"},
		{"/a/b: {file.managed: {content: x, user: 'a:b'}}", `f.yaml:1:41: states./a/b.file.managed.user: "a:b" is not a name of a user or group`},
		{"/: {file.absent: {}}", `f.yaml:1:18: states./.file.absent.path: "/" is too near the root to be removed or cleaned`},
		{"/etc: {file.absent: {}}", `f.yaml:1:21: states./etc.file.absent.path: "/etc" is too near the root to be removed or cleaned`},
		{"/var/lib: {file.absent: {}}", `f.yaml:1:25: states./var/lib.file.absent.path: "/var/lib" is too near the root to be removed or cleaned`},
		{"/lib/systemd: {file.absent: {}}", `f.yaml:1:29: states./lib/systemd.file.absent.path: "/lib/systemd" is too near the root to be removed or cleaned`},
		{"/usr/lib64/security: {file.absent: {}}", `f.yaml:1:36: states./usr/lib64/security.file.absent.path: "/usr/lib64/security" is too near the root to be removed or cleaned`},
		{"/boot/grub: {file.directory: {clean: true}}", `f.yaml:1:38: states./boot/grub.file.directory.clean: "/boot/grub" is too near the root to be removed or cleaned`},
		{"/: {file.directory: {recurse: [user]}}", `f.yaml:1:31: states./.file.directory.recurse: "/" is too near the root for all that is below it to be changed`},
		{"/var/lib: {file.directory: {recurse: [user]}}", `f.yaml:1:38: states./var/lib.file.directory.recurse: "/var/lib" is too near the root for all that is below it to be changed`},
		{"/usr/lib: {file.absent: {}}", `f.yaml:1:25: states./usr/lib.file.absent.path: "/usr/lib" is too near the root to be removed or cleaned`},
		{"/home/ada: {file.directory: {clean: true}}", `f.yaml:1:37: states./home/ada.file.directory.clean: "/home/ada" is too near the root to be removed or cleaned`},
		{"/a/b: {file.directory: {recurse: [owner]}}", `f.yaml:1:34: states./a/b.file.directory.recurse: "owner" cannot be applied to all that is below; user, group and mode can`},
		{"/a/b: {file.recurse: {}}", "f.yaml:1:22: states./a/b.file.recurse: source is missing: give source, a directory below files/"},
		{"/a/b: {file.symlink: {}}", "f.yaml:1:22: states./a/b.file.symlink: target is missing: give target, the path that the link points to"},
		{"/a/b: {file.line: {line: x, match: '('}}", "f.yaml:1:36: states./a/b.file.line.match: error parsing regexp: missing closing ): `(`"},
		{"/a/b: {file.line: {}}", "f.yaml:1:19: states./a/b.file.line: line is missing: give the line that the file should have"},
		{"/a/b: {file.block: {}}", "f.yaml:1:20: states./a/b.file.block: content is missing: give the content of the block, or absent: true"},
		{"/a/b: {file.block: {content: x, begin: a}}", "f.yaml:1:20: states./a/b.file.block: end is missing: give begin and end, or neither"},
		{"/a/b: {file.block: {content: x, begin: a, end: a}}", "f.yaml:1:40: states./a/b.file.block.begin: give begin and end, two lines that differ, instead of marker, prefix and suffix"},
		{"/a/b: {file.block: {content: x, begin: a, end: b, marker: m}}", "f.yaml:1:40: states./a/b.file.block.begin: give begin and end, two lines that differ, instead of marker, prefix and suffix"},
		{"/a/b: {file.block: {content: \"b\\n\", begin: a, end: b}}", `f.yaml:1:30: states./a/b.file.block.content: cannot have the line "b", which is around the block; set another marker`},
		{"/a/b: {file.block: {content: \"x\\n# END m\\n\", marker: m}}", `f.yaml:1:30: states./a/b.file.block.content: cannot have the line "# END m", which is around the block; set another marker`},
		{"/a/b: {file.block: {content: \"# BEGIN zester /a/b\\r\\n\"}}", `f.yaml:1:30: states./a/b.file.block.content: cannot have the line "# BEGIN zester /a/b", which is around the block; set another marker`},
		{"x: {pkg.installed: {names: []}}", "f.yaml:1:28: states.x.pkg.installed.names: the list is empty"},
		{"x: {pkg.installed: {names: [a, a]}}", `f.yaml:1:28: states.x.pkg.installed.names: "a" is given twice`},
		{"x: {pkg.installed: {name: '-y'}}", `f.yaml:1:27: states.x.pkg.installed.name: "-y" is not a name of a package`},
		{"x: {pkg.installed: {version: '1 2'}}", "f.yaml:1:30: states.x.pkg.installed.version: one version of one package, such as 1.18.0-6"},
		{"x: {pkgrepo.managed: {uris: ['ppa:o/n']}}", "f.yaml:1:29: states.x.pkgrepo.managed.uris: apt knows no ppa:o/n: write https://ppa.launchpadcontent.net/o/n/ubuntu, and its key as key"},
		{"../x: {pkgrepo.managed: {uris: [a]}}", `f.yaml:1:25: states.../x.pkgrepo.managed.file: "../x" is not a name of a file: letters, digits and _ . -, without a directory`},
		{"x: {service.dead: {enable: true}}", "f.yaml:1:28: states.x.service.dead.enable: a service that should not run cannot be enabled; write enable: false or leave it out"},
		{"x: {cmd.run: {argv: []}}", "f.yaml:1:21: states.x.cmd.run.argv: the first word names the program"},
		{"x: {cmd.run: {command: a, argv: [b]}}", "f.yaml:1:33: states.x.cmd.run.argv: give command or argv, not both"},
		{"x: {cmd.run: {creates: tmp}}", `f.yaml:1:24: states.x.cmd.run.creates: "tmp" is not an absolute path`},
		{"x: {cron.present: {command: a, cron: '0 0 30 2 *'}}", `f.yaml:1:38: states.x.cron.present.cron: it never fires: no month that it names has such a day`},
		{"x: {cron.present: {command: a, cron: '0 0 ? * MON-FRI'}}", `f.yaml:1:38: states.x.cron.present.cron: day of month "?": "?" is no number or name of this field`},
		{"x: {cron.present: {command: a, cron: daily}}", "f.yaml:1:38: states.x.cron.present.cron: "},
		{"x.y: {cron.present: {command: a, cron: '@daily'}}", `f.yaml:1:21: states.x.y.cron.present.name: "x.y" is not a name of a file in /etc/cron.d: letters, digits, _ and -`},
		{"root: {user.absent: {}}", "f.yaml:1:21: states.root.user.absent.name: root cannot be removed"},
		{"ada: {user.present: {password: secret}}", "f.yaml:1:32: states.ada.user.present.password: must be a hash as in /etc/shadow, such as the output of mkpasswd"},
		{"ada: {user.present: {uid: -1}}", "f.yaml:1:27: states.ada.user.present.uid: must not be negative, but is -1"},
		{"x: {pkg.latest: {}, retry: {attempts: 11}}", "f.yaml:1:28: states.x.retry.attempts: must be from 1 to 10, not 11"},
		{"x: {pkg.latest: {}, timeout: 5}", "f.yaml:1:30: states.x.timeout: must be a duration like 90s, 5m or 1d12h, not a whole number (5); write 5s for seconds, 5m for minutes"},
	} {
		n, err := strictyaml.Parse("f.yaml", []byte(c.text))
		if err == nil {
			_, err = Parse(n, Options{})
		}
		if err == nil || err.Error() != c.want && !(strings.HasPrefix(err.Error(), c.want) && len(c.want) < 70) {
			t.Errorf("%s\n gives %v\n want  %s", c.text, err, c.want)
		}
	}
}

func TestSecretsAreAllowedInFewArguments(t *testing.T) {
	for _, c := range []struct{ shown, plain, want string }{
		{`{/a/b: {file.managed: {content: "•••"}}}`, `{/a/b: {file.managed: {content: "hello"}}}`, ""},
		{`{ada: {user.present: {password: "•••"}}}`, `{ada: {user.present: {password: "$6$x"}}}`, ""},
		{`{x: {cmd.run: {env: {A: "•••"}, stdin: "•••"}}}`, `{x: {cmd.run: {env: {A: "b"}, stdin: "c"}}}`, ""},
		{`{x: {cmd.run: {command: "•••"}}}`, `{x: {cmd.run: {command: "rm"}}}`, "a secret is allowed only in content, vars, env, stdin, password"},
		{`{x: {cmd.run: {}, onlyif: ["•••"]}}`, `{x: {cmd.run: {}, onlyif: ["rm"]}}`, "a secret is not allowed here, because people see it"},
	} {
		n, ok := strictyaml.FromSecret("f.yaml", node(t, c.shown).Any(), node(t, c.plain).Any())
		if !ok {
			t.Fatal(c.shown)
		}
		_, err := Parse(n, Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.plain, err, c.want)
		}
	}
}

func TestAFileMaySayPartOfAState(t *testing.T) {
	for text, want := range map[string]string{
		"x: {require: [elsewhere]}":     "", // the function is in another file
		"/a/b: {file.managed: {}}":      "", // so is the source
		"x: null":                       "", // removes the state
		"x: {pkg.latst: {}}":            "there is no function",
		"/a/b: {file.managed: {x: 1}}":  "unknown key",
		"x: {pkg.latest: {}, watch: 1}": "must be a list",
	} {
		err := CheckFields(node(t, text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// join is a merge of maps as the compiler does it, without the removal of keys.
func join(base, over *strictyaml.Node) *strictyaml.Node {
	if base.Kind != strictyaml.Map || over.Kind != strictyaml.Map {
		return over
	}
	out := &strictyaml.Node{Kind: strictyaml.Map, Pos: over.Pos, Map: slices.Clone(base.Map)}
	for _, p := range over.Map {
		if i := slices.IndexFunc(out.Map, func(q strictyaml.Pair) bool { return q.Key == p.Key }); i >= 0 {
			out.Map[i].Value = join(out.Map[i].Value, p.Value)
		} else {
			out.Map = append(out.Map, p)
		}
	}
	return out
}

func TestAnotherFunctionReplacesTheState(t *testing.T) {
	base := node(t, "a: {pkg.installed: {version: '1'}, require: [b]}\nb: {pkg.latest: {}}\nc: {cmd.run: {}}")
	over := node(t, "c: {timeout: 1m}\na: {pkg.removed: {purge: true}}\nd: {cmd.run: {}}\nb: {pkg.latest: {name: x}}")
	set, err := Parse(join(Displace(base, over), over), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(names(set), want) { // the place of the first mention
		t.Errorf("the order is %v, want %v", names(set), want)
	}
	if a := set.Get("a"); a.Function != "pkg.removed" || a.Require != nil {
		t.Errorf("a is %s with require %v", a.Function, a.Require)
	}
	if set.Get("c").Timeout != time.Minute || set.Get("b").Args.(*PkgLatest).Name != "x" {
		t.Error("states of one function are not joined")
	}
}

func TestTheOrderOfStates(t *testing.T) {
	for _, c := range []struct {
		name, text string
		order      []string
		want       string
	}{
		{"as written", "c: {cmd.run: {}}\na: {cmd.run: {}}\nb: {cmd.run: {}}", nil, "c a b"},
		{"by the compiler's list", "c: {cmd.run: {}}\na: {cmd.run: {}}\nb: {cmd.run: {}}", []string{"b", "c"}, "b c a"},
		{"a requisite moves what it must", "a: {cmd.run: {}, require: [c]}\nb: {cmd.run: {}}\nc: {cmd.run: {}}\nd: {cmd.run: {}}", nil, "b c a d"},
		{"require_in", "a: {cmd.run: {}}\nb: {cmd.run: {}, require_in: [a]}", nil, "b a"},
		{"a path after its directory", "/srv/a/b: {file.managed: {content: x}}\n/srv/a: {file.directory: {}}", nil, "/srv/a /srv/a/b"},
		{"unless a requisite says otherwise", "/srv/a/b: {file.managed: {content: x}, require_in: [/srv/a]}\n/srv/a: {file.directory: {}}", nil, "/srv/a/b /srv/a"},
		{"owners before files", "/a/b: {file.managed: {content: x, user: ada, group: www}}\nada: {user.present: {groups: [www]}}\nwww: {group.present: {}}", nil, "www ada /a/b"},
		{"a user after its main group", "ada: {user.present: {group: www}}\nwww: {group.present: {}}", nil, "www ada"},
		{"a directory after its owners", "/a/b: {file.directory: {user: ada, group: www}}\nada: {user.present: {}}\nwww: {group.present: {}}", nil, "ada www /a/b"},
		{"a tree after its owners", "/a/b: {file.recurse: {source: files/x, user: ada, group: www}}\nada: {user.present: {}}\nwww: {group.present: {}}", nil, "ada www /a/b"},
		{"a command after its user", "x: {cmd.run: {user: ada}}\nada: {user.present: {}}", nil, "ada x"},
		{"a job of cron after its user", "x: {cron.present: {user: ada, cron: '0 1 * * *', command: x}}\nada: {user.present: {}}", nil, "ada x"},
		{"a clone after its user", "/a/b: {git.latest: {url: 'https://x/y', user: ada}}\nada: {user.present: {}}", nil, "ada /a/b"},
		{"keys after their user", "x: {ssh_auth.present: {user: ada, keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f]}}\nada: {user.present: {}}", nil, "ada x"},
		{"all of a file", "a: {cmd.run: {}, require: ['file:web']}\nb: {cmd.run: {}}\nc: {cmd.run: {}}", nil, "b c a"},
	} {
		set, err := Parse(node(t, c.text), Options{Order: c.order, Files: func(ref string) []string {
			if ref == "web" {
				return []string{"a", "b", "c"}
			}
			return nil
		}})
		if got := strings.Join(names(set), " "); err != nil || got != c.want {
			t.Errorf("%s: the order is %q and the error %v, want %q", c.name, got, err, c.want)
		}
	}
}

// TestEveryOrderKeepsItsRequisites draws graphs without cycles and checks the promise of the order: of the states whose
// requisites are done the first one runs.
func TestEveryOrderKeepsItsRequisites(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 2 + r.IntN(30)
		rank := r.Perm(n) // a state needs only states of a lower rank
		needs := make([][]int, n)
		var text strings.Builder
		for i := range n {
			var list []string
			for j := range n {
				if rank[j] < rank[i] && r.IntN(4) == 0 {
					needs[i], list = append(needs[i], j), append(list, "s"+strconv.Itoa(j))
				}
			}
			text.WriteString("s" + strconv.Itoa(i) + ": {cmd.run: {}, require: [" + strings.Join(list, ", ") + "]}\n")
		}
		set, err := Parse(node(t, text.String()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		done := make([]bool, n)
		for _, s := range set {
			first := slices.IndexFunc(needs, func(list []int) bool { return false })
			for i := range n {
				if !done[i] && !slices.ContainsFunc(needs[i], func(j int) bool { return !done[j] }) {
					first = i
					break
				}
			}
			if s.Name != "s"+strconv.Itoa(first) {
				t.Fatalf("%s runs where s%d is the first that may\n%s", s.Name, first, &text)
			}
			done[first] = true
		}
		if len(set) != n {
			t.Fatalf("%d of %d states", len(set), n)
		}
	}
}

func TestTwoStatesMayShareAFile(t *testing.T) {
	if _, err := Parse(node(t, "a: {file.line: {path: /etc/x, line: a}}\nb: {file.block: {path: /etc/x, content: b}}"), Options{}); err != nil {
		t.Error(err)
	}
}

func TestEveryFunctionIsListedOnce(t *testing.T) {
	all := Functions()
	if len(all) != 33 {
		t.Errorf("%d functions", len(all))
	}
	for _, f := range all {
		args := f.make()
		args.setMain("name")
		if f.Main == "" {
			t.Errorf("%s has no main argument", f.Name)
		}
	}
}

func FuzzStates(f *testing.F) {
	f.Add("a: {pkg.installed: null}\nb: {cmd.run: {argv: [x]}, require: [a], onlyif: x}")
	f.Add("/a/b: {file.managed: {content: '{{x}}', template: true, vars: {x: 1}}}")
	f.Add("x: {cron.present: {command: a, cron: '@daily'}, watch_in: [y]}\ny: {service.running: {}}")
	f.Add("a: {cmd.run: {}, require: ['file:x']}")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := strictyaml.Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		_ = CheckFields(n)
		one, err1 := Parse(n, Options{})
		two, err2 := Parse(strictyaml.FromValue("bus", n.Any()), Options{Order: mapKeys(n)})
		if (err1 == nil) != (err2 == nil) || err1 == nil && !slices.Equal(names(one), names(two)) {
			t.Errorf("read from the file %v (%v), from the bus %v (%v)", names(one), err1, names(two), err2)
		}
	})
}

func mapKeys(n *strictyaml.Node) []string {
	keys := []string{}
	for _, p := range n.Map {
		keys = append(keys, p.Key)
	}
	return keys
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range 200 {
		text.WriteString("/srv/f" + strconv.Itoa(i) + ": {file.managed: {content: x}, require: [p" + strconv.Itoa(i%50) + "]}\n")
	}
	for i := range 50 {
		text.WriteString("p" + strconv.Itoa(i) + ": {pkg.installed: {}}\n")
	}
	n := node(b, text.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(n, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestWordsOfSalt types what somebody who knows Salt writes.
func TestWordsOfSalt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x: {pkg.installed: [{name: nginx}, {version: '1'}]}": "; Salt writes a list here: write one map, {name: …, version: …}",
		"x: {pkg.installed: {pkgs: [curl, git]}}":             "what pkgs is in Salt is here names",
		"x: {service.running: {name: x}, watch: [{pkg: y}]}":  "; Salt writes the module too: write the name of the state, y",
		"x: {file.managed: {path: /x, contents: a}}":          "; what contents is in Salt is here content",
		"x: {cmd.run: {command: a, runas: b}}":                "what runas is in Salt is here user",
		"x: {file.append: {text: a}}":                         "there is no function file.append; what file.append is in Salt is here file.line",
		"x: {pkg.latest: {}, listen: [y]}":                    "unknown key; what listen is in Salt is here watch: a service restarts once, at its place",
		"x: {pkg.latest: {}, order: 1}":                       "unknown key; what order is in Salt is here nothing: states run in the order of the files; require changes it",
		"/x: {file.managed: {content: '{% if a %}', template: true}}": "content:1:1: Jinja is not evaluated here; write {{#name}}…{{/name}}, " +
			"or begin the template with {{! raw }} if the text is meant",
	} {
		doc, err := strictyaml.Parse("f.yaml", []byte("states: {"+text+"}"))
		if err != nil {
			t.Fatal(text, err)
		}
		err = CheckFields(doc.Get("states"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
