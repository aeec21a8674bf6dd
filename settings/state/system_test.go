package state

import (
	"slices"
	"strings"
	"testing"
)

func TestNamesOfKernelParameters(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.ip_forward":              "net/ipv4/ip_forward",
		"net/ipv4/ip_forward":              "net/ipv4/ip_forward",
		"net.ipv4.conf.eth0/100.rp_filter": "net/ipv4/conf/eth0.100/rp_filter",
		"net/ipv4/conf/eth0.100/rp_filter": "net/ipv4/conf/eth0.100/rp_filter",
	} {
		if got := (&SysctlPresent{Name: name}).Parameter(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestAnswersOfDebconf(t *testing.T) {
	a := &DebconfSet{Content: "# mail\npostfix/main_mailer_type select No configuration\n\n  a/b  string \n"}
	got, ok := a.Answers()
	want := []DebconfAnswer{{"postfix/main_mailer_type", "select", "No configuration"}, {"a/b", "string", ""}}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, ok)
	}
}

func FuzzDebconfAnswers(f *testing.F) {
	f.Add("a/b string x\n# y\n")
	f.Fuzz(func(t *testing.T, content string) {
		answers, ok := (&DebconfSet{Content: content}).Answers()
		for _, a := range answers {
			if !ok || strings.ContainsAny(a.Question+a.Type, " \n") || strings.Contains(a.Value, "\n") {
				t.Errorf("%q: %q", content, a)
			}
		}
	})
}

func TestStatesOfTheSystemThatAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a.b: {sysctl.present: {}}", "sysctl.present: value is missing: give the value of the parameter"},
		{"a.b: {sysctl.present: {value: \"1\\n2\"}}", "sysctl.present.value: must be one line of at most 4000 bytes"},
		{"a: {sysctl.present: {value: '1'}}", `sysctl.present.name: "a" is not a name of a kernel parameter, such as net.ipv4.ip_forward`},
		{"x: {sysctl.present: {name: a.b/../c, value: '1'}}", `sysctl.present.name: "a.b/../c" is not a name of a kernel parameter`},
		{"x: {timezone.system: {name: ../../etc/passwd}}", `timezone.system.name: "../../etc/passwd" is not a name of a zone, such as Europe/Berlin`},
		{"/: {mount.mounted: {device: a, fstype: b}}", "mount.mounted.name: / is mounted by the boot of the host"},
		{"/a: {mount.mounted: {fstype: b}}", "mount.mounted: device is missing: give what is mounted"},
		{"/a: {mount.mounted: {device: b}}", "mount.mounted: fstype is missing: give the type of the file system"},
		{"/a: {mount.mounted: {device: a b, fstype: b}}", "mount.mounted: the directory, the device, the type and the options have no blanks and no backslash"},
		{"/a: {mount.mounted: {device: -a, fstype: b}}", "mount.mounted.device: a device and a type do not begin with -"},
		{"/a: {mount.mounted: {device: a, fstype: b, opts: ['a,b']}}", "mount.mounted.opts: each element is one option"},
		{"/a: {git.latest: {url: x}}", `git.latest.path: "/a" is too near the root to be removed or cleaned`},
		{"/a/b: {git.latest: {}}", "git.latest: url is missing: give the address of the repository"},
		{"/a/b: {git.latest: {url: '--upload-pack=x'}}", `git.latest.url: "--upload-pack=x" is not an address that git clones`},
		{"/a/b: {git.latest: {url: 'ext::sh -c x'}}", `git.latest.url: "ext::sh -c x" is not an address that git clones`},
		{"/a/b: {git.latest: {url: 'https://x/y', rev: -x}}", `git.latest.rev: "-x" is not a branch, tag or commit`},
		{"a: {debconf.set: {}}", "debconf.set: content is missing: give the answers"},
		{"a: {debconf.set: {content: x}}", "debconf.set.content: a line is no answer: write the question, its type and its value"},
	} {
		_, err := Parse(node(t, c.text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want\n%s", c.text, err, c.want)
		}
	}
}
