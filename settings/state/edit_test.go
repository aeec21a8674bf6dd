package state

import (
	"strings"
	"testing"
)

func TestKeysOfLines(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	for line, want := range map[string]string{
		key:                                      key,
		key + " ada@example":                     key,
		"  " + key:                               key,
		"no-pty " + key + " x":                   key,
		`command="echo \"a b\" c",no-pty ` + key: key,
		"ssh-rsa " + strings.Fields(key)[1]:      "", // another type than that of the key
		"ssh-ed25519":                            "",
		"ssh-ed25519 AAAA":                       "",
		"":                                       "",
		strings.Fields(key)[1]:                   "",
		"a b " + key:                             "",
		"# " + key:                               "",
		" #" + key:                               "",
		"ssh-ed25519 " + strings.Repeat("/", 8) + "//": "",
	} {
		if got, ok := SSHKey(line); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", line, got, ok, want)
		}
	}
}

func FuzzSSHKey(f *testing.F) {
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ada")
	f.Add(`from="a b" ssh-rsa AAAA////`)
	f.Fuzz(func(t *testing.T, line string) {
		key, ok := SSHKey(line)
		if !ok {
			return
		}
		if again, ok := SSHKey(key); !ok || again != key {
			t.Errorf("the key of %q is %q, and of that %q", line, key, again)
		}
	})
}

func TestMoreStatesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"/a/b: {file.replace: {repl: x}}", "file.replace: pattern is missing: give the regular expression of what is replaced"},
		{"/a/b: {file.replace: {pattern: x}}", "file.replace: repl is missing: give what replaces the matches; '' removes them"},
		{"/a/b: {file.replace: {pattern: '(', repl: x}}", "file.replace.pattern: error parsing regexp: missing closing )"},
		{`/a/b: {file.replace: {pattern: '(a)', repl: '\1'}}`, `file.replace.repl: write a group of the pattern as ${1}, not as \1`},
		{"ada: {ssh_auth.present: {}}", "ssh_auth.present: keys is missing: give the lines of authorized_keys"},
		{"ada: {ssh_auth.present: {keys: [AAAA]}}", `ssh_auth.present.keys: "AAAA" has no public key; write it as in authorized_keys: ssh-ed25519 AAAA… ada`},
		{"db: {host.present: {}}", "host.present: ip is missing: give the address of the host"},
		{"db: {host.present: {ip: 10.0.0}}", `host.present.ip: "10.0.0" is not an address such as 10.0.0.1 or 2001:db8::1`},
		{"a/b: {host.present: {ip: 10.0.0.1}}", `host.present.name: "a/b" is not a name of a host`},
		{
			"a: {host.present: {name: db, ip: 10.0.0.1}}\nb: {host.present: {name: DB, ip: 10.0.0.2}}",
			"states.b: the IPv4 address of db belongs to the state a already (f.yaml:1:1)",
		},
	} {
		_, err := Parse(node(t, c.text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want\n%s", c.text, err, c.want)
		}
	}
	both := "a: {host.present: {name: db, ip: 10.0.0.1}}\nb: {host.present: {name: db, ip: '::1'}}"
	if _, err := Parse(node(t, both), Options{}); err != nil {
		t.Error(err)
	}
}
