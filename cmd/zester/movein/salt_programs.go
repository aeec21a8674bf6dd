package movein

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/shell"
)

// words returns arguments as a shell reads them.
func words(argv ...string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = shell.Word(arg)
	}
	return strings.Join(quoted, " ")
}

// held keeps packages in their version.
func held(c *conversion) error {
	all, err := c.packagesOf()
	if err != nil {
		return err
	}
	tests := make([]string, len(all))
	for i, name := range all {
		tests[i] = "apt-mark showhold | grep -Fqx " + words(name)
	}
	return c.runs(strings.Join(tests, " && "), slices.Concat([]string{"apt-mark", "hold"}, all)...)
}

// npm installs packages of Node.js.
func npm(c *conversion) error {
	all, err := c.packagesOf()
	if err != nil {
		return err
	}
	dir := c.takeText("dir")
	base := []string{"npm", "install"}
	test := []string{"npm", "ls"}
	if dir != "" {
		c.args["cwd"] = dir
		test = append(test, "--prefix", dir)
	} else {
		base, test = append(base, "-g"), append(test, "-g")
	}
	return c.runs(words(slices.Concat(test, all)...), slices.Concat(base, all)...)
}

// gem installs a package of Ruby.
func gem(c *conversion) error {
	version := c.takeText("version")
	argv, test := []string{"gem", "install", "--no-document", c.Name}, []string{"gem", "list", "-i", "^" + c.Name + "$"}
	if version != "" {
		argv, test = append(argv, "-v", version), append(test, "-v", version)
	}
	return c.runs(words(test...), argv...)
}

// kernelModules loads modules.
func kernelModules(c *conversion) error {
	persists := c.takeBool("persist", false)
	names := []string{c.Name}
	if value, ok := c.take("mods"); ok {
		if names, ok = texts(value); !ok || len(names) == 0 {
			return refuse("argument mods: a value of another form")
		}
	}
	file := "/etc/modules-load.d/salt_managed.conf"
	if c.host.Grains != nil && c.host.Grains["systemd"] == nil {
		file = "/etc/modules"
	}
	var tests, loads []string
	for _, name := range names {
		loaded := "test -d " + words("/sys/module/"+strings.ReplaceAll(name, "-", "_"))
		if persists {
			listed := "grep -Fqsx " + words(name) + " " + file
			loaded += " && " + listed
			loads = append(loads, "{ "+listed+" || echo "+words(name)+" >> "+file+"; }")
		}
		tests = append(tests, loaded)
	}
	argv := append([]string{"modprobe"}, names...)
	if len(names) > 1 {
		argv = append([]string{"modprobe", "-a"}, names...)
	}
	if persists {
		argv = []string{"/bin/sh", "-c", words(argv...) + " && " + strings.Join(loads, " && ")}
	}
	return c.runs(strings.Join(tests, " && "), argv...)
}

// boolean sets a boolean of SELinux.
func boolean(c *conversion) error {
	given := c.takeTexts("value")
	persists := c.takeBool("persist", false)
	value, known := map[string]string{
		"True": "on", "1": "on", "on": "on", "true": "on", "False": "off", "0": "off", "off": "off", "false": "off",
	}[given[0]]
	if !known {
		return refuse("argument value: %q is not on or off", given[0])
	}
	if persists { // Salt sets it if its value now or its value after a boot is another
		both := "^" + c.Name + " +\\(" + value + " *, *" + value + "\\)"
		return c.runs("semanage boolean -l | grep -Eq "+words(both), "setsebool", "-P", c.Name, value)
	}
	return c.runs("getsebool "+words(c.Name)+" | grep -q -- '--> "+value+"$'", "setsebool", c.Name, value)
}

// alternative chooses or registers one of several programs of a name.
func alternative(c *conversion) error {
	given := c.takeTexts("path", "link", "priority")
	if c.Fun == "set" {
		return c.runs(`test "$(readlink `+words("/etc/alternatives/"+c.Name)+`)" = `+words(given[0]),
			"update-alternatives", "--set", c.Name, given[0])
	}
	return c.runs("update-alternatives --query "+words(c.Name)+" | grep -Fqx "+words("Alternative: "+given[0]),
		"update-alternatives", "--install", given[1], c.Name, given[0], given[2])
}

