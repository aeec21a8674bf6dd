package movein

import (
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The parts of file.accumulated are in the block that they are for, and in no other of the file that names its own.
func TestPartsOfABlock(t *testing.T) {
	t.Parallel()
	const part = `{"__sls__": "s", "__id__": "p1", "name": "parts", "state": "file", "fun": "accumulated", "filename": "/f", "text": ["one", "two"], "require_in": [{"file": "block"}]},
		{"__sls__": "s", "__id__": "p2", "name": "others", "state": "file", "fun": "accumulated", "filename": "/f", "text": "three"}`
	for _, c := range []struct{ block, want string }{
		{`"__id__": "block", "content": "zero"`, "zero\n        one\n        two\n"},
		{`"__id__": "block"`, "one\n        two\n"},
		{`"__id__": "other"`, "one\n        two\n        three\n"},
	} {
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[`+part+`, {"__sls__": "s", "name": "/f", "state": "file", "fun": "blockreplace", "append_if_not_found": true, `+c.block+`}]`)}})
		text := string(r.Files["settings/s.yaml"])
		if err != nil || len(r.Refused) > 0 || !strings.Contains(text, "content: |\n        "+c.want+"      begin:") {
			t.Errorf("%s: %v, %v\n%s", c.block, err, r.Refused, text)
		}
	}
}

// Each row of the report names the first declaration that it counts, and what to write.
func TestARefusalSaysWhereAndWhat(t *testing.T) {
	t.Parallel()
	roots := fstest.MapFS{"a.sh": {}, "long.sh": {Data: make([]byte, 64<<10+1)}}
	for _, c := range []struct{ args, reason string }{
		{`"state": "postgres_user", "fun": "present", "name": "app"`, "no such function here: cmd.run with a guard in unless, and the program psql"},
		{`"state": "unheard", "fun": "of", "name": "app"`, "no such function here: cmd.run with the program that does it, and unless with one that says whether it is done; file.managed of the files that it writes"},
		{`"state": "pkg", "fun": "uptodate", "name": "app"`, "no such function here"},
		{`"state": "pip", "fun": "installed", "name": "flask"`, "no argument bin_env: here pip installs into a virtual environment alone; give its directory as venv, or the package of the distribution, python3-NAME, as pkg.installed"},
		{`"state": "pip", "fun": "installed", "name": "x", "bin_env": "/srv/v", "requirements": "/srv/req.txt"`, "argument requirements: a file of the host: write its packages as names"},
		{`"state": "file", "fun": "accumulated", "name": "p", "filename": "/none", "text": "a"`, "a part of a file that no file.managed and no file.blockreplace has"},
		{`"state": "file", "fun": "copy", "name": "/b", "source": "/a", "force": true`, "argument force: true, which copies again: give the file in files/ as file.managed"},
		{`"state": "file", "fun": "rename", "name": "/b", "source": "/a", "force": true`, "argument force: true, which replaces what is there"},
		{`"state": "file", "fun": "serialize", "name": "/b", "dataset": {}, "formatter": "toml"`, "argument formatter: toml; run salt '*' cp.push PATH and give --pushed"},
		{`"state": "file", "fun": "serialize", "name": "/b", "dataset_pillar": "none"`, "argument dataset_pillar: a value that is not in the pillar; give --pillar"},
		{`"state": "selinux", "fun": "boolean", "name": "b", "value": "maybe"`, `argument value: "maybe" is not on or off`},
		{`"state": "kmod", "fun": "present", "name": "b", "unless": "true"`, "argument unless: it has a test of its own here"},
		{`"state": "iptables", "fun": "append", "name": "b", "chain": "INPUT", "source": "!10.0.0.1"`, "argument source: a value of another form"},
		{`"state": "cmd", "fun": "run", "name": "b", "shell": "/bin/bash", "umask": "022"`, "argument umask: a command without /bin/sh: write umask into it"},
		{`"state": "pkg", "fun": "held", "name": "b", "pkgs": []`, "argument pkgs: a value of another form"},
		{`"state": "cmd", "fun": "script", "name": "salt://long.sh"`, "a script of more than 64 KiB: give it as file.managed, and run it with cmd.run"},
		{`"state": "cmd", "fun": "script", "name": "salt://a.sh", "args": "a ` + "`id`" + `"`, "argument args: characters that a shell reads"},
		{`"state": "cmd", "fun": "script", "name": "salt://a.sh", "args": "-v >/var/log/a"`, "argument args: characters that a shell reads"},
		{`"state": "cmd", "fun": "script", "name": "a.sh | tee /a", "source": "salt://a.sh"`, "argument args: characters that a shell reads"},
		{`"state": "virtualenv", "fun": "managed", "name": "/v", "requirements": "salt://none"`, "argument source: a file that is not below --roots"},
		{`"state": "file", "fun": "serialize", "name": "/b", "dataset": {}, "merge_if_exists": true`, "argument merge_if_exists"},
		{`"state": "pkg", "fun": "latest", "name": "git"`, "another state has the same, with another function: write what both need into one"},
	} {
		r, err := Salt(SaltInput{Roots: []fs.FS{roots}, Hosts: []Minion{low(t, `[{"__sls__": "s", "__id__": "g", "name": "git", "state": "pkg", "fun": "installed"}, {"__sls__": "web.app", "__id__": "x y", `+c.args+`}]`)}})
		if err != nil || len(r.Refused) != 1 || r.Refused[0].Reason != c.reason || r.Refused[0].First != "web.app: x y" {
			t.Errorf("%s: %+v, %v, want %s", c.args, r.Refused, err, c.reason)
		}
	}
}

// programLines are the declarations that become commands, and what becomes of parts of files.
var programLines = []line{
	{"alternatives.install", "editor", `"link": "/usr/bin/editor", "path": "/usr/bin/vim", "priority": 50`, `
  id:
    cmd.run:
      argv: [update-alternatives, --install, /usr/bin/editor, editor, /usr/bin/vim, "50"]
    unless:
      - 'update-alternatives --query editor | grep -Fqx ''Alternative: /usr/bin/vim'''
`},
	{"alternatives.set", "editor", `"path": "/usr/bin/vim"`, `
  id:
    cmd.run:
      argv: [update-alternatives, --set, editor, /usr/bin/vim]
    unless:
      - test "$(readlink /etc/alternatives/editor)" = /usr/bin/vim
`},
	{"cmd.script", "setup", `"source": "salt://run.sh", "args": "-v now", "creates": "/srv/done", "runas": "app"`, `
  id:
    cmd.run:
      argv: [/bin/bash, -e, -c, "#!/bin/bash -e\necho one\n", script, -v, now]
      user: app
      creates: /srv/done
`},
	{"cmd.script", "run.sh --fast  now", `"source": "salt://run.sh"`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      argv: [/bin/bash, -e, -c, "#!/bin/bash -e\necho one\n", script, --fast, now]
`},
	{"cmd.script", "run.sh one", `"source": "salt://run.sh", "args": "two\n"`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      argv: [/bin/bash, -e, -c, "#!/bin/bash -e\necho one\n", script, two]
`},
	{"cmd.script", "salt://a/b", `"shell": "/bin/dash", "unless": "test -e /x"`, `
  id:
    cmd.run:
      argv:
        - /bin/dash
        - -c
        - |
          b
        - script
    unless:
      - /bin/dash -c 'test -e /x'
`},
	{"cmd.wait_script", "setup", `"source": "salt://run.py", "args": "x", "watch": [{"group": "ops"}]`, `
  id:
    cmd.run:
      argv: [python3, -c, "#!/usr/bin/env python3\nprint(1)\n", x]
    onchanges:
      - ops
`},
	{"cmd.watch", "make", `"watch": [{"group": "ops"}]`, `
  id:
    cmd.run: {command: make}
    onchanges:
      - ops
`},
	{"cmd.run", "make", `"umask": "027"`, `
  # note: the command runs in each run of the states, and test=true cannot predict what it changes; onlyif, unless or creates says when it is needed
  id:
    cmd.run:
      command: umask 027; make
`},
	{"cron.absent", "/bin/job", `"user": "app", "identifier": "my.job", "minute": 5`, `
  id:
    cron.absent:
      name: my-job
  id.2:
    cmd.run:
      command: crontab -u app -l | sed '/SALT_CRON_IDENTIFIER:my\.job$/,+1d' | crontab -u app -
    onlyif:
      - crontab -u app -l 2>/dev/null | grep -q -e 'SALT_CRON_IDENTIFIER:my\.job$'
    require:
      - id
`},
	{"file.accumulated", "parts", `"filename": "/etc/blocks", "text": "one"`, `
  # Salt: file.accumulated parts {"filename":"/etc/blocks","text":"one"}
  id:
    cmd.run:
      argv: ["true"]
    enabled: false
`},
	{"file.copy", "/etc/b c", `"source": "/etc/a", "makedirs": true, "preserve": true, "user": "app", "group": "ops", "mode": "0640"`, `
  id:
    cmd.run:
      command: mkdir -p -- '/etc' && cp -aH -- '/etc/a' '/etc/b c'
      creates: /etc/b c
`},
	{"file.copy", "/etc/b", `"source": "/etc/a", "force": false`, `
  id:
    cmd.run:
      command: cp -rH --preserve=mode -- '/etc/a' '/etc/b'
      creates: /etc/b
`},
	{"file.rename", "/etc/b", `"source": "/etc/a", "onlyif": "true"`, `
  id:
    cmd.run:
      argv: [mv, --, /etc/a, /etc/b]
      creates: /etc/b
    onlyif:
      - "true"
      - test -e '/etc/a'
`},
	{"file.prepend", "/f", `"text": ["one", "two", "three"]`, `
  id:
    file.line:
      path: /f
      line: three
      before: ^
  id.2:
    file.line:
      path: /f
      line: two
      before: ^
  id.3:
    file.line:
      path: /f
      line: one
      before: ^
`},
	{"file.serialize", "/f", `"dataset": {"b": [1, "x<y"], "a": {}}, "formatter": "json", "mode": "0640"`, `
  id:
    file.managed:
      path: /f
      content: |
        {
          "a": {},
          "b": [
            1,
            "x<y"
          ]
        }
      mode: "0640"
`},
	{"file.serialize", "/f", `"dataset": {"b": ["yes", "1", 1], "a": true}, "merge_if_exists": false`, `
  # note: the text of a dataset may have other blanks than Salt's; --pushed keeps that text
  id:
    file.managed:
      path: /f
      content: |
        a: true
        b:
          - "yes"
          - "1"
          - 1
`},
	{"file.serialize", "/f", `"dataset_pillar": "motd", "serializer": "json"`, `
  id:
    file.managed:
      path: /f
      content: |
        "hello"
`},
	{"gem.installed", "bundler", `"version": "2.1", "user": "app"`, `
  id:
    cmd.run:
      argv:
        - gem
        - install
        - --no-document
        - bundler
        - -v
        - "2.1"
      user: app
    unless:
      - runuser -u app -- sh -c 'gem list -i '\''^bundler$'\'' -v 2.1'
`},
	{"iptables.append", "ssh", `"table": "filter", "chain": "INPUT", "jump": "ACCEPT", "match": ["state", "tcp"], "connstate": "NEW", "dport": 22, "proto": "tcp", "source": "10.0.0.0/8", "save": true`, `
  # note: argument save is left out: netfilter-persistent save keeps rules over a boot
  id:
    cmd.run:
      argv: [iptables, -w, -t, filter, -A, INPUT, -p, tcp, -m, tcp, -m, state, --state, NEW, -s, 10.0.0.0/8, --dport, "22", -j, ACCEPT]
    unless:
      - iptables -w -t filter -C INPUT -p tcp -m tcp -m state --state NEW -s 10.0.0.0/8 --dport 22 -j ACCEPT 2>/dev/null
`},
	{"iptables.insert", "web", `"family": "ipv6", "chain": "INPUT", "position": 2, "jump": "ACCEPT", "dports": [80, 443], "proto": "tcp", "comment": "a web"`, `
  id:
    cmd.run:
      argv: [ip6tables, -w, -t, filter, -I, INPUT, "2", -p, tcp, -m, comment, --comment, a web, -m, multiport, --dports, "80,443", -j, ACCEPT]
    unless:
      - ip6tables -w -t filter -C INPUT -p tcp -m comment --comment 'a web' -m multiport --dports 80,443 -j ACCEPT 2>/dev/null
`},
	{"iptables.insert", "first", `"chain": "INPUT", "jump": "ACCEPT"`, `
  id:
    cmd.run:
      argv: [iptables, -w, -t, filter, -I, INPUT, -j, ACCEPT]
    unless:
      - iptables -w -t filter -C INPUT -j ACCEPT 2>/dev/null
`},
	{"iptables.chain_present", "LOGS", `"table": "nat", "save": false`, `
  id:
    cmd.run:
      argv: [iptables, -w, -t, nat, -N, LOGS]
    unless:
      - iptables -w -t nat -n -L LOGS >/dev/null
`},
	{"iptables.set_policy", "drop", `"chain": "FORWARD", "policy": "DROP"`, `
  id:
    cmd.run:
      argv: [iptables, -w, -t, filter, -P, FORWARD, DROP]
    unless:
      - iptables -w -t filter -S FORWARD | grep -Fqx -e '-P FORWARD DROP'
`},
	{"kmod.present", "br-net", "", `
  id:
    cmd.run:
      argv: [modprobe, br-net]
    unless:
      - test -d /sys/module/br_net
`},
	{"kmod.present", "loop", `"persist": true`, `
  id:
    cmd.run:
      argv:
        - /bin/sh
        - -c
        - modprobe loop && { grep -Fqsx loop /etc/modules-load.d/salt_managed.conf || echo loop >> /etc/modules-load.d/salt_managed.conf; }
    unless:
      - test -d /sys/module/loop && grep -Fqsx loop /etc/modules-load.d/salt_managed.conf
`},
	{"npm.installed", "pm2@5.3.0", "", `
  id:
    cmd.run:
      argv: [npm, install, -g, pm2@5.3.0]
    unless:
      - npm ls -g pm2@5.3.0
`},
	{"npm.installed", "x", `"pkgs": ["a", "b"], "dir": "/srv/app", "user": "app"`, `
  id:
    cmd.run:
      argv: [npm, install, a, b]
      cwd: /srv/app
      user: app
    unless:
      - runuser -u app -- sh -c 'cd '\''/srv/app'\'' || exit 1; npm ls --prefix /srv/app a b'
`},
	{"pkg.held", "x", `"pkgs": ["a", "b"]`, `
  id:
    cmd.run:
      argv: [apt-mark, hold, a, b]
    unless:
      - apt-mark showhold | grep -Fqx a && apt-mark showhold | grep -Fqx b
`},
	{"pip.installed", "x", `"bin_env": "/srv/venv", "requirements": "salt://req.txt"`, `
  id:
    pip.installed:
      names: [flask==3.0.0, gunicorn]
      venv: /srv/venv
`},
	{"selinux.boolean", "httpd_can_network_connect", `"value": true, "persist": true`, `
  id:
    cmd.run:
      argv: [setsebool, -P, httpd_can_network_connect, "on"]
    unless:
      - semanage boolean -l | grep -Eq '^httpd_can_network_connect +\(on *, *on\)'
`},
	{"selinux.boolean", "httpd_can_network_connect", `"value": false`, `
  id:
    cmd.run:
      argv: [setsebool, httpd_can_network_connect, "off"]
    unless:
      - getsebool httpd_can_network_connect | grep -q -- '--> off$'
`},
	{"service.running", "nginx", `"unmask": true`, `
  id:
    service.running:
      name: nginx
      unmask: true
`},
	{"virtualenv.managed", "/srv/venv", `"requirements": "salt://req.txt", "pip_pkgs": ["black", "gunicorn"], "python": "python3", "runas": "app", "system_site_packages": false`, `
  id:
    pip.installed:
      names: [black, flask==3.0.0, gunicorn]
      venv: /srv/venv
      user: app
`},
	{"virtualenv.managed", "/srv/venv", `"user": "app", "python": "/usr/bin/python3.11"`, `
  id:
    cmd.run:
      argv: [/usr/bin/python3.11, -m, venv, /srv/venv]
      user: app
      creates: /srv/venv/bin/python
`},
	{"stateconf.set", "params", `"port": 80`, `
  # Salt: stateconf.set params {"port":80}
  id:
    cmd.run:
      argv: ["true"]
    enabled: false
`},
	{"test.show_notification", "x", `"text": "done"`, `
  # Salt: test.show_notification x {"text":"done"}
  id:
    cmd.run:
      argv: ["true"]
    enabled: false
`},
	{"test.succeed_without_changes", "x", "", `
  # Salt: test.succeed_without_changes x {}
  id:
    cmd.run:
      argv: ["true"]
    enabled: false
`},
}

// A guard of Salt is run in the directory, with the variables and as the user of its command.
func TestAGuardRunsAsItsCommand(t *testing.T) {
	t.Parallel()
	c := &conversion{
		args: map[string]any{"cwd": "/usr", "env": map[string]string{"FOO": "it's"}},
		fields: map[string]any{
			"unless": []string{`test "$(pwd)" = /usr`, `test "$FOO" = "it's"`},
			"onlyif": []string{`test "$(pwd) $FOO" = "/usr it's"`},
		},
	}
	if os.Geteuid() == 0 {
		c.args["user"] = "nobody"
		c.fields["onlyif"] = append(c.fields["onlyif"].([]string), `test "$(id -un)" = nobody`)
	}
	c.guardAsCommand()
	for _, guard := range slices.Concat(c.fields["unless"].([]string), c.fields["onlyif"].([]string)) {
		if out, err := exec.Command("sh", "-c", guard).CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", guard, err, out)
		}
	}
}
