//go:build linux

package file

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// hostsFile has the addresses of names, as hosts(5) says.
const hostsFile = "/etc/hosts"

// Host plans host.present: one line has the address and the names, and no other address of its family has them.
func Host(w *host.World, a *state.HostPresent) ([]host.Step, error) {
	addr, err := netip.ParseAddr(a.IP)
	if err != nil {
		return nil, err
	}
	names := state.Packages{Name: a.Name, Names: a.Names}.All()
	return edit(w, wanted{path: hostsFile, diff: true}, func(lines []string) ([]string, error) {
		return withHost(lines, addr, names), nil
	})
}

// withHost returns the lines of /etc/hosts with names that have an address.
func withHost(lines []string, addr netip.Addr, names []string) []string {
	var out []string
	missing := slices.Clone(names)
	last := -1 // index in out of the last line with the address
	for _, line := range lines {
		found, has, comment := parseHost(line)
		if !found.IsValid() || found.Is4() != addr.Is4() {
			out = append(out, line)
			continue
		}
		if found == addr {
			last = len(out)
			missing = slices.DeleteFunc(missing, func(name string) bool { return containsName(has, name) })
			out = append(out, line)
			continue
		}

		kept := slices.DeleteFunc(slices.Clone(has), func(name string) bool { return containsName(names, name) })
		if len(kept) == len(has) {
			out = append(out, line)
		} else if len(kept) > 0 {
			out = append(out, hostLine(found, kept, comment))
		}
	}

	switch {
	case len(missing) == 0:
		return out
	case last < 0:
		return append(ended(out), hostLine(addr, names, ""))
	}
	_, has, comment := parseHost(out[last])
	out[last] = hostLine(addr, slices.Concat(has, missing), comment)
	return out
}

// parseHost returns the address, the names and the comment of a line of /etc/hosts. If the line has no
// address, it is not valid.
func parseHost(line string) (addr netip.Addr, names []string, comment string) {
	text, comment, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "#")
	words := strings.Fields(text)
	if len(words) < 2 {
		return netip.Addr{}, nil, ""
	}
	addr, err := netip.ParseAddr(words[0])
	if err != nil {
		return netip.Addr{}, nil, ""
	}
	return addr, words[1:], comment
}

func hostLine(addr netip.Addr, names []string, comment string) string {
	line := addr.String() + "\t" + strings.Join(names, " ")
	if comment != "" {
		line += " #" + comment
	}
	return line + "\n"
}

// containsName reports whether names has a name, in any case.
func containsName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
