package state

import (
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"regexp"
	"strings"
)

// Limits of file.replace.
const (
	maxPattern = 1000 // bytes of a regular expression
	maxRepl    = 4096 // bytes of what replaces a match
)

// FileReplace holds the arguments of file.replace.
type FileReplace struct {
	Path    string  `yaml:"path" doc:"path of the file"`
	Pattern string  `yaml:"pattern" doc:"regular expression of the parts that are replaced; ^ and $ match at lines"`
	Repl    *string `yaml:"repl" doc:"what replaces each part; ${1} stands for the first group of the pattern"`
	Follow  bool    `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
}

func (a *FileReplace) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileReplace) owns() []resource    { return []resource{{"path", a.Path, true}} }

// Expression returns the pattern with ^ and $ for lines.
func (a *FileReplace) Expression() (*regexp.Regexp, error) { return regexp.Compile("(?m)" + a.Pattern) }

func (a *FileReplace) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	if a.Pattern == "" {
		c.missing("pattern", "give the regular expression of what is replaced")
	}
	if a.Repl == nil {
		c.missing("repl", "give what replaces the matches; '' removes them")
	}
	if len(a.Pattern) > maxPattern || a.Repl != nil && len(*a.Repl) > maxRepl {
		c.add("pattern", "a pattern has at most %d bytes, and repl at most %d", maxPattern, maxRepl)
	}
	if _, err := a.Expression(); err != nil {
		c.add("pattern", "%v", err)
	}
	if a.Repl != nil && pythonGroup.MatchString(*a.Repl) {
		c.add("repl", `write a group of the pattern as ${1}, not as \1`)
	}
	return c.problems
}

// pythonGroup matches a group in a replacement as Python, sed and Salt write it.
var pythonGroup = newShape(`\\[0-9]|\\g<`, anyLength)

// SSHAuthPresent holds the arguments of ssh_auth.present.
type SSHAuthPresent struct {
	User string   `yaml:"user" doc:"user who can log in with the keys"`
	Keys []string `yaml:"keys" doc:"lines of authorized_keys: options, type, key and comment"`
	File string   `yaml:"file" doc:"path of the file; default: .ssh/authorized_keys in the home of the user"`
}

func (a *SSHAuthPresent) setMain(name string) { setDefault(&a.User, name) }
func (a *SSHAuthPresent) owns() []resource    { return ownsKeys(a.User, a.Keys) }
func (a *SSHAuthPresent) check(complete bool) []problem {
	return checkKeys(complete, a.User, a.Keys, a.File)
}

// SSHAuthAbsent holds the arguments of ssh_auth.absent.
type SSHAuthAbsent struct {
	User string   `yaml:"user" doc:"user who cannot log in with the keys"`
	Keys []string `yaml:"keys" doc:"lines of authorized_keys; options and comment need not be the same"`
	File string   `yaml:"file" doc:"path of the file; default: .ssh/authorized_keys in the home of the user"`
}

func (a *SSHAuthAbsent) setMain(name string) { setDefault(&a.User, name) }
func (a *SSHAuthAbsent) owns() []resource    { return ownsKeys(a.User, a.Keys) }
func (a *SSHAuthAbsent) check(complete bool) []problem {
	return checkKeys(complete, a.User, a.Keys, a.File)
}

func ownsKeys(user string, keys []string) (all []resource) {
	for _, line := range keys {
		if key, ok := SSHKey(line); ok {
			all = append(all, resource{"SSH key of the user " + user, key, false})
		}
	}
	return all
}

func checkKeys(complete bool, user string, keys []string, file string) []problem {
	c := checks{complete: complete}
	c.name("user", user)
	c.path("file", file)
	if len(keys) == 0 {
		c.missing("keys", "give the lines of authorized_keys")
	}
	for _, line := range keys {
		if _, ok := SSHKey(line); !ok || strings.ContainsAny(line, "\r\n\x00") {
			c.add("keys", "%.100q has no public key; write it as in authorized_keys: ssh-ed25519 AAAA… ada", line)
		}
	}
	return c.problems
}

// SSHKey returns the type and the key of a line of authorized_keys without its options and comment, as sshd(8)
// reads it. ok is false for a line without a key.
func SSHKey(line string) (key string, ok bool) {
	if strings.HasPrefix(strings.TrimSpace(line), "#") { // a comment
		return "", false
	}
	words := sshWords(line)
	for i := 0; i+1 < len(words) && i < 2; i++ { // options are one word before the type
		data, err := base64.StdEncoding.DecodeString(words[i+1])
		if err != nil || len(data) < 4 {
			continue
		}
		n := binary.BigEndian.Uint32(data)
		if uint64(n) <= uint64(len(data)-4) && string(data[4:4+n]) == words[i] { // a key begins with its type
			return words[i] + " " + words[i+1], true
		}
	}
	return "", false
}

// sshWords returns the words of a line. A blank between quotation marks ends no word.
func sshWords(line string) []string {
	quoted := false
	before := rune(0)
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' && before != '\\' {
			quoted = !quoted
		}
		before = r
		return !quoted && (r == ' ' || r == '\t')
	})
}

// HostPresent holds the arguments of host.present.
type HostPresent struct {
	Name  string   `yaml:"name" doc:"name of the host"`
	Names []string `yaml:"names" doc:"several names of the host, instead of name"`
	IP    string   `yaml:"ip" doc:"its address; others of the same family in /etc/hosts lose the names"`
}

// hostName matches a name in /etc/hosts.
var hostName = newShape(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`, 254)

