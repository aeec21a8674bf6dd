package movein

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gopkg.in/yaml.v3"
)

// convertOne returns the state file that one declaration becomes. args are those of the declaration, as JSON.
func convertOne(t *testing.T, function, name, args string) (text string, refused []SaltRow) {
	t.Helper()
	module, fun, _ := strings.Cut(function, ".")
	if args != "" {
		args = ", " + args
	}
	h := low(t, `[{"__sls__": "s", "__id__": "id", "name": "`+name+`", "state": "`+module+`", "fun": "`+fun+`"`+args+`},
		{"__sls__": "s", "__id__": "other", "name": "other", "state": "test", "fun": "nop"},
		{"__sls__": "s", "__id__": "blocks", "name": "/etc/blocks", "state": "file", "fun": "managed"},
		{"__sls__": "s", "__id__": "ops", "name": "ops", "state": "group", "fun": "present", "gid": 700}]`)
	h.Pillar = map[string]any{"motd": "hello", "d": map[string]any{"e:f": "deep"}}
	roots := fstest.MapFS{
		"run.sh":      {Data: []byte("#!/bin/bash -e\necho one\n")},
		"run.py":      {Data: []byte("#!/usr/bin/env python3\nprint(1)\n")},
		"req.txt":     {Data: []byte("# of app\nflask == 3.0.0  # pinned\n\ngunicorn\n")},
		"all/req.txt": {Data: []byte("-r ../req.txt\nsix # for #1\n")}, "egg.txt": {Data: []byte("git+https://e.org/a.git#egg=a\n")}, "loop.txt": {Data: []byte("-r loop.txt\n")}, "tree/a": {}, "tree/none": {Mode: fs.ModeDir},
		"a/b": {Data: []byte("b\n")}, "a/c": {Data: []byte("c\n")}, "k": {Data: []byte("# of bob\n\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS bob\n")},
	}
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{roots}})
	if err != nil {
		t.Fatal(function, err)
	}
	text, _, _ = strings.Cut(string(r.Files["settings/s.yaml"]), "  # Salt: test.nop other")
	text = strings.ReplaceAll(text, "  ops:\n    group.present:\n      gid: 700\n", "") // before what requires it
	return withoutGeneral(strings.TrimPrefix(text, "states:\n")), r.Refused
}

// withoutGeneral returns a settings file without the notes on all states of a kind, which TestNotesOnAllSuchStates reads.
func withoutGeneral(text string) string {
	return regexp.MustCompile(`(?m)^ *# `+noteMark+forAll+`.*\n`).ReplaceAllString(text, "")
}

// withoutNotes returns a settings file without its notes, which TestArgumentsThatAreLeftOutHaveANote reads.
func withoutNotes(text string) string {
	return regexp.MustCompile(`(?m)^ *# note: .*\n`).ReplaceAllString(text, "")
}

// A line is a declaration and the state that it becomes.
type line struct{ function, name, args, want string }

// TestEachFunction converts one declaration of each function, and of each argument that is more than a new name.
func TestEachFunction(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, c := range slices.Concat(lines, programLines, exactLines, dailyLines) {
		tested[c.function] = true
		got, refused := convertOne(t, c.function, c.name, c.args)
		if len(refused) > 0 {
			t.Errorf("%s %s %s: %v", c.function, c.name, c.args, refused)
		}
		if !isEqual(t, got, c.want) {
			t.Errorf("%s %s %s became\n%s", c.function, c.name, c.args, got)
		}
	}
	for function := range rules {
		if !tested[function] && function != "test.nop" && function != "cron.env_present" { // it needs a job
			t.Errorf("no line for %s", function)
		}
	}
}

// isEqual reports whether two texts are equal YAML with equal comments.
func isEqual(t *testing.T, a, b string) bool {
	t.Helper()
	form := func(text string) string {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(strings.TrimLeft(text, "\n")), &doc); err != nil {
			t.Fatal(err, text)
		}
		unquote(&doc)
		out, err := yaml.Marshal(&doc)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return form(a) == form(b)
}

// unquote takes the style of JSON from a document of YAML.
func unquote(node *yaml.Node) {
	node.Style = 0
	for _, below := range node.Content {
		unquote(below)
	}
}