// ruleParts are what Salt names in a rule of iptables, in the order in which it writes them, with the arguments of
// iptables. A match is an extension that no other part names.
var ruleParts = []struct {
	salt string
	here []string
}{
	{"if", []string{"-i"}},
	{"in-interface", []string{"-i"}},
	{"of", []string{"-o"}},
	{"out-interface", []string{"-o"}},
	{"proto", []string{"-p"}},
	{"protocol", []string{"-p"}},
	{"match", nil},
	{"connstate", []string{"-m", "state", "--state"}},
	{"ctstate", []string{"-m", "conntrack", "--ctstate"}},
	{"comment", []string{"-m", "comment", "--comment"}},
	{"dports", []string{"-m", "multiport", "--dports"}},
	{"sports", []string{"-m", "multiport", "--sports"}},
	{"source", []string{"-s"}},
	{"destination", []string{"-d"}},
	{"sport", []string{"--sport"}},
	{"dport", []string{"--dport"}},
	{"icmp-type", []string{"--icmp-type"}},
	{"jump", []string{"-j"}},
	{"to-port", []string{"--to-port"}},
	{"to-ports", []string{"--to-ports"}},
	{"to-destination", []string{"--to-destination"}},
	{"to-source", []string{"--to-source"}},
	{"log-prefix", []string{"--log-prefix"}},
	{"log-level", []string{"--log-level"}},
	{"reject-with", []string{"--reject-with"}},
	{"set-mark", []string{"--set-mark"}},
}

// firewall adds a rule or a chain of iptables, or sets the policy of a chain.
func firewall(c *conversion) error {
	given := c.takeTexts("family", "table", "chain", "policy", "position")
	program, table, chain := "iptables", given[1], given[2]
	if given[0] == "ipv6" {
		program = "ip6tables"
	}
	if table == "" {
		table = "filter"
	}
	if saves, _ := c.take("save"); saves != false && saves != nil {
		c.note("argument save is left out: netfilter-persistent save keeps rules over a boot")
	}
	tool := []string{program, "-w", "-t", table}
	with := func(args ...string) []string { return slices.Concat(tool, args) }
	switch c.Fun {
	case "chain_present":
		return c.runs(words(with("-n", "-L", c.Name)...)+" >/dev/null", with("-N", c.Name)...)
	case "set_policy":
		return c.runs(words(with("-S", chain)...)+" | grep -Fqx -e "+words("-P "+chain+" "+given[3]),
			with("-P", chain, given[3])...)
	}
	rule, err := c.firewallRule()
	if err != nil {
		return err
	}
	adds := []string{"-A", chain}
	if c.Fun == "insert" {
		adds = []string{"-I", chain, given[4]}
		if given[4] == "" {
			adds = adds[:2]
		}
	}
	return c.runs(words(with(slices.Concat([]string{"-C", chain}, rule)...)...)+" 2>/dev/null",
		with(slices.Concat(adds, rule)...)...)
}

// firewallRule returns the arguments of iptables that say what a rule is about.
func (c *conversion) firewallRule() (rule []string, err error) {
	named := map[string]bool{}
	for _, part := range ruleParts {
		if c.left[part.salt] != nil && len(part.here) == 3 {
			named[part.here[1]] = true
		}
	}
	for _, part := range ruleParts {
		given, ok := c.take(part.salt)
		if !ok {
			continue
		}
		values, ok := texts(given)
		if !ok || slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "!") }) {
			return nil, refuse("argument %s: a value of another form", part.salt)
		}
		if part.here != nil {
			rule = append(append(rule, part.here...), strings.Join(values, ","))
			continue
		}
		for _, extension := range values {
			if !named[extension] {
				rule = append(rule, "-m", extension)
			}
		}
	}
	return rule, nil
}
