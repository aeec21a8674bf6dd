package movein

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Arguments that change less here than in Salt have a note, unless their value makes no difference.
func TestArgumentsThatAreLeftOutHaveANote(t *testing.T) {
	t.Parallel()
	const (
		groups  = "a user keeps its groups that the state does not name: Salt removes them, unless remove_groups is false"
		depth   = "argument depth is left out: the clone has the whole history"
		reset   = "a revision that does not follow from the one of the clone is checked out: Salt fails, unless force_reset is true"
		stays   = "Salt's line stays in the crontab of root, and its job would run twice: remove it"
		percent = "the % in the command is this character: cron ends Salt's command there, and gives it the rest as input"
		lines   = "a text of several lines: each is added where it is missing, but for empty ones; Salt adds all of them unless the file has the whole text"
		mode    = "argument file_mode is left out: without mode in recurse it changes nothing in Salt either"
	)
	for _, c := range []struct{ args, note string }{
		{`"state": "cmd", "fun": "run", "name": "a", "creates": "/a", "stateful": true`, "stateful: Salt reads the last line of the output, and changed_if its first 8 KiB"},
		{`"state": "cmd", "fun": "run", "name": "a", "creates": "/a", "stateful": false`, ""},
		{`"state": "user", "fun": "present", "name": "bob", "groups": ["adm"]`, groups},
		{`"state": "user", "fun": "present", "name": "bob", "groups": ["adm"], "remove_groups": true`, groups},
		{`"state": "user", "fun": "present", "name": "bob", "groups": ["adm"], "remove_groups": false`, ""},
		{`"state": "user", "fun": "present", "name": "bob", "groups": [], "remove_groups": true`, groups},
		{`"state": "user", "fun": "present", "name": "bob", "enforce_password": false`, ""},
		{`"state": "user", "fun": "present", "name": "bob", "enforce_password": true, "password": "!"`, ""},
		{`"state": "git", "fun": "latest", "name": "https://e.org/a.git", "target": "/srv/a", "force_reset": true, "depth": 1`, depth},
		{`"state": "git", "fun": "latest", "name": "https://e.org/a.git", "target": "/srv/a", "force_fetch": true`, reset},
		{`"state": "file", "fun": "directory", "name": "/srv/a", "file_mode": "0640", "dir_mode": "0750"`, mode},
		{`"state": "file", "fun": "directory", "name": "/srv/a/b", "file_mode": 644, "recurse": ["user"], "user": "bob"`, mode},
		{`"state": "file", "fun": "directory", "name": "/srv/a/b", "file_mode": 640, "dir_mode": 750, "recurse": ["mode"]`, ""},
		{`"state": "group", "fun": "present", "name": "g", "members": ["bob"]`, "members of a group that the state does not name stay: Salt removes them"},
		{`"state": "group", "fun": "present", "name": "g", "addusers": ["bob"]`, ""},
		{`"state": "pkg", "fun": "installed", "name": "git", "install_recommends": false`, "argument install_recommends: False is left out, it has no counterpart"},
		{`"state": "pkg", "fun": "installed", "name": "git", "install_recommends": true, "only_upgrade": false`, ""},
		{`"state": "pkg", "fun": "installed", "name": "git", "only_upgrade": true`, "argument only_upgrade: True is left out, it has no counterpart"},
		{`"state": "git", "fun": "latest", "name": "https://e.org/a.git", "target": "/srv/a", "force_reset": true, "force_clone": true`, "argument force_clone: True is left out, it has no counterpart"},
		{`"state": "git", "fun": "latest", "name": "https://e.org/a.git", "target": "/srv/a", "force_reset": true, "force_clone": false`, ""},
		{`"state": "service", "fun": "running", "name": "x", "sig": "xd"`, "argument sig: xd is left out, it has no counterpart"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "retry": {"attempts": "30", "interval": "7"}`, "argument retry: 10 attempts instead of 30"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "retry": {"attempts": 10, "splay": 0}`, ""},
		{`"state": "mount", "fun": "mounted", "name": "/srv", "device": "/dev/sdb1", "fstype": "ext4", "watch": []`, "requisite watch: a mount is not made again after a change, as it is in Saltwhat is mounted with other options or from another device stays until the next boot: Salt mounts it again"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "retry": {"splay": 5}`, "argument retry: splay is left out, it has no counterpart"},
		{`"state": "cmd", "fun": "run", "name": "a -b 'c d'", "creates": "/a", "python_shell": false`, ""},
		{`"state": "sysctl", "fun": "present", "name": "vm.swappiness", "value": 1, "config": "/etc/sysctl.d/a.conf"`, "argument config: /etc/sysctl.d/a.conf is left out, it has no counterpart"},
		{`"state": "service", "fun": "running", "name": "x", "init_delay": 5`, "argument init_delay: 5 is left out, it has no counterpart"},
		{`"state": "user", "fun": "present", "name": "bob", "usergroup": false`, "argument usergroup: False is left out, it has no counterpart"},
		{`"state": "user", "fun": "present", "name": "bob", "hash_password": false, "usergroup": true, "unique": true`, ""},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "c", "makedirs": true, "dir_mode": 700`, "makedirs makes the folders above a file with 0755: Salt gives them 0700"},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "c", "makedirs": true, "mode": "0640"`, "makedirs makes the folders above a file with 0755: Salt gives them 0750"},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "c", "makedirs": true, "mode": "0644"`, ""},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "c", "makedirs": true, "dir_mode": "0755"`, ""},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "c", "dir_mode": 700`, ""},
		{`"state": "cron", "fun": "absent", "name": "a", "user": "app"`, "a line of the command in the crontab without SALT_CRON_IDENTIFIER stays: remove it"},
		{`"state": "cron", "fun": "absent", "name": "a", "identifier": "b"`, ""},
		{`"state": "cron", "fun": "present", "name": "date +%F"`, stays + percent},
		{`"state": "cron", "fun": "present", "name": "% a"`, stays + percent},
		{`"state": "cron", "fun": "present", "name": "a", "commented": true`, "a job that is commented out does not run: its file is removed, and Salt's line stays, commented out"},
		{`"state": "cron", "fun": "present", "name": "a", "commented": false`, stays},
		{`"state": "pkg", "fun": "installed", "name": "a", "pkgs": [{"b": ">=1.2"}]`, "the package b is installed in any version: Salt wants >=1.2"},
		{`"state": "git", "fun": "latest", "name": "https://e.org/a.git", "target": "/srv/a", "force_reset": "remote-changes"`, "argument force_reset: remote-changes: what was changed in the clone is thrown away in each run, where Salt waits for a new revision"},
		{`"state": "git", "fun": "latest", "name": "git@e.org:a.git", "target": "/srv/a", "force_reset": true, "identity": "/root/.ssh/id_ed25519"`, ""},
		{`"state": "git", "fun": "latest", "name": "git@e.org:a.git", "target": "/srv/a", "force_reset": true, "user": "bob", "identity": "/home/bob/.ssh/id_rsa"`, ""},
		{`"state": "mount", "fun": "mounted", "name": "/srv", "device": "/dev/sdb1", "fstype": "ext4", "mount": false`, "the line in /etc/fstab is written again where it has other blanks: Salt leaves it"},
		{`"state": "service", "fun": "running", "name": "x", "restart": true`, ""},
		{`"state": "file", "fun": "blockreplace", "name": "/a", "content": "x\n", "insert_after_match": "^b"`, "a marker is a whole line: Salt takes any line that has it, so write such a line into begin or endof several lines that insert_after_match matches the last counts: Salt takes the first"},
		{`"state": "iptables", "fun": "chain_present", "name": "A", "save": true`, "argument save is left out: netfilter-persistent save keeps rules over a boot"},
		{`"state": "iptables", "fun": "chain_present", "name": "A", "save": false`, ""},
		{`"state": "file", "fun": "append", "name": "/srv/a", "text": "` + strings.Repeat(`a\n`, 50) + `"`, lines},
		{`"state": "virtualenv", "fun": "managed", "name": "/srv/a/v", "pip_pkgs": ["a"], "python": "/opt/bin/python3.9"`, "argument python: /opt/bin/python3.9 is left out: pip.installed makes the environment with python3"},
		{`"state": "virtualenv", "fun": "managed", "name": "/srv/a/v", "pip_pkgs": ["a"], "python": "/usr/bin/python3"`, ""},
		{`"state": "virtualenv", "fun": "managed", "name": "/srv/a/v", "pip_pkgs": ["a"], "python": "python3"`, ""},
		{`"state": "virtualenv", "fun": "managed", "name": "/srv/a/v", "pip_pkgs": ["a"], "python": "/opt/py311/bin/python3"`, "argument python: /opt/py311/bin/python3 is left out: pip.installed makes the environment with python3"},
		{`"state": "cmd", "fun": "run", "name": "a | b", "creates": "/a", "python_shell": true`, ""},
		{`"state": "cmd", "fun": "run", "name": "a", "creates": "/a", "parallel": true`, "argument parallel is left out: the states of a host run one after another"},
		{`"state": "cmd", "fun": "run", "name": "a", "creates": "/a", "parallel": false`, ""},
		{`"state": "pkg", "fun": "installed", "name": "git", "prerequired": [{"file": "/a"}]`, ""},
	} {
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[{"__sls__": "s", "__id__": "x", `+c.args+`}]`)}})
		if err != nil || len(r.Refused) > 0 {
			t.Errorf("%s: %v, %v", c.args, r.Refused, err)
			continue
		}
		var got strings.Builder
		for _, row := range r.Notes {
			if !strings.HasPrefix(row.Reason, forAll) {
				got.WriteString(row.Reason)
			}
		}
		if got.String() != c.note {
			t.Errorf("%s has the note %q, want %q", c.args, got.String(), c.note)
		}
	}
}

// What would do more here than in Salt, or something else, is refused.
func TestWhatWouldDoSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, reason string }{
		{`"state": "ssh_auth", "fun": "present", "name": "ssh-rsa AAAAB3NzaC1yc2E=", "user": "bob", "config": "/etc/keys/%u"`, "argument config: another file than .ssh/authorized_keys"},
		{`"state": "user", "fun": "present", "name": "bob", "password": "secret", "hash_password": true`, "argument hash_password: the hash that mkpasswd prints, as password | must be a hash as in /etc/shadow, such as the output of mkpasswd"},
		{`"state": "git", "fun": "latest", "name": "https://ci:topsecret@e.org/a.git", "target": "/srv/a"`, "a password in the URL, which people see: give the user of the clone a key of ssh"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "retry": {"until": false}`, "argument retry: until"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "retry": [{"attempts": 5}]`, "argument retry: a value of another form"},
		{`"state": "cmd", "fun": "run", "name": "a", "onlyif": true`, "argument onlyif: a value of another form"},
		{`"state": "cmd", "fun": "run", "name": "a", "unless": ["test -e /a", false]`, "argument unless: a value of another form"},
		{`"state": "cmd", "fun": "run", "name": "a", "unless": {"fun": "test.ping"}`, "argument unless: a function of Salt: a command, such as test -e PATH"},
		{`"state": "file", "fun": "absent", "name": "/srv/a/b", "timeout": 5`, "argument timeout: timeout beside the arguments of the state"},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "a", "replace": "no"`, "argument replace: a value of another form"},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": []`, "argument contents: a value of another form"},
		{`"state": "file", "fun": "managed", "name": "/a/b", "contents": "{% if a %}{% endif %}", "template": "jinja"`, "argument contents: a template; run salt '*' cp.push PATH and give --pushed"},
		{`"state": "file", "fun": "blockreplace", "name": "/a/b", "content": "{{ a }}", "template": "jinja"`, "argument content: a template: give the text that Salt rendered"},
		{`"state": "pkgrepo", "fun": "managed", "name": "deb http://e.org x main", "key_url": "http://e.org/key.asc"`, "argument key_url: a file that is not salt://: download it into files/ and give it as key"},
		{`"state": "pkgrepo", "fun": "managed", "name": "deb http://e.org x main", "dist": "y"`, "argument dist: another suite than the line of the repository has"},
		{`"state": "user", "fun": "present", "name": "bob", "password": "$6$a", "password_lock": true`, "arguments password and password_lock together: write the hash with ! before it as password"},
		{`"state": "file", "fun": "keyvalue", "name": "/a", "key": "k", "value": "v", "search_only": true`, "argument search_only: true, which changes nothing"},
		{`"state": "cron", "fun": "present", "name": "a", "hour": "random"`, "argument hour: random: an entry below schedule: with cmd.run, cron and splay"},
		{`"state": "cmd", "fun": "run", "name": "a", "success_retcodes": [1], "stateful": true`, "argument success_retcodes: with stateful: give changed_if with exit or output"},
		{`"state": "cmd", "fun": "run", "name": "a", "env": ["A=b"]`, "argument env: a value of another form"},
		{`"state": "host", "fun": "present", "name": "a", "ip": ["10.0.0.1", "10.0.0.2"], "clean": true`, "argument clean: true, and several addresses of a family: give /etc/hosts as file.managed"},
		{`"state": "git", "fun": "latest", "name": "git@e.org:a.git", "target": "/srv/a", "identity": "/root/.ssh/deploy"`, "argument identity: the key in .ssh/config of the user of the clone: Host HOST, IdentityFile FILE"},
		{`"state": "git", "fun": "latest", "name": "git@e.org:a.git", "target": "/srv/a", "user": "bob", "identity": "/root/.ssh/id_rsa"`, "argument identity: the key in .ssh/config of the user of the clone: Host HOST, IdentityFile FILE"},
		{`"state": "file", "fun": "directory", "name": "/srv/a/b", "user": "a", "recurse": ["user"], "max_depth": 1`, "argument max_depth: cmd.run: find PATH -maxdepth N … -exec chown, with onlyif"},
		{`"state": "file", "fun": "directory", "name": "/srv/a/b", "clean": true, "exclude_pat": "x", "force": true, "attrs": "i"`, "argument attrs: cmd.run: chattr, with unless: lsattr | grep | argument exclude_pat: without clean, cmd.run: find PATH … -delete with onlyif; with clean, a state for each path that stays | argument force"},
		{`"state": "file", "fun": "replace", "name": "/a", "pattern": "a", "repl": "b", "count": 2`, "argument count: more than 1: write a pattern that matches these parts alone"},
		{`"state": "file", "fun": "replace", "name": "/a", "pattern": "a", "repl": "b", "flags": ["VERBOSE"]`, "argument flags: VERBOSE"},
		{`"state": "file", "fun": "replace", "name": "/a", "pattern": "a", "repl": "b\nc", "append_if_not_found": true`, "argument append_if_not_found: a text of several lines: file.block with begin and end"},
		{`"state": "file", "fun": "replace", "name": "/a", "pattern": "a.b", "repl": "c", "append_if_not_found": true, "flags": ["DOTALL"]`, "argument append_if_not_found: a pattern of several lines: file.line with match"},
		{`"state": "ssh_auth", "fun": "present", "name": "x", "user": "bob", "source": "salt://none"`, "argument source: a file that is not below --roots"},
		{`"state": "ssh_known_hosts", "fun": "present", "name": "a", "key": "AAAA"`, "argument key: without enc, with which Salt fails"},
		{`"state": "ssh_known_hosts", "fun": "present", "name": "a", "config": "b"`, "argument config: no absolute path, and no user"},
		{`"state": "ssh_known_hosts", "fun": "absent", "name": "a", "user": "$(id)"`, "argument user: not a name of a user"},
		{`"state": "file", "fun": "replace", "name": "/a", "pattern": "a", "repl": "\\d"`, `argument repl: \d, which only Python reads`},
		{`"state": "cmd", "fun": "run", "name": "a; b", "python_shell": false`, "argument python_shell: false, and a command with characters that a shell reads: give it as argv"},
	} {
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[{"__sls__": "s", "__id__": "x", `+c.args+`}]`)}})
		if got := reasonsOf(r.Refused); err != nil || got != c.reason {
			t.Errorf("%s: %s, %v, want %s", c.args, got, err, c.reason)
		}
	}
}

// A requisite that others have for a state is one more of the state, whatever the form of those that it has.
func TestRequisitesOfOthers(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[
		{"__sls__": "s", "__id__": "a", "name": "a", "state": "cmd", "fun": "run", "require_in": [{"cmd": "*"}]},
		{"__sls__": "s", "__id__": "b", "name": "b", "state": "cmd", "fun": "run"},
		{"__sls__": "s", "__id__": "c", "name": "c", "state": "cmd", "fun": "run", "require": {"cmd": "b"}},
		{"__sls__": "s", "__id__": "d", "name": "d", "state": "pkg", "fun": "installed", "watch_in": {"service": "none"}},
		{"__sls__": "s", "__id__": "e", "name": "e", "state": "cmd", "fun": "run", "require_any": [{"cmd": "a"}, {"cmd": "b"}]}]`)}})
	if err != nil {
		t.Fatal(err)
	}
	isAny := func(row SaltRow) bool {
		return strings.HasPrefix(row.Reason, "requisite require_any: the state is skipped if one")
	}
	if !slices.ContainsFunc(r.Notes, isAny) {
		t.Errorf("require_any has no note: %v", r.Notes)
	}
	text := withoutNotes(string(r.Files["settings/s.yaml"]))
	for _, want := range []string{
		"  b:\n    cmd.run: {}\n    require:\n      - a\n", "  c:\n    cmd.run: {}\n    require:\n      - b\n      - a\n",
		"# not converted: argument watch_in\n",
		"  e:\n    cmd.run: {}\n    require:\n      - a\n      - b\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// A service may listen to a file that needs it: Salt restarts it at the end of the run. Here a second state of the
// service does, and masters take the repo.
func TestWhatListensToWhatNeedsItIsNoCycle(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[
		{"__sls__": "s", "__id__": "app", "name": "app", "state": "service", "fun": "running", "listen": [{"file": "/etc/app"}, {"file": "/etc/b"}]},
		{"__sls__": "s", "__id__": "step", "name": "step", "state": "cmd", "fun": "run", "require": [{"service": "app"}], "unless": "test -e /u", "listen": [{"file": "/etc/app"}]},
		{"__sls__": "s", "__id__": "/etc/app", "name": "/etc/app", "state": "file", "fun": "managed", "contents": "a", "require": [{"cmd": "step"}]},
		{"__sls__": "s", "__id__": "/etc/b", "name": "/etc/b", "state": "file", "fun": "managed", "contents": "b"},
		{"__sls__": "s", "__id__": "web", "name": "web", "state": "service", "fun": "running", "listen": [{"file": "/etc/b"}]}]`)}})
	if err != nil || len(r.Refused) > 0 {
		t.Fatal(err, r.Refused)
	}
	compiles(t, r, map[target.PeelID]target.Facts{"h": {}})
	text := withoutNotes(string(r.Files["settings/s.yaml"]))
	for _, want := range []string{
		"  app:\n    service.running: {}\n  app-listen:\n    service.running:\n      name: app\n    watch:\n      - /etc/app\n      - /etc/b\n",
		"  step:\n    cmd.run: {}\n    require:\n      - app\n    unless:\n      - test -e /u\n  step-listen:\n    cmd.run:\n      command: step\n    onchanges:\n      - /etc/app\n    unless:\n      - test -e /u\n",
		"  web:\n    service.running: {}\n    watch:\n      - /etc/b\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// What Salt does first is said where the repository becomes a line of a file, and where it becomes a file of its own.
func TestTheOtherLinesOfARepositoryAreNamed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"deb http://e.org x main", "deb [signed-by=/k.gpg] http://e.org x main"} {
		for value, want := range map[string]bool{"true": true, "false": false} {
			h := low(t, `[{"__sls__": "s", "__id__": "r", "state": "pkgrepo", "fun": "managed", "name": "`+line+`", "file": "/etc/apt/sources.list.d/x.list", "clean_file": `+value+`}]`)
			r, err := Salt(SaltInput{Hosts: []Minion{h}})
			text := string(r.Files["settings/s.yaml"])
			if err != nil || len(r.Refused) > 0 || strings.Contains(text, "Salt empties the file") != want {
				t.Errorf("%s, clean_file %s: %v, %v\n%s", line, value, r.Refused, err, text)
			}
		}
	}
}

func TestAPackageIsHeldWhereAPTIs(t *testing.T) {
	t.Parallel()
	for family, want := range map[string]int{"Debian": 0, "RedHat": 1} {
		h := low(t, `[{"__sls__": "s", "__id__": "x", "state": "pkg", "fun": "installed", "name": "x", "hold": true}]`)
		h.Grains = map[string]any{"os_family": family}
		r, err := Salt(SaltInput{Hosts: []Minion{h}})
		if err != nil || len(r.Refused) != want {
			t.Errorf("%s: %v, %v", family, r.Refused, err)
		}
	}
}

// What to write instead depends on the function: a file has no environment.
func TestWhereASecretMayBe(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`"state": "file", "fun": "append", "name": "/a", "text": "pw swordfish1"`: "file.block",
		`"state": "cmd", "fun": "run", "name": "mysql swordfish1"`:                "env or stdin",
		`"state": "cron", "fun": "present", "name": "mysql swordfish1"`:           "from a file",
	} {
		h := secretHost(t, `{"__id__": "a", `+args+`}`)
		h.Pillar = map[string]any{"app": map[string]any{"password": "swordfish1"}}
		r, err := Salt(SaltInput{Hosts: []Minion{h}})
		if err != nil || len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Reason, want) {
			t.Errorf("%s: %v, %v", args, r.Refused, err)
		}
	}
}
