package facts

import (
	"os"
	"strings"
)

// names are the names of the host.
type names struct{ host, fqdn, domain string }

func readNames() names {
	name, err := os.Hostname()
	if err != nil {
		return names{}
	}
	hosts, _ := os.ReadFile("/etc/hosts")
	return namesOf(name, string(hosts))
}

// namesOf returns the names of a host. The full name is the first name of the first line of hosts, the text of
// /etc/hosts, that has the host's name.
func namesOf(name, hosts string) names {
	n := names{fqdn: name}
	n.host, _, _ = strings.Cut(name, ".")
	if name == n.host {
		n.fqdn = complete(name, hosts)
	}
	_, n.domain, _ = strings.Cut(n.fqdn, ".")
	return n
}

func complete(name, hosts string) string {
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		for _, f := range fields[1:] {
			if strings.EqualFold(f, name) && strings.HasPrefix(fields[1], name+".") {
				return fields[1]
			}
		}
	}
	return name
}