func (a *HostPresent) setMain(name string) { setMainPackage(&a.Name, a.Names, name) }

func (a *HostPresent) owns() []resource {
	all := []resource{{"path", "/etc/hosts", true}}
	family := "IPv6"
	if addr, err := netip.ParseAddr(a.IP); err == nil && addr.Is4() {
		family = "IPv4"
	}
	for _, name := range (Packages{a.Name, a.Names}).All() {
		all = append(all, resource{family + " address of", strings.ToLower(name), false})
	}
	return all
}

func (a *HostPresent) check(complete bool) []problem {
	c := checks{complete: complete}
	for _, name := range (Packages{a.Name, a.Names}).All() {
		if name != "" && !hostName.MatchString(name) {
			c.add("name", "%q is not a name of a host", name)
		}
	}
	if a.Names != nil && len(a.Names) == 0 {
		c.add("names", "the list is empty")
	}
	if a.IP == "" {
		c.missing("ip", "give the address of the host")
	} else if addr, err := netip.ParseAddr(a.IP); err != nil || addr.Zone() != "" {
		c.add("ip", "%q is not an address such as 10.0.0.1 or 2001:db8::1", a.IP)
	}
	return c.problems
}

// FileBlock holds the arguments of file.block.
type FileBlock struct {
	Path    string  `yaml:"path" doc:"path of the file"`
	Content *string `yaml:"content" doc:"text between the two lines with the marker"`
	Marker  string  `yaml:"marker" doc:"text in the lines around the block"`
	Prefix  string  `yaml:"prefix" doc:"what begins a comment in the file; default: #"`
	Suffix  string  `yaml:"suffix" doc:"what ends a comment in the file, such as -->"`
	Begin   string  `yaml:"begin" doc:"the whole line before the block, instead of marker; with end"`
	End     string  `yaml:"end" doc:"the whole line after the block"`
	Mode    string  `yaml:"mode" doc:"octal digits in quotes; default: left as it is, 0644 on a new file, and never readable for others if the content is secret"`
	Absent  bool    `yaml:"absent" doc:"remove the block"`

	Check  []string `yaml:"check" doc:"program and arguments that check the new file; {} stands for it"`
	Follow bool     `yaml:"follow" doc:"go through symbolic links and directories of other users on the way, where they lead to what these users may write themselves"`
}

func (a *FileBlock) setMain(name string) { setDefault(&a.Path, name) }
func (a *FileBlock) owns() []resource    { return []resource{{"path", a.Path, true}} }
func (a *FileBlock) check(complete bool) []problem {
	c := checks{complete: complete}
	c.path("path", a.Path)
	if a.Content == nil && !a.Absent {
		c.missing("content", "give the content of the block, or absent: true")
	}
	c.mode("mode", a.Mode)
	if strings.ContainsAny(a.Marker+a.Prefix+a.Suffix+a.Begin+a.End, "\r\n") {
		c.add("marker", "must be one line, with prefix and suffix; begin and end are one line each")
	}
	if (a.Begin != "" || a.End != "") && (a.Marker+a.Prefix+a.Suffix != "" || a.Begin == a.End) {
		c.add("begin", "give begin and end, two lines that differ, instead of marker, prefix and suffix")
	} else if (a.Begin == "") != (a.End == "") {
		c.missing("end", "give begin and end, or neither")
	}
	c.check(a.Check)
	if a.Content == nil {
		return c.problems
	}

	begin, end := a.Around()
	for line := range strings.Lines(*a.Content) {
		if line = strings.TrimRight(line, "\r\n"); line == begin || line == end {
			c.add("content", "cannot have the line %q, which is around the block; set another marker", line)
			break
		}
	}
	return c.problems
}

// Around returns the lines before and after the content.
func (a *FileBlock) Around() (begin, end string) {
	if a.Begin != "" {
		return a.Begin, a.End
	}
	marker := a.Marker
	if marker == "" {
		marker = "zester " + a.Path
	}
	prefix := a.Prefix
	if prefix == "" {
		prefix = "#"
	}
	suffix := a.Suffix
	if suffix != "" {
		suffix = " " + suffix
	}
	return prefix + " BEGIN " + marker + suffix, prefix + " END " + marker + suffix
}