var lines = []line{
	{"file.managed", "/f", `"source": "salt://a/b", "source_hash": "", "user": "root", "mode": 644, "makedirs": true`, `
  id:
    file.managed:
      path: /f
      source: files/a/b
      user: root
      mode: "0644"
      makedirs: true
`},
	{"file.managed", "/f", `"source": ["salt://none", "salt://a/c?saltenv=base"], "replace": false, "backup": "minion"`, `
  id:
    file.managed:
      path: /f
      source: files/a/c
      replace: false
`},
	{"file.managed", "/f", `"contents": ["a", "b"], "mode": "0600", "template": "jinja"`, `
  id:
    file.managed:
      path: /f
      content: |
        a
        b
      mode: "0600"
`},
	{"file.managed", "/f", `"contents": "a", "contents_newline": false`, `
  id:
    file.managed:
      path: /f
      content: a
`},
	{"file.managed", "/f", `"contents_pillar": "motd"`, `
  id:
    file.managed:
      path: /f
      content: |
        hello
`},
	{"file.managed", "/f", `"mode": 640`, `
  # note: a file that is there keeps its owner and mode: Salt sets them, though it leaves the content
  id:
    file.managed:
      path: /f
      content: ""
      mode: "0640"
      replace: false
`},
	{"file.managed", "/f", `"contents": "a", "check_cmd": "visudo -c -f"`, `
  id:
    file.managed:
      path: /f
      content: |
        a
      check:
        - visudo
        - -c
        - -f
        - '{}'
`},
	{"file.directory", "/srv/app/d", `"user": "app", "group": "app", "dir_mode": 755, "makedirs": true, "recurse": ["user", "group"]`, `
  id:
    file.directory:
      path: /srv/app/d
      user: app
      group: app
      mode: "0755"
      makedirs: true
      recurse:
        - user
        - group
`},
	{"file.directory", "/srv/app/d", `"dir_mode": 750, "recurse": ["mode", "silent"]`, `
  id:
    file.directory:
      path: /srv/app/d
      mode: "0750"
      recurse:
        - mode
      file_mode: "0750"
`},
	{"file.directory", "/srv/app/d", `"mode": 755, "recurse": ["mode"]`, `
  id:
    file.directory:
      path: /srv/app/d
      mode: "0755"
      recurse:
        - mode
      file_mode: "0755"
`},
	{"file.directory", "/srv/app/d", `"clean": true`, `
  id:
    file.directory:
      path: /srv/app/d
      clean: true
`},
	{"file.directory", "/srv/app/d", `"follow_symlinks": true`, `
  id:
    file.directory:
      path: /srv/app/d
      follow: true
`},
	{"file.blockreplace", "/etc/f", `"marker_start": "# a", "marker_end": "# b", "content": "x", "append_if_not_found": true, "show_changes": true`, `
  # note: a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end
  id:
    file.block:
      path: /etc/f
      content: |
        x
      begin: '# a'
      end: '# b'
`},
	{"file.blockreplace", "/etc/f", `"source": "salt://a/b", "prepend_if_not_found": false, "append_newline": false`, `
  # note: a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end
  # note: a block that is missing is added at the end of the file; Salt fails without append_if_not_found
  id:
    file.block:
      path: /etc/f
      content: |
        b
      begin: '#-- start managed zone --'
      end: '#-- end managed zone --'
`},
	{"file.blockreplace", "/etc/f", `"content": "x\n", "append_newline": true, "append_if_not_found": true`, `
  # note: a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end
  id:
    file.block:
      path: /etc/f
      content: |+
        x

      begin: '#-- start managed zone --'
      end: '#-- end managed zone --'
`},
	{"module.run", "service.restart", `"m_name": "nginx"`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      argv:
        - systemctl
        - restart
        - nginx
`},
	{"module.run", "id", `"service.reload": [{"name": "nginx"}], "onchanges": [{"group": "ops"}]`, `
  id:
    cmd.run:
      argv:
        - systemctl
        - reload
        - nginx
    onchanges:
      - ops
`},
	{"module.run", "cmd.run", `"cmd": "update-grub"`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      command: update-grub
`},
	{"module.wait", "service.restart", `"kwargs": {"name": "nginx"}, "watch": [{"group": "ops"}]`, `
  id:
    cmd.run:
      argv:
        - systemctl
        - restart
        - nginx
    onchanges:
      - ops
`},
	{"file.recurse", "/srv/app/d", `"source": "salt://a", "file_mode": "0644", "dir_mode": 750, "clean": true, "include_empty": true`, `
  id:
    file.recurse:
      path: /srv/app/d
      source: files/a
      file_mode: "0644"
      dir_mode: "0750"
      clean: true
`},
	{"file.symlink", "/l", `"target": "/t", "force": true, "user": "root"`, `
  # note: argument force: a directory in the place of the link is an error, where Salt removes it
  id:
    file.symlink:
      path: /l
      target: /t
      force: true
`},
	{"file.absent", "/etc/f", "", `
  id:
    file.absent:
      path: /etc/f
`},
	{"file.touch", "/f", "", `
  # note: the file is made if it is missing: Salt sets its time in each run, which is a change for what watches it
  id:
    file.managed:
      path: /f
      content: ""
      replace: false
`},
	{"file.exists", "/f", "", `
  id:
    cmd.run:
      command: echo '/f is missing'; exit 1
      creates: /f
`},
	{"file.append", "/f", `"text": ["one", "two\nthree\n"]`, `
  # note: a text of several lines: each is added where it is missing, but for empty ones; Salt adds all of them unless the file has the whole text
  id:
    file.line:
      path: /f
      line: one
  id.2:
    file.line:
      path: /f
      line: two
  id.3:
    file.line:
      path: /f
      line: three
`},
	{"file.replace", "/f", `"pattern": "^a(.)$", "repl": "b\\1$"`, `
  id:
    file.replace:
      path: /f
      pattern: ^a(.)$
      repl: b${1}$$
`},
	{"file.keyvalue", "/f", `"key": "Port", "value": 22, "separator": " ", "append_if_not_found": true`, `
  id:
    file.line:
      path: /f
      line: Port 22
      match: ^[ \t]*Port[ \t]+
      all: true
`},
	{"file.keyvalue", "/f", `"key": "a.b", "value": "c", "uncomment": "#"`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^[ \t]*(?:(?:#)[ \t]*)*a\.b[ \t]*=.*$
      repl: ${1}a.b=c
`},
	{"file.managed", "/f", `"source": "https://e.org/x", "source_hash": "sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF", "mode": 644`, `
  id:
    file.managed:
      path: /f
      source: https://e.org/x
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      mode: "0644"
`},
	{"archive.extracted", "/opt/x", `"source": ["https://e.org/x.tar.gz"], "source_hash": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "options": "--strip-components=1", "user": "root", "enforce_toplevel": false`, `
  # note: what is in the archive is written in the first run, and again where it was changed: Salt extracts only what is missing, unless overwrite is true
  id:
    archive.extracted:
      path: /opt/x
      source: https://e.org/x.tar.gz
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      strip: 1
      user: root
      makedirs: true
`},
	{"ini.options_present", "/f", `"separator": " ", "sections": {"Port": 22, "Host": "a"}`, `
  id:
    file.line:
      path: /f
      line: Host a
      match: ^[ \t]*Host[ \t]+
  id.2:
    file.line:
      path: /f
      line: Port 22
      match: ^[ \t]*Port[ \t]+
`},
	{"ini.options_present", "/f", `"sections": {"a.b": true}`, `
  id:
    file.line:
      path: /f
      line: a.b = True
      match: ^[ \t]*a\.b[ \t]*=
`},
	{"ini.options_present", "/f", `"sections": {"a": "b"}, "separator": ":", "no_spaces": true, "strict": false`, `
  id:
    file.line:
      path: /f
      line: a:b
      match: '^[ \t]*a[ \t]*:'
`},
	{"file.comment", "/f", `"regex": "^bind 127"`, `
  id:
    file.replace:
      path: /f
      pattern: ^(bind 127.*)$
      repl: '#${1}'
`},
	{"file.uncomment", "/f", `"regex": "bind 127", "char": ";"`, `
  id:
    file.replace:
      path: /f
      pattern: ^;([ \t]*bind 127.*)$
      repl: ${1}
`},
	{"pkg.installed", "nginx", `"version": "1.2-3", "refresh": true`, `
  id:
    pkg.installed:
      name: nginx
      version: 1.2-3
      refresh: true
`},
	{"pkg.installed", "all", `"pkgs": ["b", "a", {"c": "1.0"}]`, `
  id:
    pkg.installed:
      names:
        - a
        - b
  id.2:
    pkg.installed:
      name: c
      version: "1.0"
`},
	{"pkg.latest", "nginx", "", `
  id:
    pkg.latest:
      name: nginx
`},
	{"pkg.removed", "nginx", `"pkgs": ["a"]`, `
  id:
    pkg.removed:
      names:
        - a
`},
	{"pkg.purged", "nginx", "", `
  id:
    pkg.removed:
      name: nginx
      purge: true
`},
	{"pkgrepo.managed", "deb [signed-by=/k.gpg] http://e.org/d bookworm main contrib", `"file": "/etc/apt/sources.list.d/e.list", "key_url": "salt://a/b"`, `
  # note: a repository gets a file .sources of its own: remove its line from /etc/apt/sources.list.d/e.list
  id:
    pkgrepo.managed:
      file: e
      uris:
        - http://e.org/d
      suites:
        - bookworm
      components:
        - main
        - contrib
      key: files/a/b
`},
	{"pkgrepo.absent", "deb http://e.org/d bookworm main", `"file": "/etc/apt/sources.list.d/e.list", "humanname": "e", "keyid": "AB"`, `
  # note: argument keyid: the key stays on the host, where Salt removes it
  # note: the whole file /etc/apt/sources.list.d/e.list is removed, where Salt removes the line of the repository
  id:
    file.absent:
      path: /etc/apt/sources.list.d/e.list
`},
	{"service.running", "nginx", `"use": [{"service": "other"}]`, `
  id:
    service.running:
      name: nginx
`},
	{"service.running", "nginx", `"enable": true, "reload": true, "watch": [{"group": "ops"}]`, `
  id:
    service.running:
      name: nginx
      enable: true
      reload: true
    watch:
      - ops
`},
	{"service.dead", "nginx", `"enable": false`, `
  id:
    service.dead:
      name: nginx
      enable: false
`},
	{"service.enabled", "nginx", "", `
  id:
    service.enabled:
      name: nginx
`},
	{"service.disabled", "nginx", "", `
  id:
    service.disabled:
      name: nginx
`},
	{"service.masked", "nginx", "", `
  id:
    cmd.run:
      argv:
        - systemctl
        - mask
        - --
        - nginx
    unless:
      - test "$(systemctl is-enabled -- nginx 2>/dev/null)" = masked
`},
	{"cmd.run", "make", `"cwd": "/src", "runas": "app", "env": [{"A": 1}, {"B": "c"}], "creates": "/src/out", "timeout": 90`, `
  id:
    cmd.run:
      command: make
      cwd: /src
      env:
        A: "1"
        B: c
      user: app
      creates: /src/out
    timeout: 1m30s
`},
	{"cmd.run", "make", `"cwd": "/usr/my src", "runas": "app", "env": {"B": "x y", "A": 1}, "unless": "test -e built"`, `
  id:
    cmd.run:
      command: make
      cwd: /usr/my src
      env:
        A: "1"
        B: x y
      user: app
    unless:
      - runuser -u app -- sh -c 'export A='\''1'\''; export B='\''x y'\''; cd '\''/usr/my src'\'' || exit 1; test -e built'
`},
	{"cmd.run", "make", `"runas": "app", "unless": ["test -e a # old", "test -e b\ntest -e c"]`, `
  id:
    cmd.run:
      command: make
      user: app
    unless:
      - |-
        runuser -u app -- sh -c '(
        test -e a # old
        ) && (
        test -e b
        test -e c
        )'
`},
	{"cmd.run", "make", `"cwd": "/srv", "runas": "root", "onlyif": ["test -e go", "true"]`, `
  id:
    cmd.run:
      command: make
      cwd: /srv
      user: root
    onlyif:
      - cd '/srv' || exit 1; test -e go
      - cd '/srv' || exit 1; true
`},
	{"cmd.run", "make", `"shell": "/bin/bash", "onlyif": "test -e /a", "unless": ["test -e /b", "test -e /c"], "watch": [{"group": "ops"}]`, `
  id:
    cmd.run:
      argv:
        - /bin/bash
        - -c
        - make
    onlyif:
      - /bin/bash -c 'test -e /a'
    require:
      - ops
    unless:
      - |-
        (
        /bin/bash -c 'test -e /b'
        ) && (
        /bin/bash -c 'test -e /c'
        )
`},
	{"cmd.wait", "make", `"watch": [{"group": "ops"}]`, `
  id:
    cmd.run:
      command: make
    onchanges:
      - ops
`},
	{"cron.present", "/bin/job", `"user": "app", "minute": 5, "hour": "*/2", "identifier": "my job"`, `
  # note: Salt's line stays in the crontab of app, and its job would run twice: remove it
  id:
    cron.present:
      name: my-job
      command: /bin/job
      user: app
      cron: 5 */2 * * *
`},
	{"cron.present", "/bin/job", `"special": "@daily"`, `
  # note: Salt's line stays in the crontab of root, and its job would run twice: remove it
  id:
    cron.present:
      command: /bin/job
      cron: '@daily'
`},
	{"user.present", "bob", `"uid": 700, "gid": 700, "groups": ["adm"], "home": "/home/bob", "shell": "/bin/sh", "fullname": "Bob", "createhome": false`, `
  # note: a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false
  # note: a user with another uid gets this one: Salt fails, unless allow_uid_change is true
  # note: a user with another gid gets this one: Salt fails, unless allow_gid_change is true
  # note: argument fullname becomes the whole comment of the user: Salt leaves its room and its phones
  id:
    user.present:
      name: bob
      uid: 700
      group: ops
      groups:
        - adm
      home: /home/bob
      shell: /bin/sh
      comment: Bob
      create_home: false
`},
	{"user.present", "bob", `"gid_from_name": true, "system": true`, `
  id:
    user.present:
      name: bob
      group: bob
      system: true
      create_home: true
`},
	{"user.absent", "bob", `"purge": true`, `
  id:
    user.absent:
      name: bob
      remove_home: true
`},
	{"group.present", "wheel", `"gid": 10, "system": true`, `
  id:
    group.present:
      name: wheel
      gid: 10
      system: true
`},
	{"group.absent", "wheel", "", `
  id:
    group.absent:
      name: wheel
`},
	{"ssh_auth.present", "AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS", `"user": "bob", "enc": "ssh-ed25519", "comment": "bob@e.org", "options": ["no-pty"]`, `
  id:
    ssh_auth.present:
      user: bob
      keys:
        - no-pty ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS bob@e.org
`},
	{"ssh_auth.absent", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS x", `"user": "bob"`, `
  id:
    ssh_auth.absent:
      user: bob
      keys:
        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS x
`},
	{"host.present", "db", `"ip": "10.0.0.1"`, `
  # note: another address that has the name loses it: Salt keeps it, unless clean is true
  id:
    host.present:
      name: db
      ip: 10.0.0.1
`},
	{"file.line", "/f", `"mode": "ensure", "content": "Authorized only", "after": "^Debian", "show_changes": true`, `
  id:
    file.line:
      path: /f
      line: Authorized only
      after: ^Debian
`},
	{"file.line", "/f", `"mode": "replace", "content": "Port 22", "match": "^Port", "indent": true`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^([ \t]*).*(?:^Port).*$
      repl: ${1}${2}Port 22
`},
	{"file.line", "/f", `"mode": "delete", "match": "^Port"`, `
  id:
    file.line:
      path: /f
      match: ^Port
      absent: true
`},
	{"file.line", "/f", `"mode": "insert", "content": "x", "location": "end"`, `
  # note: Salt gives the line the indentation of the one beside it, unless indent is false; write it into line
  # note: a file that is missing is made: Salt fails, unless create is true
  id:
    file.line:
      path: /f
      line: x
`},
	{"pip.installed", "flask==3.0.0", `"bin_env": "/srv/venv/bin/pip", "user": "app", "index_url": "https://e.org/simple"`, `
  id:
    pip.installed:
      name: flask==3.0.0
      venv: /srv/venv
      user: app
      index: https://e.org/simple
`},
	{"pip.installed", "x", `"bin_env": "/srv/venv", "pkgs": ["flask", "gunicorn==21.2.0"]`, `
  id:
    pip.installed:
      names:
        - flask
        - gunicorn==21.2.0
      venv: /srv/venv
`},
	{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "main", "user": "app", "force_reset": true`, `
  id:
    git.latest:
      path: /srv/a
      url: https://e.org/a.git
      rev: main
      user: app
      force: true
`},
	{"sysctl.present", "vm.swappiness", `"value": 10`, `
  id:
    sysctl.present:
      name: vm.swappiness
      value: "10"
`},
	{"timezone.system", "Europe/Berlin", `"utc": true`, `
  # note: the clock of the hardware stays as it is: Salt has it in UTC
  id:
    timezone.system:
      name: Europe/Berlin
`},
	{"mount.mounted", "/data", `"device": "/dev/sdb1", "fstype": "ext4", "opts": ["noatime", "nofail"], "pass_num": 2, "mkmnt": true`, `
  # note: what is mounted with other options or from another device stays until the next boot: Salt mounts it again
  id:
    mount.mounted:
      name: /data
      device: /dev/sdb1
      fstype: ext4
      opts:
        - noatime
        - nofail
      pass: 2
      makedir: true
`},
	{"debconf.set", "postfix", `"data": {"postfix/relay": {"type": "boolean", "value": true}}`, `
  id:
    debconf.set:
      name: postfix
      content: |
        postfix/relay boolean true
`},
	{"ssh_auth.present", "x", `"user": "bob", "source": "salt://k", "options": ["command=\"rrsync /a b\"", "no-pty"]`, `
  id:
    ssh_auth.present:
      user: bob
      keys:
        - command="rrsync /a b",no-pty ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS bob
`},
	{"ssh_auth.present", "x", `"user": "bob", "source": "salt://k", "config": "%h/.ssh/authorized_keys"`, `
  id:
    ssh_auth.present:
      user: bob
      keys:
        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHPZs9yCFhZwcVl2OjlYQoFLnuNZYlHuKWEpVSrEZXvS bob
`},
	{"file.managed", "/f", `"contents": "a", "show_diff": false`, `
  id:
    file.managed:
      path: /f
      content: |
        a
      diff: false
`},
	{"user.present", "bob", `"groups": ["bob", "adm"]`, `
  # note: a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false
  id:
    user.present:
      name: bob
      groups:
        - adm
`},
	{"user.present", "bob", `"groups": ["ops", "bob"], "gid": "ops"`, `
  # note: a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false
  # note: a user with another gid gets this one: Salt fails, unless allow_gid_change is true
  id:
    user.present:
      name: bob
      group: ops
      groups:
        - bob
`},
	{"user.present", "bob", `"groups": "bob", "gid_from_name": true`, `
  # note: a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false
  id:
    user.present:
      name: bob
      group: bob
`},
	{"user.present", "bob", `"empty_password": false, "optional_groups": []`, `
  id:
    user.present:
      name: bob
`},
	{"cmd.run", "true", `"stateful": true`, `
  # note: stateful: Salt reads the last line of the output, and changed_if its first 8 KiB
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      command: "true"
      changed_if:
        output: (?i)\bchanged["']?\s*[=:]\s*["']?(true|yes|1)\b
`},
	{"cmd.run", "true", `"stateful": false`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      command: "true"
`},
	{"cmd.run", "true", `"retry": {"attempts": 3, "interval": 10}, "failhard": true, "require": ["ops"], "onchanges_any": [{"group": "ops"}]`, `
  id:
    cmd.run:
      command: "true"
    failhard: true
    onchanges:
      - ops
    require:
      - ops
    retry:
      attempts: 3
      interval: 10s
`},
	{"cmd.run", "true", `"retry": {"attempts": "5", "interval": "7"}`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      command: "true"
    retry:
      attempts: 5
      interval: 7s
`},
	{"file.replace", "/etc/r", `"pattern": "a(b)", "repl": "$1\\g<1>\\1\\\\y\\tx"`, `
  id:
    file.replace:
      path: /etc/r
      pattern: a(b)
      repl: "$$1${1}${1}\\y\tx"
`},
}
