//go:build linux

package service

import (
	"context"
	"os"
	"slices"
	"strings"
)

// An OwnCall is a call of systemctl that ends the unit of this process. It is made after the result of the run is
// stored. The zero value is none.
type OwnCall struct{ verb, unit string }

// IsZero reports whether there is no call.
func (c OwnCall) IsZero() bool { return c.unit == "" }

// Make has systemd do what the call says, and does not wait for it: it ends this process.
func (c OwnCall) Make(ctx context.Context) error {
	_, err := systemctl(ctx, "--no-block", c.verb, "--", c.unit)
	return err
}

// afterRun is what people see of an OwnCall.
const afterRun = "after the run, when its result is stored"

// endsOwn reports whether a verb of systemctl ends this process.
func endsOwn(verb, unit string) bool {
	return (verb == "restart" || verb == "stop") && unit == own()
}

// own returns the unit that this process belongs to, empty if there is none.
func own() string {
	data, _ := os.ReadFile("/proc/self/cgroup") // without it there is no systemd
	return unitOf(string(data))
}

// unitOf returns the service in the control group of systemd that /proc/PID/cgroup names, empty if there is none.
func unitOf(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 || f[1] != "" && f[1] != "name=systemd" {
			continue
		}
		groups := strings.Split(f[2], "/")
		if slices.Contains(groups, "..") {
			continue // of another host
		}
		for _, name := range slices.Backward(groups) {
			if strings.HasSuffix(name, ".service") {
				return name
			}
		}
	}
	return ""
}
