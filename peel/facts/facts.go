// Package facts collects facts about a host, by which targets such as G@os:debian select peels. Call [Collect].
//
// Facts come from files, system calls and the addresses of interfaces. Collect uses no network and runs no program, so
// a broken resolver does not delay a peel. A fact that cannot be collected is absent. Values that often change while
// the host runs, such as free memory or the load, are not facts, because each changed fact makes the reconciler select
// the settings of the peel again.
//
//	os              distribution ID of os-release: "debian", "ubuntu", "rocky"; elsewhere the kernel's name
//	os_family       "debian", "redhat", "suse", "arch", …: the distribution that os is derived from, else os
//	os_version      "12", "24.04"; absent for rolling distributions
//	kernel          "linux"
//	kernel_release  "6.1.0-18-amd64"
//	arch            "amd64", "arm64": Go's names
//	cpus            logical processors
//	mem_mb          memory in MiB
//	hostname        first label of the host's name
//	fqdn            the host's full name from /etc/hosts, else the host's name
//	domain          fqdn after its first dot; absent if there is none
//	ipv4, ipv6      addresses, sorted, without loopback and link-local ones
//	virtual         hypervisor or container engine as gopsutil names it: "kvm", "docker"; "physical" for none
//	machine_id      /etc/machine-id, which does not change with the host's name
//	zester_version  version of the peel's program, as "zester version" prints it: "0.2.0"; "(devel)" if it has none
//
// The peel adds zester_upgrade while a newer program waits to start: "0.3.0 waits for 2 commands".
//
// Known gap: only Linux has all of them.
package facts

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Collect returns the facts of the host. A static fact replaces the host's fact of the same name, or removes it if it
// is null. Values have the types that package canon decodes. The error is ctx's.
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
	set("zester_version", build.Read().Version)
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

// addresses returns the addresses of the host as lists of any, as package canon decodes them.
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
	sorting.Func(sorted, netip.Addr.Compare)
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
