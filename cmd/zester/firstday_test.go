package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lintSettings returns what lint prints of a repo with one settings file, whose path and text are given, and a template.
func lintSettings(t *testing.T, file, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"top.yaml":      "base:\n  '*': [all]\n",
		file:            text + "\n",
		"files/motd":    "{% if grains.os == 'Debian' %}Debian{% endif %}\n",
		"files/a/b.cfg": "x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	code := run(t.Context(), []string{"lint", dir}, &out, &out)
	if code == exitOK {
		return "lint accepts it\n" + out.String()
	}
	return out.String()
}

// TestTheFirstDayOfSomebodyWhoKnowsSalt types what a person who knows Salt alone tries first: each works, or the message
// says what to write.
func TestTheFirstDayOfSomebodyWhoKnowsSalt(t *testing.T) {
	t.Parallel()
	const works = "lint accepts it"
	for _, c := range []struct{ name, states, want string }{
		// what was tried on running peels at first
		{"Jinja in a template", "  /etc/motd: {file.managed: {source: files/motd, template: true}}", "Jinja is not evaluated"},
		{"Jinja in the YAML", "{% if true %}\n  a: {pkg.installed: {}}\n{% endif %}", "Jinja is not evaluated: zester import salt converts"},
		{"a list of arguments", "  a: {pkg.installed: [{name: nginx}]}", "must be a map, not a list"},
		{"pkgs", "  a: {pkg.installed: {pkgs: [curl, git]}}", "here names"},
		{"two functions under one ID", "  nginx: {pkg.installed: {}, service.running: {}}", "a state has one function; this one has pkg.installed and service.running"},
		{"a requisite as a map", "  a: {service.running: {name: nginx}, watch: [{pkg: nginx}]}", "write the name of the state"},
		{"a requisite in the arguments", "  a: {pkg.installed: {require: [b]}}", "require"},
		{"contents", "  /etc/a: {file.managed: {contents: x}}", "here content"},
		{"a mode as a number", "  /etc/a: {file.managed: {content: x, mode: 644}}", "put it in quotes"},
		{"runas", "  a: {cmd.run: {command: 'true', runas: bob}}", "here user"},
		{"unless in the arguments", "  a: {cmd.run: {command: 'true', unless: 'true'}}", "unless"},
		{"file.append", "  /etc/a: {file.append: {text: x}}", "here file.line"},
		{"file.replace", "  /etc/a: {file.replace: {pattern: x, repl: y}}", works},
		{"file.keyvalue", "  /etc/a: {file.keyvalue: {key: x, value: y}}", "file.line with match"},
		{"ssh_auth.present", "  a: {ssh_auth.present: {user: bob, keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f bob]}}", works},
		{"sysctl.present", "  net.ipv4.ip_forward: {sysctl.present: {value: '1'}}", works},
		{"git.latest", "  /srv/app: {git.latest: {url: 'https://e.org/a.git'}}", works},
		{"an ID with blanks", "  install nginx package: {pkg.installed: {name: nginx}}", works},
		{"a path with a slash at its end", "  /etc/foo/: {file.directory: {}}", `write "/etc/foo"`},
		{"a mode that YAML versions read differently", "  /etc/a: {file.managed: {content: x, mode: 0755}}", "0755 has different meanings"},
		{"a package wanted twice", "  a: {pkg.installed: {name: git}}\n  b: {pkg.installed: {name: git}}", works},
		// what such a person tries next
		{"one mode with and without a zero", "  a: {file.managed: {path: /etc/a, content: x, mode: '644'}}\n  b: {file.managed: {path: /etc/a, content: x, mode: '0644'}}", works},
		{"file.absent before file.symlink", "  a: {file.absent: {path: /etc/a}}\n  b: {file.symlink: {path: /etc/a, target: /b}}", "file.symlink with force: true"},
		{"settings in a path", "  a: {file.directory: {path: '/srv/{{settings.app}}'}}", "an argument is no template"},
		{"pillar in a command", "  a: {cmd.run: {command: \"echo {{ pillar['x'] }}\"}, unless: 'true'}", "an argument is no template"},
		{"a template as content", "  /etc/a: {file.managed: {content: '{{settings.app}}'}}", "add template: true"},
		{"source of salt", "  /etc/a: {file.managed: {source: 'salt://a/b.cfg'}}", "files/"},
		{"source_hash", "  /etc/a: {file.managed: {source: files/a/b.cfg, source_hash: md5=x}}", "sha256, of a source from https"},
		{"context", "  /etc/a: {file.managed: {source: files/a/b.cfg, template: true, context: {a: 1}}}", "here vars"},
		{"template: jinja", "  /etc/a: {file.managed: {source: files/a/b.cfg, template: jinja}}", "must be true or false"},
		{"listen", "  a: {service.running: {name: nginx}, listen: [b]}", "watch"},
		{"order: last", "  a: {pkg.installed: {name: git}, order: last}", "states run in the order of the files"},
		{"use", "  a: {pkg.installed: {name: git}, use: [b]}", "the arguments, written again"},
		{"prereq", "  a: {cmd.run: {command: 'true'}, prereq: [b]}", "onlyif"},
		{"cmd.wait", "  a: {cmd.wait: {name: 'true'}}", "cmd.run with onchanges"},
		{"pkg.purged", "  a: {pkg.purged: {}}", "purge: true"},
		{"module.run", "  a: {module.run: {}}", "cmd.run"},
		{"service.masked", "  a: {service.masked: {}}", "service.dead"},
		{"backup: minion", "  /etc/a: {file.managed: {content: x, backup: minion}}", "zester state restore"},
		{"addusers", "  a: {group.present: {addusers: [bob]}}", "here members"},
		{"file_mode of a directory", "  /srv/a/b: {file.directory: {file_mode: '0644', recurse: [mode]}}", works},
		{"a watch of a package", "  a: {pkg.installed: {name: git}, watch: [b]}\n  b: {pkg.installed: {name: curl}}", "pkg.installed does not react to changes"},
		{"a watch_in of a state that is not there", "  a: {pkg.installed: {name: git}, watch_in: [b]}", `there is no state "b"`},
		{"two states that need each other", "  a: {pkg.installed: {name: git}, require: [b]}\n  b: {pkg.installed: {name: curl}, require: [a]}", "form a cycle"},
	} {
		if got := lintSettings(t, "settings/all.yaml", "states:\n"+c.states); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"an .sls file", "settings/nginx.sls", "nginx:\n  pkg.installed: []", "an .sls file of Salt does nothing here"},
		{"an .sls file with another name", "settings/all.yaml", "nginx:\n  pkg.installed: []", "indent it below states:"},
		{"include", "settings/all.yaml", "include: [users]", "top.yaml gives each host its files"},
		{"extend", "settings/all.yaml", "extend: {a: {}}", "a later file of the same host"},
	} {
		if got := lintSettings(t, c.file, c.text); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestCommandsOfSalt types commands of Salt: the error has the word here. No master is asked.
func TestCommandsOfSalt(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"state.sls base":                 "state.apply",
		"state.show_highstate":           "state.show",
		"state.single pkg.installed":     "the function itself",
		"grains.items":                   "facts.items",
		"grains.get os":                  "facts.get",
		"pillar.get x":                   "settings.get",
		"pillar.items":                   "settings.items",
		"pkg.install vim":                "pkg.installed",
		"cmd.shell uptime":               "cmd.run",
		"saltutil.refresh_pillar":        "zester sync wait",
		"state.apply x pillar={}":        "argument pillar",
		"state.apply x saltenv=dev":      "argument saltenv",
		"state.highstate test=True -l x": "zester why",
		// as somebody types it who knows Salt alone
		"state.sls x test=True":             "state.apply",
		"state.apply x -G os:Debian":        "'G@os:debian'",
		"test.ping -C":                      "'G@os:debian and web-*'",
		"test.ping -E":                      "'E@web",
		"test.ping -L":                      "L@web-01,web-02",
		"test.ping -N":                      "N@web",
		"test.ping --compound":              "'G@os:debian and web-*'",
		"test.ping --pillar x":              "'I@role:web'",
		"state.apply -b 10%":                "--batch 10%",
		"state.apply --batch-size 10%":      "--batch 10%",
		"test.ping -t 5":                    "--timeout 90s",
		"test.ping --out json":              "--output json",
		"test.ping --out=json --static":     "--output json",
		"test.ping -v":                      "zester job show",
		"state.apply --local":               "zester PEEL FUNCTION",
		"cmd.run ls runas=bob":              "here user",
		"cmd.run_all ls":                    "cmd.run",
		"cmd.script salt://x":               "file.managed for the script",
		"cp.get_file salt://a /a":           "content=@FILE",
		"grains.setval a b":                 "facts: in peel.yaml",
		"test.version":                      "zester peel list",
		"pkg.upgrade":                       "pkg.latest NAME",
		"pkg.list_upgrades":                 "pkg.upgrades",
		"network.ip_addrs":                  "facts.get ipv4",
		"disk.usage":                        "df -h",
		"mine.get '*' x":                    "zester peel facts",
		"jobs.list_jobs":                    "zester job list",
		"saltutil.kill_job 20261130":        "zester job cancel",
		"state.apply test=yes":              "write true",
		"service.enable nginx":              "service.enabled NAME",
		"state.show_sls x":                  "state.show",
		"state.single file.managed name=/a": "the function itself",
	} {
		var out bytes.Buffer
		args := append([]string{"web-01"}, strings.Fields(typed)...)
		if code := run(t.Context(), append(args, "--url", "nats://bus.invalid"), &out, &out); code == exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("zester web-01 %s ended with %d and\n%s\nwant %s", typed, code, &out, want)
		}
	}
}
