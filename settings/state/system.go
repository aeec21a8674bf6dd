package state

import (
	"path"
	"slices"
	"strings"
)

// SysctlFile has the kernel parameters of states, which the host sets at boot.
const SysctlFile = "/etc/sysctl.d/99-zester.conf"

// SysctlPresent holds the arguments of sysctl.present.
type SysctlPresent struct {
	Name  string `yaml:"name" doc:"name of the kernel parameter, such as net.ipv4.ip_forward"`
	Value string `yaml:"value" doc:"its value, in quotes if it is a number"`
}

// sysctlName matches a name of a kernel parameter.
var sysctlName = newShape(`^[A-Za-z0-9_-]+([./][A-Za-z0-9_@:*-]+)+$`, anyLength)

func (a *SysctlPresent) setMain(name string) { setDefault(&a.Name, name) }

func (a *SysctlPresent) owns() []resource {
	return []resource{{"path", SysctlFile, true}, {"kernel parameter", a.Parameter(), false}}
}

// Parameter returns the name of the parameter as a path below /proc/sys. As sysctl.d(5) says, if the first separator of
// a name is a dot, dots stand for slashes and slashes for dots.
func (a *SysctlPresent) Parameter() string {
	if i := strings.IndexAny(a.Name, "./"); i < 0 || a.Name[i] == '/' {
		return a.Name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(a.Name)
}

func (a *SysctlPresent) check(complete bool) []problem {
	c := checks{complete: complete}
	if p := a.Parameter(); a.Name != "" && (!sysctlName.MatchString(a.Name) || path.Clean("/"+p) != "/"+p) {
		c.add("name", "%q is not a name of a kernel parameter, such as net.ipv4.ip_forward", a.Name)
	}
	switch {
	case strings.TrimSpace(a.Value) == "":
		c.missing("value", "give the value of the parameter")
	case strings.ContainsAny(a.Value, "\r\n\x00") || len(a.Value) > 4000:
		c.add("value", "must be one line of at most 4000 bytes")
	}
	return c.problems
}

// TimezoneSystem holds the arguments of timezone.system.
type TimezoneSystem struct {
	Name string `yaml:"name" doc:"name of the zone, such as Europe/Berlin"`
}

// zoneName matches an IANA name.
var zoneName = newShape(`^[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$`, 98)

func (a *TimezoneSystem) setMain(name string) { setDefault(&a.Name, name) }

func (a *TimezoneSystem) owns() []resource {
	return []resource{{"path", "/etc/localtime", false}, {"path", "/etc/timezone", false}}
}

func (a *TimezoneSystem) check(complete bool) []problem {
	c := checks{complete: complete}
	if a.Name != "" && !zoneName.MatchString(a.Name) {
		c.add("name", "%q is not a name of a zone, such as Europe/Berlin", a.Name)
	}
	return c.problems
}

// MountMounted holds the arguments of mount.mounted.
type MountMounted struct {
	Name    string   `yaml:"name" doc:"directory where it is mounted"`
	Device  string   `yaml:"device" doc:"what is mounted: a device, UUID=…, HOST:/path or a file system such as tmpfs"`
	FSType  string   `yaml:"fstype" doc:"type of the file system, such as ext4"`
	Opts    []string `yaml:"opts" doc:"options; default: defaults"`
	Dump    *uint32  `yaml:"dump" doc:"fifth field of /etc/fstab; default: 0"`
	Pass    *uint32  `yaml:"pass" doc:"sixth field of /etc/fstab; default: 0"`
	Persist *bool    `yaml:"persist" doc:"false: no line in /etc/fstab"`
	MakeDir bool     `yaml:"makedir" doc:"make the directory if it is missing"`
}

func (a *MountMounted) setMain(name string) { setDefault(&a.Name, name) }

func (a *MountMounted) owns() []resource {
	return []resource{{"path", "/etc/fstab", true}, {"mount at", a.Name, false}}
}

func (a *MountMounted) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("name", a.Name)
	if a.Name == "/" {
		c.add("name", "/ is mounted by the boot of the host")
	}
	if a.Device == "" {
		c.missing("device", "give what is mounted")
	}
	if a.FSType == "" {
		c.missing("fstype", "give the type of the file system")
	}
	words := append([]string{a.Name, a.Device, a.FSType}, a.Opts...)
	if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsAny(w, " \t\r\n\\\x00") }) {
		c.add("", "the directory, the device, the type and the options have no blanks and no backslash")
	}
	if strings.HasPrefix(a.Device, "-") || strings.HasPrefix(a.FSType, "-") {
		c.add("device", "a device and a type do not begin with -")
	}
	if slices.ContainsFunc(a.Opts, func(o string) bool { return o == "" || strings.Contains(o, ",") }) {
		c.add("opts", "each element is one option")
	}
	return c.problems
}

// DebconfSet holds the arguments of debconf.set.
type DebconfSet struct {
	Name    string `yaml:"name" doc:"package that asks the questions"`
	Content string `yaml:"content" doc:"one answer a line: question, type and value"`
}

// A DebconfAnswer is the value of a question of a package.
type DebconfAnswer struct{ Question, Type, Value string }

// Answers returns the answers; ok is false if a line is none.
func (a *DebconfSet) Answers() (all []DebconfAnswer, ok bool) {
	for line := range strings.Lines(a.Content) {
		text := strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		question, rest, _ := strings.Cut(strings.TrimLeft(text, " \t"), " ")
		kind, value, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
		if !debconfQuestion.MatchString(question) || !slices.Contains(debconfTypes, kind) {
			return nil, false
		}
		all = append(all, DebconfAnswer{question, kind, strings.TrimSpace(value)})
	}
	return all, true
}

var debconfQuestion = newShape(`^[A-Za-z0-9][A-Za-z0-9+.:_-]*(/[A-Za-z0-9+.:_-]+)+$`, anyLength)

// debconfTypes are those of debconf-devel(7) that have answers.
var debconfTypes = []string{"boolean", "multiselect", "note", "password", "select", "string", "text", "error", "title"}

func (a *DebconfSet) setMain(name string) { setDefault(&a.Name, name) }

func (a *DebconfSet) owns() (all []resource) {
	answers, _ := a.Answers()
	for _, answer := range answers {
		all = append(all, resource{"answer to", answer.Question, false})
	}
	return all
}

func (a *DebconfSet) check(complete bool) []problem {
	c := checks{complete: complete}
	if a.Name != "" && !packageName.MatchString(a.Name) {
		c.add("name", "%q is not a name of a package", a.Name)
	}
	c.text("content", a.Content)
	answers, ok := a.Answers()
	if len(answers) == 0 && ok {
		c.missing("content", "give the answers")
	}
	if !ok {
		c.add("content", "a line is no answer: write the question, its type and its value, such as "+
			"postfix/main_mailer_type select No configuration")
	}
	return c.problems
}
