// Package facts collects what a peel knows of its host: the values that targets such as G@os:debian select by.
//
// Facts come from files, system calls and the interfaces' own addresses; nothing asks the network or runs a program,
// so that a peel with a broken resolver starts like any other. A fact that cannot be learned is absent. What can
// change while the host runs and says nothing about its kind, such as free memory or the load, is no fact: a changed
// fact makes the reconciler look at the peel anew.
//
//	os              distribution ID of os-release: "debian", "ubuntu", "rocky"; elsewhere the kernel's name
//	os_family       "debian", "redhat", "suse", "arch", "alpine", …: the distribution that os is derived from, else os
//	os_version      "12", "24.04"; absent for rolling distributions
//	kernel          "linux"
//	kernel_release  "6.1.0-18-amd64"
//	arch            "amd64", "arm64": Go's names
//	cpus            logical processors
//	mem_mb          memory in MiB
//	hostname        first label of the host's name
//	fqdn            the host's name as /etc/hosts completes it, else as it is
//	domain          fqdn after its first dot; absent if there is none
//	ipv4, ipv6      addresses, sorted, loopback and link-local ones excepted
//	virtual         hypervisor or container engine as gopsutil names it: "kvm", "docker"; "physical" for none
//	machine_id      /etc/machine-id, which survives a change of the name
//	zester_version  of the peel's program, as "zester version" prints it: "v1.2.0"; "(devel)" if it has none
package facts

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Collect returns the facts of the host, and over them those given, which win by name; one that is null takes the
// host's away. Values are in the shape that package canon decodes. The error is ctx's.
func Collect(ctx context.Context, static target.Facts) (target.Facts, error) {
	f := target.Facts{
		"kernel": runtime.GOOS,
		"arch":   runtime.GOARCH,
		"cpus":   int64(runtime.NumCPU()),
	}
	set := func(name, value string) {
		if value != "" {
			f[name] = value
		}
	}
	o := readRelease()
	set("os", o.id)
	set("os_family", o.family)
	set("os_version", o.version)
	n := readNames()
	set("hostname", n.host)
	set("fqdn", n.fqdn)
	set("domain", n.domain)
	release, _ := host.KernelVersionWithContext(ctx)
	set("kernel_release", release)
	set("virtual", virtual(ctx))
	set("machine_id", firstLine("/etc/machine-id"))
	if info, ok := debug.ReadBuildInfo(); ok {
		set("zester_version", info.Main.Version)
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		f["mem_mb"] = int64(m.Total >> 20)
	}
	f["ipv4"], f["ipv6"] = addresses()
	maps.Copy(f, static)
	maps.DeleteFunc(f, func(_ string, v any) bool { return v == nil })
	return f, ctx.Err()
}

func virtual(ctx context.Context) string {
	system, role, err := host.VirtualizationWithContext(ctx)
	switch {
	case err != nil:
		return ""
	case role != "guest" || system == "":
		return "physical"
	}
	return system
}

// addresses returns lists of any, as decoded ones are.
func addresses() (ipv4, ipv6 []any) {
	ipv4, ipv6 = []any{}, []any{}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ipv4, ipv6
	}
	var sorted []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			sorted = append(sorted, p.Addr().Unmap())
		}
	}
	slices.SortFunc(sorted, netip.Addr.Compare)
	for _, a := range slices.Compact(sorted) {
		if a.Is4() {
			ipv4 = append(ipv4, a.String())
		} else {
			ipv6 = append(ipv6, a.String())
		}
	}
	return ipv4, ipv6
}

func firstLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}
