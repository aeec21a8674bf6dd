package movein

import (
	"strings"
	"testing"
)

// exactLines are declarations, each with a detail in which a simpler conversion would do something else than Salt.
var exactLines = []line{
	{"file.comment", "/f", `"regex": "^foo$"`, `
  id:
    file.replace:
      path: /f
      pattern: ^(foo)$
      repl: '#${1}'
`},
	{"file.comment", "/f", `"regex": "a|b", "ignore_missing": true`, `
  id:
    file.replace:
      path: /f
      pattern: ^((?:a|b).*)$
      repl: '#${1}'
`},
	{"file.uncomment", "/f", `"regex": "^foo$", "char": "#"`, `
  id:
    file.replace:
      path: /f
      pattern: ^#([ \t]*foo)$
      repl: ${1}
`},
	{"file.uncomment", "/f", `"regex": "foo", "char": "."`, `
  id:
    file.replace:
      path: /f
      pattern: ^\.([ \t]*foo.*)$
      repl: ${1}
`},
	{"file.line", "/f", `"mode": "delete", "content": "a", "match": "^b"`, `
  id:
    file.line:
      path: /f
      match: ^b
      absent: true
`},
	{"file.managed", "/f", `"contents_pillar": "d.e:f", "contents_delimiter": "."`, `
  id:
    file.managed:
      path: /f
      content: |
        deep
`},
	{"user.present", "bob", `"uid": 7, "allow_uid_change": false`, `
  # note: a user with another uid gets this one: Salt fails, unless allow_uid_change is true
  id:
    user.present:
      name: bob
      uid: 7
`},
	{"file.keyvalue", "/f", `"key": "Port(s)", "value": "$1", "ignore_if_missing": true`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^[ \t]*Port\(s\)[ \t]*=.*$
      repl: ${1}Port(s)=$$1
    onlyif:
      - test -e '/f'
`},
	{"file.keyvalue", "/f", `"key": "a", "value": "b", "uncomment": "#", "append_if_not_found": true, "show_changes": false`, `
  # note: argument show_changes: False is left out: people see what changes in the file
  # note: several lines of the key: the state fails, where Salt removes or rewrites those after the first that are no comments
  id:
    file.line:
      path: /f
      line: a=b
      match: ^[ \t]*(?:(?:#)[ \t]*)*a[ \t]*=
`},
	{"file.replace", "/f", `"pattern": "a", "repl": "b", "count": 0, "flags": 8, "ignore_if_missing": true`, `
  id:
    file.replace:
      path: /f
      pattern: a
      repl: b
    onlyif:
      - test -e '/f'
`},
	{"file.line", "/f", `"mode": "replace", "content": "x $y", "match": "a (b)", "indent": false, "quiet": true`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^.*(?:(?:a (b))|a \(b\)).*$
      repl: ${1}x $$y
    onlyif:
      - test -e '/f'
`},
	{"file.line", "/f", `"mode": "replace", "content": "\ta", "match": "^\\s*b"`, `
  # note: Salt keeps the indentation of a line that it replaces; write it into repl
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^([ \t]*).*(?:^\s*b).*$
      repl: ${1}${2}a
`},
	{"file.line", "/f", `"mode": "insert", "content": "a", "location": "end"`, `
  # note: Salt gives the line the indentation of the one beside it, unless indent is false; write it into line
  # note: a file that is missing is made: Salt fails, unless create is true
  id:
    file.line:
      path: /f
      line: a
`},
	{"file.line", "/f", `"mode": "delete", "content": "a (b)"`, `
  id:
    file.line:
      path: /f
      match: (?:a (b))|a \(b\)
      absent: true
`},
	{"file.managed", "/f", `"contents": ["a", "", "b\n\nc", 1]`, `
  id:
    file.managed:
      path: /f
      content: |
        a
        b

        c
        1
`},
	{"file.managed", "/f", `"contents": "a\r\nb\n\n", "contents_newline": false`, `
  id:
    file.managed:
      path: /f
      content: |-
        a
        b
`},
	{"file.managed", "/f", `"contents": ""`, `
  id:
    file.managed:
      path: /f
      content: ""
`},
	{"file.managed", "/f", `"contents": "a", "replace": false, "user": "bob"`, `
  # note: a file that is there keeps its owner and mode: Salt sets them, though it leaves the content
  id:
    file.managed:
      path: /f
      content: |
        a
      user: bob
      replace: false
`},
	{"file.managed", "/f", `"contents": "a", "check_cmd": "grep -q 'a b'"`, `
  id:
    file.managed:
      path: /f
      content: |
        a
      check: [/bin/sh, -c, "grep -q 'a b' \"$1\"", sh, "{}"]
`},
	{"file.serialize", "/f", `"dataset": {"a": "é😀"}, "formatter": "json", "show_changes": false`, `
  id:
    file.managed:
      path: /f
      content: |
        {
          "a": "é😀"
        }
      diff: false
`},
	{"file.copy", "/b", `"source": "/a", "user": "app", "mode": "0640"`, `
  id:
    cmd.run:
      command: cp -rH --preserve=mode -- '/a' '/b' && chown -hR 'app:' '/b' && chmod '0640' '/b'
      creates: /b
`},
	{"file.symlink", "/l", `"target": "/t", "makedirs": true, "mode": "0700"`, `
  # note: argument mode: 0700 is left out: makedirs makes the folders above a link with 0755
  id:
    file.symlink:
      path: /l
      target: /t
      makedirs: true
`},
	{"service.masked", "x.timer", `"runtime": true`, `
  id:
    cmd.run:
      argv: [systemctl, mask, --runtime, --, x.timer]
    unless:
      - test "$(systemctl is-enabled -- x.timer 2>/dev/null)" = masked-runtime
`},
	{"pkg.installed", "nginx", `"version": "latest", "refresh": true`, `
  id:
    pkg.latest:
      name: nginx
`},
	{"pkg.installed", "nginx", `"refresh": false`, `
  id:
    pkg.installed:
      name: nginx
      refresh: false
`},
	{"pkg.installed", "x", `"pkgs": ["a", {"b": "1"}], "refresh": true, "version": "7"`, `
  id:
    pkg.installed:
      names: [a]
      refresh: true
  id.2:
    pkg.installed:
      name: b
      version: "1"
      refresh: true
`},
	{"pkg.latest", "nginx", `"refresh": false`, `
  # note: argument refresh: False is left out: the lists of packages are refreshed before each pkg.latest
  id:
    pkg.latest:
      name: nginx
`},
	{"pkgrepo.managed", "deb http://e.org/d bookworm main", `"dist": "bookworm", "comps": "main, contrib", "architectures": "amd64"`, `
  # note: the option arch of a repository is left out: APT reads it for all architectures of the host
  # note: a repository gets a file .sources of its own: remove its line from /etc/apt/sources.list
  id:
    pkgrepo.managed:
      uris: [http://e.org/d]
      suites: [bookworm]
      components: [main, contrib]
`},
	{"cron.present", "date +\\\\%F", `"identifier": false`, `
  # note: Salt's line stays in the crontab of root, and its job would run twice: remove it
  id:
    cron.present:
      command: date +\%F
      cron: '* * * * *'
`},
	{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "force_checkout": true, "force_reset": true, "submodules": false`, `
  id:
    git.latest:
      path: /srv/a
      url: https://e.org/a.git
      force: true
`},
	{"host.present", "db", `"ip": "10.0.0.1", "clean": true`, `
  id:
    host.present:
      name: db
      ip: 10.0.0.1
`},
	{"ssh_auth.present", "AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS", `"user": "bob", "enc": "ed25519"`, `
  id:
    ssh_auth.present:
      user: bob
      keys:
        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS
`},
	{"debconf.set", "postfix", `"data": {"postfix/relay": {"type": "string", "value": null}}`, `
  id:
    debconf.set:
      name: postfix
      content: |
        postfix/relay string
`},
	{"cmd.run", "make", `"env": {"a.b": "c", "D": "e"}, "shell": "/bin/bash", "unless": "[[ -e x ]]", "cwd": "/src"`, `
  # note: onlyif and unless do not have the variable a.b, which no shell could give them
  id:
    cmd.run:
      argv: [/bin/bash, -c, make]
      cwd: /src
      env:
        D: e
        a.b: c
    unless:
      - export D='e'; cd '/src' || exit 1; /bin/bash -c '[[ -e x ]]'
`},
	{"cmd.run", "make", `"hide_output": true, "use_vt": false, "creates": "/x"`, `
  # note: argument hide_output: True is left out, it has no counterpart
  id:
    cmd.run:
      command: make
      creates: /x
`},
	{"cmd.run", "make", `"user": "app", "creates": "/x", "onlyif": "test -e /a"`, `
  # note: Salt ignores user here; runas is its argument
  id:
    cmd.run:
      command: make
      creates: /x
    onlyif:
      - test -e /a
`},
	{"user.present", "bob", `"system": true, "createhome": false, "uid": 7, "allow_uid_change": true, "fullname": "B"`, `
  # note: argument fullname becomes the whole comment of the user: Salt leaves its room and its phones
  id:
    user.present:
      name: bob
      uid: 7
      comment: B
      system: true
      create_home: false
`},
	{"timezone.system", "Europe/Berlin", `"utc": false`, `
  # note: the clock of the hardware stays as it is: Salt has it in local time, as utc is False
  id:
    timezone.system:
      name: Europe/Berlin
`},
	{"pip.installed", "x", `"bin_env": "/srv/venv", "requirements": "salt://all/req.txt"`, `
  id:
    pip.installed:
      names: [flask==3.0.0, gunicorn, six]
      venv: /srv/venv
`},
	{"file.recurse", "/srv/app/d", `"source": "salt://tree", "include_empty": true`, `
  # note: argument include_empty: a directory without files is left out, Git has none: give it as file.directory
  id:
    file.recurse:
      path: /srv/app/d
      source: files/tree
`},
}

// Lines of a file of requirements that name no package are refused, and so is a file that reads itself.
func TestRequirementsThatAreNoPackages(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"egg.txt":  `argument requirements: the line "git+https://e.org/a.git#egg=a", which is no package NAME or NAME==VERSION`,
		"loop.txt": `argument requirements: the line "-r loop.txt", which is no package NAME or NAME==VERSION`,
	} {
		_, refused := convertOne(t, "pip.installed", "x", `"bin_env": "/srv/v", "requirements": "salt://`+file+`"`)
		if len(refused) != 1 || refused[0].Reason != want {
			t.Errorf("%s: %v, want %s", file, refused, want)
		}
	}
}

// The grains of a host say where Salt lists the modules that its boot loads.
func TestWhereSaltListsModules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		grains map[string]any
		want   string
	}{
		{nil, "/etc/modules-load.d/salt_managed.conf"},
		{map[string]any{"systemd": map[string]any{"version": "257"}}, "/etc/modules-load.d/salt_managed.conf"},
		{map[string]any{"os": "Debian"}, "/etc/modules"},
	} {
		h := low(t, `[{"__sls__": "s", "__id__": "x", "name": "loop", "state": "kmod", "fun": "present", "persist": true}]`)
		h.Grains = c.grains
		r, err := Salt(SaltInput{Hosts: []Minion{h}})
		if text := string(r.Files["settings/s.yaml"]); err != nil || !strings.Contains(text, "loop >> "+c.want+";") {
			t.Errorf("%v: no %s in\n%s, %v", c.grains, c.want, text, err)
		}
	}
}
