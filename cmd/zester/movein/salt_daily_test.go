package movein

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/settings/state"
)

// dailyLines are declarations with arguments that many shops have.
var dailyLines = []line{
	{"file.replace", "/f", `"pattern": "^#?Port .*$", "repl": "Port 22", "append_if_not_found": true`, `
  id:
    file.replace:
      path: /f
      pattern: ^#?Port .*$
      repl: Port 22
  id.2:
    file.line:
      path: /f
      line: Port 22
    require:
      - id
    unless:
      - grep -Fqx -e 'Port 22' -- '/f'
`},
	{"file.replace", "/f", `"pattern": "^(#|)Port .*", "repl": "Port 22", "prepend_if_not_found": true, "flags": ["IGNORECASE", "MULTILINE"], "ignore_if_missing": true`, `
  id:
    file.replace:
      path: /f
      pattern: (?i)^(#|)Port .*
      repl: Port 22
    onlyif:
      - test -e '/f'
  id.2:
    file.line:
      path: /f
      line: Port 22
      before: ^
    onlyif:
      - test -e '/f'
    require:
      - id
    unless:
      - grep -Fqx -e 'Port 22' -- '/f'
`},
	{"file.replace", "/f", `"pattern": "^Port|^Listen", "repl": "Port 22", "append_if_not_found": true`, `
  id.2:
    file.line:
      path: /f
      line: Port 22
    onlyif:
      - test -e '/f'
    unless:
      - grep -Fqx -e 'Port 22' -- '/f'
      - grep -Pq -e '^Port|^Listen' -- '/f'
  id:
    file.replace:
      path: /f
      pattern: ^Port|^Listen
      repl: Port 22
    require:
      - id.2
`},
	{"file.replace", "/f", `"pattern": "^(opt)=.*$", "repl": "\\1=it's", "append_if_not_found": true, "not_found_content": "opt=it's", "flags": 10`, `
  id.2:
    file.line:
      path: /f
      line: opt=it's
    onlyif:
      - test -e '/f'
    unless:
      - grep -Fqx -e 'opt=it'\''s' -- '/f'
      - grep -Piq -e '^(opt)=.*$' -- '/f'
  id:
    file.replace:
      path: /f
      pattern: (?i)^(opt)=.*$
      repl: ${1}=it's
    require:
      - id.2
`},
	{"file.replace", "/f", `"pattern": "(a)-(b)", "repl": "\\2$\\g<1>", "count": 1, "backup": false`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))(?:(a)-(b))
      repl: ${1}${3}$$${2}
`},
	{"file.replace", "/f", `"pattern": "^a.b$", "repl": "c\\d", "flags": ["DOTALL"], "backslash_literal": true, "is_pattern": false`, `
  id:
    file.replace:
      path: /f
      pattern: (?s)(?-m)^a.b$
      repl: c\d
`},
	{"file.blockreplace", "/f", `"marker_start": "# [a]", "marker_end": "# b", "content": "x\n", "prepend_if_not_found": true`, `
  # note: a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end
  id.2:
    file.line:
      path: /f
      line: '# [a]'
      before: ^
  id.3:
    file.line:
      path: /f
      line: '# b'
      after: ^# \[a\]$
    require:
      - id.2
  id:
    file.block:
      path: /f
      content: |
        x
      begin: '# [a]'
      end: '# b'
    require:
      - id.3
`},
	{"file.blockreplace", "/f", `"content": "x\n", "insert_before_match": "^end"`, `
  # note: a marker is a whole line: Salt takes any line that has it, so write such a line into begin or end
  id.2:
    file.line:
      path: /f
      line: '#-- start managed zone --'
      before: ^end
  id.3:
    file.line:
      path: /f
      line: '#-- end managed zone --'
      after: ^#-- start managed zone --$
    require:
      - id.2
  id:
    file.block:
      path: /f
      content: |
        x
      begin: '#-- start managed zone --'
      end: '#-- end managed zone --'
    require:
      - id.3
`},
	{"file.append", "/f", `"source": "salt://a/b"`, `
  id:
    file.line:
      path: /f
      line: b
`},
	{"file.append", "/f", `"sources": ["salt://a/b", "salt://a/c"], "template": false`, `
  id:
    file.line:
      path: /f
      line: b
  id.2:
    file.line:
      path: /f
      line: c
`},
	{"file.managed", "/f", `"source": ["salt://none", "https://e.org/x"], "source_hash": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "clean": false`, `
  id:
    file.managed:
      path: /f
      source: https://e.org/x
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`},
	{"file.managed", "/f", `"source": ["salt://a/b", "https://e.org/x"]`, `
  id:
    file.managed:
      path: /f
      source: files/a/b
`},
	{"file.managed", "/f", `"source": ["https://e.org/x", "salt://a/b"], "source_hash": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`, `
  # note: of several sources the first is taken, https://e.org/x: Salt takes another if it does not answer
  id:
    file.managed:
      path: /f
      source: https://e.org/x
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`},
	{"file.symlink", "/l", `"target": "/t", "user": "app", "group": "app"`, `
  id:
    file.symlink:
      path: /l
      target: /t
  id.2:
    cmd.run:
      argv:
        - chown
        - -h
        - --
        - app:app
        - /l
    require:
      - id
    unless:
      - test "$(stat -c %U:%G -- /l)" = app:app
`},
	{"file.symlink", "/l", `"target": "/t", "group": "app"`, `
  id:
    file.symlink:
      path: /l
      target: /t
  id.2:
    cmd.run:
      argv:
        - chown
        - -h
        - --
        - :app
        - /l
    require:
      - id
    unless:
      - test "$(stat -c :%G -- /l)" = :app
`},
	{"file.recurse", "/srv/app/d", `"source": "salt://a", "exclude_pat": "*c"`, `
  id:
    file.recurse:
      path: /srv/app/d
      source: files/converted/part-b0a617a5/a
