package movein

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// A knownFile is a file of known_hosts, and the name of a host in it.
type knownFile struct {
	file string // as a shell reads it
	host string
}

// known reads which file has a host, and as which user the command runs.
func (c *conversion) known() (k knownFile, err error) {
	user, file, port := c.takeText("user"), c.takeText("config"), c.takeText("port")
	switch {
	case user == "" && file == "":
		file = "/etc/ssh/ssh_known_hosts"
	case user == "" && !path.IsAbs(file):
		return k, refuse("argument config: no absolute path, and no user")
	case user != "" && !accountName.MatchString(user):
		return k, refuse("argument user: not a name of a user")
	}
	k.file, k.host = shell.Quote(file), c.Name
	if user != "" {
		c.args["user"] = user
		if !path.IsAbs(file) {
			k.file = "~" + user + "/" + words(cmp.Or(file, ".ssh/known_hosts"))
		}
	}
	if port != "" && port != "22" {
		k.host = "[" + c.Name + "]:" + port
	}
	return k, nil
}

// find returns the command that prints the lines of the host.
func (k knownFile) find() string {
	return "ssh-keygen -F " + shell.Quote(k.host) + " -f " + k.file + " 2>/dev/null"
}

// knownHost has the key of a host in a file of known_hosts. As in Salt it is the one that is given, or the one that the
// host shows if it has the fingerprint that is given.
func knownHost(c *conversion) error {
	port := number(c.left["port"], "22")
	k, err := c.known()
	if err != nil {
		return err
	}
	given := c.takeTexts("key", "enc", "fingerprint", "fingerprint_hash_type")
	key, enc, fingerprint := given[0], given[1], given[2]
	hashes := c.takeBool("hash_known_hosts", true)
	test := k.find()
	fetch := "ssh-keyscan -T 5 -p " + words(port)
	if enc != "" {
		fetch += " -t " + words(strings.TrimPrefix(enc, "ssh-"))
	}
	fetch = "key=$(" + fetch + " " + words(c.Name) + " 2>/dev/null | grep -v '^#') && "
	switch hash := cmp.Or(given[3], "sha256"); {
	case key != "" && enc == "":
		return refuse("argument key: without enc, with which Salt fails")
	case key != "":
		test += " | grep -Fq -e " + shell.Quote(key)
		fetch = "key=" + shell.Quote(k.host+" "+cmp.Or(keyKinds[enc], enc)+" "+key)
	case fingerprint != "":
		if strings.Count(fingerprint, ":") == 15 {
			hash = "md5"
		}
		check := " | ssh-keygen -l -E " + words(hash) + " -f - 2>/dev/null | grep -Fq -e " + shell.Quote(fingerprint)
		test += check
		fetch += `printf '%s\n' "$key"` + check + " || { echo 'the host shows no such key'; exit 1; }"
	default:
		test += " | grep -q ."
		fetch += `test -n "$key" || { echo 'the host shows no key'; exit 1; }`
		c.note("the key of the host is taken from whoever answers: Salt does so too without fingerprint or key")
	}
	lines := []string{fetch}
	if user, ok := c.args["user"].(string); ok {
		lines = append(lines, "mkdir -p -m 700 ~"+user+"/.ssh")
	}
	lines = append(lines,
		"ssh-keygen -R "+shell.Quote(k.host)+" -f "+k.file+" >/dev/null 2>&1",
		`printf '%s\n' "$key" >> `+k.file,
	)
	if hashes {
		lines = append(lines, "ssh-keygen -H -f "+k.file+" >/dev/null 2>&1")
	}
	c.args["command"] = strings.Join(lines, "\n")
	c.fields["unless"] = append(guardsOf(c.fields, "unless"), test)
	return nil
}

// unknownHost removes the keys of a host from a file of known_hosts.
func unknownHost(c *conversion) error {
	k, err := c.known()
	if err != nil {
		return err
	}
	c.args["command"] = "ssh-keygen -R " + shell.Quote(k.host) + " -f " + k.file
	c.needs(k.find() + " | grep -q .")
	return nil
}

// accountName matches the name of a user. A shell reads nothing else in it.
var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*$`)