`},
	{"file.recurse", "/srv/app/d", `"source": "salt://a", "include_pat": ["E@^b$", "x"], "exclude_pat": "E@x"`, `
  id:
    file.recurse:
      path: /srv/app/d
      source: files/converted/part-33aa2aaa/a
`},
	{"archive.extracted", "/opt/x", `"source": "https://e.org/x.tar.gz", "source_hash": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "if_missing": "/opt/x/bin a", "unless": "true"`, `
  # note: what is in the archive is written in the first run, and again where it was changed: Salt extracts only what is missing, unless overwrite is true
  id:
    archive.extracted:
      path: /opt/x
      source: https://e.org/x.tar.gz
      sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
      makedirs: true
    unless:
      - "true"
      - test -e '/opt/x/bin a'
`},
	{"cmd.run", "make", `"success_retcodes": [3, 1], "creates": ["/a b", "/c"], "runas": "app", "env": ["A", {"B": null}]`, `
  id:
    cmd.run:
      command: make
      env:
        A: ""
        B: ""
      user: app
      changed_if:
        exit:
          - 0
          - 1
          - 3
    unless:
      - test -e '/a b' && test -e /c
`},
	{"cmd.run", "make", `"success_retcodes": 1, "creates": ["/a"], "env": {"B": null}`, `
  id:
    cmd.run:
      command: make
      env:
        B: ""
      creates: /a
      changed_if:
        exit:
          - 0
          - 1
`},
	{"cron.absent", "/bin/job $1", `"special": "@daily"`, `
  # note: a line of the command in the crontab without SALT_CRON_IDENTIFIER stays: remove it
  id:
    cron.absent: {}
  id.2:
    cmd.run:
      command: crontab -u root -l | sed '/SALT_CRON_IDENTIFIER:\/bin\/job \$1$/,+1d' | crontab -u root -
    onlyif:
      - crontab -u root -l 2>/dev/null | grep -q -e 'SALT_CRON_IDENTIFIER:\/bin\/job \$1$'
    require:
      - id
`},
	{"cron.present", "/bin/job", `"minute": 5, "commented": true, "identifier": "x"`, `
  # note: a job that is commented out does not run: its file is removed, and Salt's line stays, commented out
  id:
    cron.absent:
      name: x
`},
	{"host.absent", "db.e.org", `"ip": ["10.0.0.1", "::1"]`, `
  id:
    file.replace:
      path: /etc/hosts
      pattern: ^([ \t]*(?:10\.0\.0\.1|::1)(?:[ \t]+[^#\s]+)*?)[ \t]+db\.e\.org([ \t].*)?$
      repl: ${1}${2}
  id.2:
    file.line:
      path: /etc/hosts
      match: ^[ \t]*(?:10\.0\.0\.1|::1)[ \t]*(#.*)?$
      absent: true
    require:
      - id
`},
	{"host.present", "db", `"ip": ["10.0.0.1", "2001:db8::1"], "clean": true`, `
  id:
    host.present:
      name: db
      ip: 10.0.0.1
  id.2:
    host.present:
      name: db
      ip: 2001:db8::1
`},
	{"host.present", "db", `"ip": ["10.0.0.1", "10.0.0.2"]`, `
  id.2:
    file.line:
      path: /etc/hosts
      line: "10.0.0.1\tdb"
    unless:
      - grep -Eq '^[[:space:]]*10\.0\.0\.1[[:space:]]([^#]*[[:space:]])?db([[:space:]#]|$)' /etc/hosts
  id:
    file.line:
      path: /etc/hosts
      line: "10.0.0.2\tdb"
    require:
      - id.2
    unless:
      - grep -Eq '^[[:space:]]*10\.0\.0\.2[[:space:]]([^#]*[[:space:]])?db([[:space:]#]|$)' /etc/hosts
`},
	{"kmod.present", "x", `"mods": ["a", "b-c"]`, `
  id:
    cmd.run:
      argv:
        - modprobe
        - -a
        - a
        - b-c
    unless:
      - test -d /sys/module/a && test -d /sys/module/b_c
`},
	{"kmod.present", "x", `"mods": ["a", "b"], "persist": true`, `
  id:
    cmd.run:
      argv:
        - /bin/sh
        - -c
        - modprobe -a a b && { grep -Fqsx a /etc/modules-load.d/salt_managed.conf || echo a >> /etc/modules-load.d/salt_managed.conf; } && { grep -Fqsx b /etc/modules-load.d/salt_managed.conf || echo b >> /etc/modules-load.d/salt_managed.conf; }
    unless:
      - test -d /sys/module/a && grep -Fqsx a /etc/modules-load.d/salt_managed.conf && test -d /sys/module/b && grep -Fqsx b /etc/modules-load.d/salt_managed.conf
`},
	{"mount.mounted", "/data", `"device": "UUID=1", "fstype": "ext4", "opts": "ro", "mount": false, "pass_num": 2, "mkmnt": true`, `
  # note: the line in /etc/fstab is written again where it has other blanks: Salt leaves it
  id:
    file.line:
      path: /etc/fstab
      line: "UUID=1\t\t/data\text4\tro\t0 2"
      match: ^[ \t]*[^#\s]\S*[ \t]+/data[ \t]
`},
	{"mount.mounted", "/data", `"device": "/dev/sdb1", "fstype": "ext4", "mount": false, "persist": false`, `
  # Salt: mount.mounted /data {"device":"/dev/sdb1","fstype":"ext4","mount":false,"persist":false}
  id:
    cmd.run:
      argv:
        - "true"
    enabled: false
`},
	{"npm.installed", "pm2", `"env": [{"A": "b"}], "user": "app"`, `
  id:
    cmd.run:
      argv:
        - npm
        - install
        - -g
        - pm2
      env:
        A: b
      user: app
    unless:
      - runuser -u app -- sh -c 'export A='\''b'\''; npm ls -g pm2'
`},
	{"pkg.installed", "x", `"pkgs": ["a", {"b": "latest"}, {"c": "1.0"}, {"d": null}, {"e": "latest"}, {"f": "1.*"}], "hold": true`, `
  # note: the package f is installed in any version: Salt wants 1.*
  id:
    pkg.installed:
      names:
        - a
        - d
        - f
  id.2:
    pkg.installed:
      name: c
      version: "1.0"
  id.3:
    pkg.latest:
      names:
        - b
        - e
    require:
      - id.2
  id.4:
    cmd.run:
      argv:
        - apt-mark
        - hold
        - a
        - d
        - f
        - c
        - b
        - e
    require:
      - id.3
    unless:
      - apt-mark showhold | grep -Fqx a && apt-mark showhold | grep -Fqx d && apt-mark showhold | grep -Fqx f && apt-mark showhold | grep -Fqx c && apt-mark showhold | grep -Fqx b && apt-mark showhold | grep -Fqx e
`},
	{"pkg.installed", "x", `"pkgs": [{"b": "latest"}]`, `
  id:
    pkg.latest:
      names:
        - b
`},
	{"pkg.installed", "nginx", `"hold": true, "require": [{"group": "ops"}]`, `
  id:
    pkg.installed:
      name: nginx
    require:
      - ops
  id.2:
    cmd.run:
      argv:
        - apt-mark
        - hold
        - nginx
    require:
      - ops
      - id
    unless:
      - apt-mark showhold | grep -Fqx nginx
`},
	{"pkg.installed", "nginx", `"hold": false`, `
  id:
    pkg.installed:
      name: nginx
  id.2:
    cmd.run:
      argv:
        - apt-mark
        - unhold
        - nginx
    onlyif:
      - apt-mark showhold | grep -Fqx nginx
    require:
      - id
`},
	{"ssh_known_hosts.absent", "e.org", ``, `
  id:
    cmd.run:
      command: ssh-keygen -R 'e.org' -f '/etc/ssh/ssh_known_hosts'
    onlyif:
      - ssh-keygen -F 'e.org' -f '/etc/ssh/ssh_known_hosts' 2>/dev/null | grep -q .
`},
	{"ssh_known_hosts.absent", "e.org", `"user": "bob", "port": 2222`, `
  id:
    cmd.run:
      command: ssh-keygen -R '[e.org]:2222' -f ~bob/.ssh/known_hosts
      user: bob
    onlyif:
      - runuser -u bob -- sh -c 'ssh-keygen -F '\''[e.org]:2222'\'' -f ~bob/.ssh/known_hosts 2>/dev/null | grep -q .'
`},
	{"ssh_known_hosts.present", "e.org", `"user": "bob", "fingerprint": "16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48"`, `
  id:
    cmd.run:
      command: |-
        key=$(ssh-keyscan -T 5 -p 22 e.org 2>/dev/null | grep -v '^#') && printf '%s\n' "$key" | ssh-keygen -l -E md5 -f - 2>/dev/null | grep -Fq -e '16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48' || { echo 'the host shows no such key'; exit 1; }
        mkdir -p -m 700 ~bob/.ssh
        ssh-keygen -R 'e.org' -f ~bob/.ssh/known_hosts >/dev/null 2>&1
        printf '%s\n' "$key" >> ~bob/.ssh/known_hosts
        ssh-keygen -H -f ~bob/.ssh/known_hosts >/dev/null 2>&1
      user: bob
    unless:
      - runuser -u bob -- sh -c 'ssh-keygen -F '\''e.org'\'' -f ~bob/.ssh/known_hosts 2>/dev/null | ssh-keygen -l -E md5 -f - 2>/dev/null | grep -Fq -e '\''16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48'\'''
`},
	{"ssh_known_hosts.present", "e.org", `"key": "AAAA", "enc": "ed25519", "port": 2222, "hash_known_hosts": false, "timeout": 9`, `
  id:
    cmd.run:
      command: |-
        key='[e.org]:2222 ssh-ed25519 AAAA'
        ssh-keygen -R '[e.org]:2222' -f '/etc/ssh/ssh_known_hosts' >/dev/null 2>&1
        printf '%s\n' "$key" >> '/etc/ssh/ssh_known_hosts'
    unless:
      - ssh-keygen -F '[e.org]:2222' -f '/etc/ssh/ssh_known_hosts' 2>/dev/null | grep -Fq -e 'AAAA'
`},
	{"ssh_known_hosts.present", "e.org", `"fingerprint": "nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8", "enc": "ssh-rsa", "config": "/etc/ssh/known"`, `
  id:
    cmd.run:
      command: |-
        key=$(ssh-keyscan -T 5 -p 22 -t rsa e.org 2>/dev/null | grep -v '^#') && printf '%s\n' "$key" | ssh-keygen -l -E sha256 -f - 2>/dev/null | grep -Fq -e 'nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8' || { echo 'the host shows no such key'; exit 1; }
        ssh-keygen -R 'e.org' -f '/etc/ssh/known' >/dev/null 2>&1
        printf '%s\n' "$key" >> '/etc/ssh/known'
        ssh-keygen -H -f '/etc/ssh/known' >/dev/null 2>&1
    unless:
      - ssh-keygen -F 'e.org' -f '/etc/ssh/known' 2>/dev/null | ssh-keygen -l -E sha256 -f - 2>/dev/null | grep -Fq -e 'nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8'
`},
	{"user.present", "bob", `"groups": ["adm"], "optional_groups": ["a", "b"], "remove_groups": false`, `
  id:
    user.present:
      name: bob
      groups:
        - adm
  id.2:
    cmd.run:
      argv:
        - usermod
        - -aG
        - a
        - bob
    onlyif:
      - getent group a >/dev/null
    require:
      - id
    unless:
      - id -nG -- bob | tr ' ' '\n' | grep -Fqx -- a
  id.3:
    cmd.run:
      argv:
        - usermod
        - -aG
        - b
        - bob
    onlyif:
      - getent group b >/dev/null
    require:
      - id.2
    unless:
      - id -nG -- bob | tr ' ' '\n' | grep -Fqx -- b
`},
	{"file.keyvalue", "/f", `"key_values": {"b": 2, "a": "x"}, "separator": " ", "append_if_not_found": true`, `
  id:
    file.line:
      path: /f
      line: a x
      match: ^[ \t]*a[ \t]+
      all: true
  id.2:
    file.line:
      path: /f
      line: b 2
      match: ^[ \t]*b[ \t]+
      all: true
`},
	{"file.keyvalue", "/f", `"key_values": {"b": "$", "a": "x"}, "uncomment": "#"`, `
  id:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^[ \t]*(?:(?:#)[ \t]*)*a[ \t]*=.*$
      repl: ${1}a=x
  id.2:
    file.replace:
      path: /f
      pattern: \A((?s:.*?))^[ \t]*(?:(?:#)[ \t]*)*b[ \t]*=.*$
      repl: ${1}b=$$
`},
	{"ini.options_present", "/f", `"sections": {"my sec": {"b.c": "x\\\\y/*", "a": 5}, "z": {"k": true}}, "separator": ":", "no_spaces": true`, `
  # note: options of sections are set by commands, so that the peel keeps no copy of what they replace
  id:
    cmd.run:
      command: |-
        grep -q -e '^\[my sec\]' -- '/f' || printf '\n[%s]\n' 'my sec' >> '/f'
        sed -i -e '/^\[my sec\]/,/^\[/{/^[[:space:]]*a[[:space:]]*:/d;}' -e '/^\[my sec\]/a a:5' -- '/f'
    unless:
      - grep -Pzq -e '(?m)^\[my sec\][^\n]*\n(?:(?!\[)[^\n]*\n)*?[ \t]*a[ \t]*:[ \t]*5[ \t]*$' -- '/f'
  id.2:
    cmd.run:
      command: |-
        grep -q -e '^\[my sec\]' -- '/f' || printf '\n[%s]\n' 'my sec' >> '/f'
        sed -i -e '/^\[my sec\]/,/^\[/{/^[[:space:]]*b\.c[[:space:]]*:/d;}' -e '/^\[my sec\]/a b.c:x\\\\y/*' -- '/f'
    require:
      - id
    unless:
      - grep -Pzq -e '(?m)^\[my sec\][^\n]*\n(?:(?!\[)[^\n]*\n)*?[ \t]*b\.c[ \t]*:[ \t]*x\\\\y/\*[ \t]*$' -- '/f'
  id.3:
    cmd.run:
      command: |-
        grep -q -e '^\[z\]' -- '/f' || printf '\n[%s]\n' 'z' >> '/f'
        sed -i -e '/^\[z\]/,/^\[/{/^[[:space:]]*k[[:space:]]*:/d;}' -e '/^\[z\]/a k:True' -- '/f'
    require:
      - id.2
    unless:
      - grep -Pzq -e '(?m)^\[z\][^\n]*\n(?:(?!\[)[^\n]*\n)*?[ \t]*k[ \t]*:[ \t]*True[ \t]*$' -- '/f'
`},
	{"pkg.installed", "nginx", `"version": "1.24.*", "hold": true`, `
  # note: the package nginx is installed in any version: Salt wants 1.24.*
  id:
    pkg.installed:
      name: nginx
  id.2:
    cmd.run:
      argv:
        - apt-mark
        - hold
        - nginx
    require:
      - id
    unless:
      - apt-mark showhold | grep -Fqx nginx
`},
	{"pkgrepo.managed", "deb [arch=amd64 trusted=yes] http://e.org/d stable stable", `"file": "/etc/apt/sources.list.d/e.list", "comps": "stable,x", "refresh": false`, `
  id:
    file.line:
      path: /etc/apt/sources.list.d/e.list
      line: deb [arch=amd64 trusted=yes] http://e.org/d stable stable x
      match: ^[ \t]*deb[ \t]+(?:\[[^\]]*\][ \t]+)?http://e\.org/d[ \t]+stable(?:[ \t].*)?[ \t](?:stable|x)(?:[ \t]|$)
`},
	{"pkgrepo.managed", "deb [signed-by=/etc/apt/keyrings/e.gpg] https://e.org/d /", `"file": "/etc/apt/sources.list.d/e.list", "key_url": "https://e.org/k", "aptkey": false`, `
  # note: the key is what its address gives in the first run, as in Salt; pkgrepo.managed has one from files/
  id.2:
    cmd.run:
      command: |-
        set -e
        mkdir -p '/etc/apt/keyrings'
        curl -fsSL -o '/etc/apt/keyrings/e.gpg.new' -- 'https://e.org/k'
        if grep -q 'BEGIN PGP' '/etc/apt/keyrings/e.gpg.new'; then gpg --dearmor <'/etc/apt/keyrings/e.gpg.new' >'/etc/apt/keyrings/e.gpg'.bin; mv '/etc/apt/keyrings/e.gpg'.bin '/etc/apt/keyrings/e.gpg.new'; fi
        chmod 644 '/etc/apt/keyrings/e.gpg.new'
        mv '/etc/apt/keyrings/e.gpg.new' '/etc/apt/keyrings/e.gpg'
      creates: /etc/apt/keyrings/e.gpg
  id:
    file.line:
      path: /etc/apt/sources.list.d/e.list
      line: deb [signed-by=/etc/apt/keyrings/e.gpg] https://e.org/d /
      match: ^[ \t]*deb[ \t]+(?:\[[^\]]*\][ \t]+)?https://e\.org/d[ \t]+/(?:[ \t]|$)
    require:
      - id.2
  id.3:
    cmd.run:
      argv:
        - apt-get
        - -q
        - update
    onchanges:
      - id
    require:
      - id
`},
	{"pkgrepo.managed", "deb https://e.org/d x main", `"key_url": "https://e.org/k.asc", "architectures": "amd64"`, `
  # note: the key is what its address gives in the first run, as in Salt; pkgrepo.managed has one from files/
  id.2:
    cmd.run:
      command: |-
        set -e
        mkdir -p '/etc/apt/trusted.gpg.d'
        curl -fsSL -o '/etc/apt/trusted.gpg.d/id.gpg.new' -- 'https://e.org/k.asc'
        if grep -q 'BEGIN PGP' '/etc/apt/trusted.gpg.d/id.gpg.new'; then gpg --dearmor <'/etc/apt/trusted.gpg.d/id.gpg.new' >'/etc/apt/trusted.gpg.d/id.gpg'.bin; mv '/etc/apt/trusted.gpg.d/id.gpg'.bin '/etc/apt/trusted.gpg.d/id.gpg.new'; fi
        chmod 644 '/etc/apt/trusted.gpg.d/id.gpg.new'
        mv '/etc/apt/trusted.gpg.d/id.gpg.new' '/etc/apt/trusted.gpg.d/id.gpg'
      creates: /etc/apt/trusted.gpg.d/id.gpg
  id:
    file.line:
      path: /etc/apt/sources.list
      line: deb [arch=amd64] https://e.org/d x main
      match: ^[ \t]*deb[ \t]+(?:\[[^\]]*\][ \t]+)?https://e\.org/d[ \t]+x(?:[ \t].*)?[ \t](?:main)(?:[ \t]|$)
    require:
      - id.2
  id.3:
    cmd.run:
      argv:
        - apt-get
        - -q
        - update
    onchanges:
      - id
    require:
      - id
`},
	{"pkgrepo.managed", "deb [signed-by=/k.asc] https://e.org/d x main", `"require": [{"group": "ops"}]`, `
  id:
    file.line:
      path: /etc/apt/sources.list
      line: deb [signed-by=/k.asc] https://e.org/d x main
      match: ^[ \t]*deb[ \t]+(?:\[[^\]]*\][ \t]+)?https://e\.org/d[ \t]+x(?:[ \t].*)?[ \t](?:main)(?:[ \t]|$)
    require:
      - ops
  id.2:
    cmd.run:
      argv:
        - apt-get
        - -q
        - update
    onchanges:
      - id
    require:
      - ops
      - id
`},
	{"cron.present", "/bin/job", `"minute": "random", "hour": 3`, `
  # note: argument minute: random: the job waits from 0 to 59 minutes, as the machine ID of the host says; Salt has a random minute in the crontab
  # note: Salt's line stays in the crontab of root, and its job would run twice: remove it
  id:
    cron.present:
      command: sleep $(($(cksum </etc/machine-id | cut -d ' ' -f 1) % 60))m; /bin/job
      cron: 0 3 * * *
`},
	{"locale.present", "de_DE.UTF-8", ``, `
  id.2:
    file.line:
      path: /etc/locale.gen
      line: de_DE.UTF-8 UTF-8
      match: ^[ \t]*(#[ \t]*)?de_DE\.UTF-8[ \t]+UTF-8[ \t]*$
      all: true
    unless:
      - locale -a | grep -Fqxi -e 'de_DE.utf8'
  id:
    cmd.run:
      argv:
        - locale-gen
    require:
      - id.2
    unless:
      - locale -a | grep -Fqxi -e 'de_DE.utf8'
`},
	{"locale.system", "de_DE.UTF-8", ``, `
  id:
    cmd.run:
      argv:
        - localectl
        - set-locale
        - LANG=de_DE.UTF-8
    unless:
      - localectl status | grep -Eq '[[:space:]]LANG=de_DE\.UTF-8$'
`},
	{"mount.swap", "/dev/sdb2", ``, `
  # note: the line in /etc/fstab is written again where it has other blanks: Salt leaves it
  id:
    cmd.run:
      argv:
        - swapon
        - /dev/sdb2
    unless:
      - swapon --show=NAME --noheadings | grep -Fqx -e '/dev/sdb2' -e "$(realpath '/dev/sdb2')"
  id.2:
    file.line:
      path: /etc/fstab
      line: "/dev/sdb2\t\tnone\tswap\tdefaults\t0 0"
      match: ^[ \t]*/dev/sdb2[ \t]+\S+[ \t]+swap[ \t]
    require:
      - id
`},
	{"mount.swap", "/swap", `"persist": false`, `
  id:
    cmd.run:
      argv:
        - swapon
        - /swap
    unless:
      - swapon --show=NAME --noheadings | grep -Fqx -e '/swap' -e "$(realpath '/swap')"
`},
	{"virtualenv.managed", "/srv/venv", `"requirements": "/srv/app/req.txt", "pip_pkgs": ["a", "b==1"], "user": "app", "index_url": "https://e.org/i"`, `
  # note: pip reads the requirements in each run, as in Salt, and test=true cannot predict what it installs
  id:
    cmd.run:
      argv:
        - python3
        - -m
        - venv
        - /srv/venv
      user: app
      creates: /srv/venv/bin/python
  id.2:
    cmd.run:
      command: |-
        out=$(/srv/venv/bin/pip install -r /srv/app/req.txt -i https://e.org/i a b==1) || { echo "$out"; exit 1; }
        echo "$out" | grep '^Successfully' || true
      user: app
      changed_if:
        output: ^Successfully
    require:
      - id
`},
	{"pkg.installed", "nginx", `"hold": true, "unless": "test -e /x"`, `
  # note: onlyif and unless are run before each of the states, in Salt once: a later one is skipped if an earlier one does what they look for
  id:
    pkg.installed:
      name: nginx
    unless:
      - test -e /x
  id.2:
    cmd.run:
      argv:
        - apt-mark
        - hold
        - nginx
    require:
      - id
    unless:
      - test -e /x
      - apt-mark showhold | grep -Fqx nginx
`},
	{"apache_conf.disabled", "x", ``, `
  id:
    cmd.run:
      argv:
        - a2disconf
        - -q
        - x
    onlyif:
      - test -L '/etc/apache2/conf-enabled/x.conf'
`},
	{"apache_conf.enabled", "x", ``, `
  id:
    cmd.run:
      argv:
        - a2enconf
        - -q
        - x
      creates: /etc/apache2/conf-enabled/x.conf
`},
	{"apache_module.disabled", "rewrite", ``, `
  id:
    cmd.run:
      argv:
        - a2dismod
        - -q
        - rewrite
    onlyif:
      - test -L '/etc/apache2/mods-enabled/rewrite.load'
`},
	{"apache_module.enabled", "rewrite", ``, `
  id:
    cmd.run:
      argv:
        - a2enmod
        - -q
        - rewrite
      creates: /etc/apache2/mods-enabled/rewrite.load
`},
	{"apache_site.disabled", "app.conf", `"onlyif": "true"`, `
  id:
    cmd.run:
      argv:
        - a2dissite
        - -q
        - app
    onlyif:
      - "true"
      - test -L '/etc/apache2/sites-enabled/app.conf'
`},
	{"apache_site.enabled", "app.conf", ``, `
  id:
    cmd.run:
      argv:
        - a2ensite
        - -q
        - app
      creates: /etc/apache2/sites-enabled/app.conf
`},
	{"cmd.run", "make", `"check_cmd": ["test -e /a", "true"], "creates": "/c"`, `
  id:
    cmd.run:
      command: |-
        (
        make
        )
        test -e /a &&
        true
      creates: /c
`},
	{"file.serialize", "/f", `"dataset": {"a": 1}, "formatter": "json", "serializer_opts": [{"indent": 4}, {"sort_keys": true}]`, `
  id:
    file.managed:
      path: /f
      content: |
        {
            "a": 1
        }
`},
	{"git.latest", "https://e.org/a.git", `"target": "/srv/a b", "user": "app", "submodules": true, "force_reset": true`, `
  id:
    git.latest:
      path: /srv/a b
      url: https://e.org/a.git
      user: app
      force: true
  id.2:
    cmd.run:
      argv:
        - git
        - submodule
        - update
        - --init
        - --recursive
      cwd: /srv/a b
      user: app
    require:
      - id
    unless:
      - runuser -u app -- sh -c 'cd '\''/srv/a b'\'' && test -z "$(git submodule status --recursive | grep '\''^[-+U]'\'')"'
`},
	{"mount.unmounted", "/mnt/a", `"device": "/dev/sdb1", "persist": true`, `
  id:
    cmd.run:
      argv:
        - umount
        - --
        - /mnt/a
    unless:
      - '! findmnt -n -S ''/dev/sdb1'' -M ''/mnt/a'' >/dev/null'
  id.2:
    file.line:
      path: /etc/fstab
      match: ^[ \t]*/dev/sdb1[ \t]+/mnt/a[ \t]
      absent: true
    require:
      - id
`},
	{"mount.unmounted", "/mnt/a", ``, `
  id:
    cmd.run:
      argv:
        - umount
        - --
        - /mnt/a
    unless:
      - '! findmnt -n -M ''/mnt/a'' >/dev/null'
`},
	{"pkg.installed", "nginx", `"update_holds": true, "skip_suggestions": true`, `
  # note: a held package that is to be changed makes the state fail: Salt changes it, as update_holds is true
  id:
    pkg.installed:
      name: nginx
`},
	{"user.present", "bob", `"maxdays": 90, "expire": -1, "password_lock": true, "roomnumber": "", "createhome": false`, `
  id:
    user.present:
      name: bob
      create_home: false
  id.2:
    cmd.run:
      argv:
        - chage
        - -M
        - "90"
        - bob
    require:
      - id
    unless:
      - 'test "$(getent shadow bob | cut -d: -f5)" = ''90'''
  id.3:
    cmd.run:
      argv:
        - chage
        - -E
        - "-1"
        - bob
    require:
      - id.2
    unless:
      - 'test "$(getent shadow bob | cut -d: -f8)" = '''''
  id.4:
    cmd.run:
      argv:
        - usermod
        - -L
        - bob
    require:
      - id.3
    unless:
      - 'getent shadow bob | cut -d: -f2 | grep -q ''^!'''
`},
}

// statesOf returns the states that a declaration becomes.
func statesOf(t *testing.T, declaration string) []made {
	t.Helper()
	hosts := []Minion{low(t, `[{"__sls__": "s", "__id__": "id", `+declaration+`}]`)}
	src := newSources(SaltInput{Hosts: hosts})
	a := newNaming(hosts, src).attempt(&hosts[0], 0, src)
	if a.err != nil {
		t.Fatal(declaration, a.err)
	}
	return a.states
}

// A command that a declaration becomes does what Salt does, and its test says before and after whether it is done.
func TestCommandsDoWhatSaltDoes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"ssh-keygen", "sed", "grep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const tab = "5 * * * * by hand\n# Lines below here are managed by Salt, do not edit\n"
	for _, c := range []struct{ declaration, file, before, after string }{
		{
			`"state": "cron", "fun": "absent", "name": "run a.b", "user": "app"`, "tab",
			tab + "# SALT_CRON_IDENTIFIER:run axb\n1 * * * * run axb\n# daily SALT_CRON_IDENTIFIER:run a.b\n2 * * * * run a.b\n# c\n@daily c\n",
			tab + "# SALT_CRON_IDENTIFIER:run axb\n1 * * * * run axb\n# c\n@daily c\n",
		},
		{
			`"state": "cron", "fun": "absent", "name": "x", "identifier": "p/[q]*"`, "tab",
			tab + "# SALT_CRON_IDENTIFIER:p/[q]*\n#DISABLED#1 * * * * other\n# SALT_CRON_IDENTIFIER:p/q\n1 * * * * x\n",
			tab + "# SALT_CRON_IDENTIFIER:p/q\n1 * * * * x\n",
		},
		{
			`"state": "ssh_known_hosts", "fun": "present", "name": "e.org", "config": "DIR/known", "fingerprint": "PRINT", "hash_known_hosts": false`,
			"known", "f.org KEY\ne.org OLD\n", "f.org KEY\ne.org KEY\n",
		},
		{
			`"state": "ssh_known_hosts", "fun": "present", "name": "e.org", "config": "DIR/known", "key": "BLOB", "enc": "ed25519", "port": 22, "hash_known_hosts": false`,
			"known", "e.org OLD\n", "e.org KEY\n",
		},
		{
			`"state": "ssh_known_hosts", "fun": "absent", "name": "e.org", "config": "DIR/known", "port": "2222"`,
			"known", "e.org KEY\n[e.org]:2222 OLD\n", "e.org KEY\n",
		},
		{
			`"state": "ini", "fun": "options_present", "name": "DIR/ini", "sections": {"a.b": {"k": "x\\y/*"}}`,
			"ini", "[axb]\nk = 1\n[a.b]\n  k=2\nkk = 3\n[c]\nk = 4\n", "[axb]\nk = 1\n[a.b]\nk = x\\y/*\nkk = 3\n[c]\nk = 4\n",
		},
		{
			`"state": "ini", "fun": "options_present", "name": "DIR/ini", "sections": {"c": {"k": "it's"}}, "separator": ":", "no_spaces": true`,
			"ini", "k:it's\n[b]\nk:it's", "k:it's\n[b]\nk:it's\n[c]\nk:it's\n",
		},
		{
			`"state": "pkgrepo", "fun": "managed", "name": "deb [signed-by=DIR/keys/k.asc] http://e.org x main", "key_url": "https://e.org/k"`,
			"keys/k.asc", "", "BEGIN PGP https://e.org/k\n",
		},
	} {
		dir := t.TempDir()
		run := func(script string) error {
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DIR=" + dir}
			return cmd.Run()
		}
		key := func(name string) (line, print string) {
			out, err := exec.Command("/bin/sh", "-c", "cd "+dir+" && ssh-keygen -q -t ed25519 -N '' -f "+name+" && cut -d' ' -f1,2 "+
				name+".pub && ssh-keygen -l -f "+name).Output()
			line, print, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
			if err != nil || len(strings.Fields(print)) < 2 {
				t.Fatal(err, string(out))
			}
			return line, strings.TrimPrefix(strings.Fields(print)[1], "SHA256:")
		}
		one, print := key("one")
		old, _ := key("old")
		fill := strings.NewReplacer("DIR", dir, "PRINT", print, "BLOB", strings.Fields(one)[1], "KEY", one, "OLD", old).Replace
		for name, text := range map[string]string{
			c.file:        fill(c.before),
			"crontab":     "#!/bin/sh\ncase $3 in -l) cat $DIR/tab;; -) cat >$DIR/new && mv $DIR/new $DIR/tab;; esac\n",
			"curl":        "#!/bin/sh\n[ \"$*\" = \"-fsSL -o $DIR/keys/k.asc.new -- $5\" ] && echo BEGIN PGP $5 >$3\n",
			"ssh-keyscan": fill("#!/bin/sh\necho '# e.org'\necho 'e.org KEY'\n"),
		} {
			if text == "" {
				continue // it is made
			}
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		states := statesOf(t, fill(c.declaration))
		states = slices.DeleteFunc(states, func(m made) bool { return m.args["command"] == nil })
		m := states[len(states)-1]
		toDo := func() bool {
			if creates, ok := m.args["creates"].(string); ok {
				_, err := os.Stat(creates)
				return err != nil
			}
			for _, guard := range guardsOf(m.fields, "unless") {
				if run(guard) == nil {
					return false
				}
			}
			for _, guard := range guardsOf(m.fields, "onlyif") {
				if run(guard) != nil {
					return false
				}
			}
			return true
		}
		if !toDo() {
			t.Errorf("%s: there is nothing to do", c.declaration)
		}
		if err := run(plain(m.args["command"])); err != nil {
			t.Errorf("%s: %v", c.declaration, err)
		}
		if text, err := os.ReadFile(dir + "/" + c.file); err != nil || string(text) != fill(c.after) {
			t.Errorf("%s left\n%s\nwant\n%s\n%v", c.declaration, text, fill(c.after), err)
		}
		if toDo() {
			t.Errorf("%s is to be done again", c.declaration)
		}
	}
}

// The expressions that declarations become change a text as Salt does, and change it no second time.
func TestExpressionsDoWhatSaltDoes(t *testing.T) {
	t.Parallel()
	const absent = `"state": "host", "fun": "absent", "name": "db.e", "ip": ["10.0.0.1", "::1"]`
	for _, c := range []struct{ declaration, before, after string }{
		{absent, "10.0.0.1 db.e\n10.0.0.2 db.e\n", "10.0.0.1\n10.0.0.2 db.e\n"},
		{absent, "10.0.0.1\tdb.e a # x db.e\n::1 b db.e c\n", "10.0.0.1 a # x db.e\n::1 b c\n"},
		{absent, "10.0.0.1 dbxe db.e.org\n110.0.0.1 db.e\n# 10.0.0.1 db.e\n", "10.0.0.1 dbxe db.e.org\n110.0.0.1 db.e\n# 10.0.0.1 db.e\n"},
		{`"state": "file", "fun": "replace", "name": "/f", "pattern": "^a(.)$", "repl": "ab\\1", "count": 1`, "x\nab\nac\nad\n", "x\nabb\nac\nad\n"},
		{`"state": "file", "fun": "replace", "name": "/f", "pattern": "A.B", "repl": "a", "flags": ["IGNORECASE", "DOTALL"]`, "xa\nbx\n", "xax\n"},
		{`"state": "file", "fun": "replace", "name": "/f", "pattern": "^a", "repl": "b", "flags": 0`, "a\na\n", "b\na\n"},
		{`"state": "file", "fun": "replace", "name": "/f", "pattern": "a", "repl": "\\d$", "backslash_literal": true`, "a", `\d$`},
	} {
		args := statesOf(t, c.declaration)[0].args
		re, err := (&state.FileReplace{Pattern: plain(args["pattern"])}).Expression()
		if err != nil {
			t.Fatal(c.declaration, err)
		}
		if got := re.ReplaceAllString(c.before, plain(args["repl"])); strings.TrimSpace(got) != strings.TrimSpace(c.after) {
			t.Errorf("%s: %q became %q, want %q", c.declaration, c.before, got, c.after)
		}
	}

	then := statesOf(t, absent)[1].args["match"].(string)
	for line, isEmpty := range map[string]bool{"10.0.0.1": true, " ::1\t# x": true, "10.0.0.1 a": false, "10.0.0.11": false} {
		if regexp.MustCompile(then).MatchString(line) != isEmpty {
			t.Errorf("%s matches %q, which is %t", then, line, !isEmpty)
		}
	}
}

// Only an expression of whole lines is replaced before the line is added where it is missing.
func TestExpressionsOfWholeLines(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"^a$": true, "^a.*": true, "^#? *Port .*$": true, "^(a|b)$": true, "^a.*?": false, "a.*": false, "^a": false, "^a$|b": false,
		"^a.+": false, "(?s)^a.*": false, "^": false, "": false, "^a(": false,
	} {
		if isLine(pattern) != want {
			t.Errorf("%q: %t", pattern, !want)
		}
	}
}

// A directory is copied without the files that Salt leaves out, and another selection of it has another folder.
func TestPartsOfADirectory(t *testing.T) {
	t.Parallel()
	roots := fstest.MapFS{"d/a": {Data: []byte("a\n")}, "d/s/b.pyc": {Data: []byte("b\n")}, "d/.git/c": {Data: []byte("c\n")}}
	h := low(t, `[
		{"__sls__": "s", "__id__": "x", "name": "/srv/x", "state": "file", "fun": "recurse", "source": "salt://d", "exclude_pat": ["*.pyc", "E@^\\.git/"]},
		{"__sls__": "s", "__id__": "y", "name": "/srv/y", "state": "file", "fun": "recurse", "source": "salt://d", "include_pat": "*.pyc", "file_mode": "keep"},
		{"__sls__": "s", "__id__": "w", "name": "/srv/w", "state": "file", "fun": "recurse", "source": "salt://d", "exclude_pat": "a"},
		{"__sls__": "s", "__id__": "z", "name": "/srv/z", "state": "file", "fun": "recurse", "source": "salt://d", "exclude_pat": "a", "clean": true}]`)
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{roots}})
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]string{} // the files of each folder
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if folder, file, ok := strings.Cut(name, "/d/"); ok {
			parts[folder] = append(parts[folder], file)
		}
	}
	var all []string
	for folder, files := range parts {
		all = append(all, strings.Join(files, " "))
		if !strings.HasPrefix(folder, "files/converted/part-") {
			t.Errorf("a part is in %s", folder)
		}
	}
	slices.Sort(all)
	if want := []string{".git/c s/b.pyc", "a", "s/b.pyc"}; !slices.Equal(all, want) {
		t.Errorf("the parts have %q, want %q", all, want)
	}
	const refused = "argument exclude_pat: with clean, which would remove what it names on the host: file.managed for each file, without clean"
	if reasonsOf(r.Refused) != refused {
		t.Errorf("refused: %v", r.Refused)
	}
}

// A variable of a crontab is in the jobs of its user, and a crontab without jobs has nobody to give it to.
func TestVariablesOfACrontab(t *testing.T) {
	t.Parallel()
	r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[
		{"__sls__": "s", "__id__": "v", "name": "MAILTO", "state": "cron", "fun": "env_present", "value": "ops@e.org"},
		{"__sls__": "s", "__id__": "w", "name": "A", "state": "cron", "fun": "env_present", "user": "app", "value": 1},
		{"__sls__": "s", "__id__": "x", "name": "B", "state": "cron", "fun": "env_present", "user": "bob", "value": 1},
		{"__sls__": "s", "__id__": "job", "name": "/bin/job", "state": "cron", "fun": "present", "user": "root"},
		{"__sls__": "s", "__id__": "other", "name": "/bin/other", "state": "cron", "fun": "present", "user": "app"}]`)}})
	if err != nil || reasonsOf(r.Refused) != "a variable of a crontab without jobs of Salt: give it as env of cron.present" {
		t.Fatal(err, r.Refused)
	}
	text := string(r.Files["settings/s.yaml"])
	for _, want := range []string{
		"      command: /bin/job\n      cron: '* * * * *'\n      env:\n        MAILTO: ops@e.org\n",
		"      command: /bin/other\n      user: app\n      cron: '* * * * *'\n      env:\n        A: \"1\"\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}
