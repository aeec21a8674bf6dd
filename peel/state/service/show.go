//go:build linux

package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// properties are what a plan needs of a unit.
const properties = "LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,NeedDaemonReload," +
	"CanReload,InvocationID,StateChangeTimestampMonotonic,Type,RemainAfterExit,Result,TriggeredBy"

// show asks systemd for units.
func show(ctx context.Context, names []string) (map[string]host.Unit, error) {
	out, err := systemctl(ctx, append([]string{"show", "--property=" + properties, "--"}, names...)...)
	if err != nil {
		return nil, err
	}
	units, err := parseShow(string(out), names)
	if err != nil {
		return nil, err
	}
	for name, u := range units {
		if u.Enabled == "generated" { // from a script of System V, which systemd lets another program enable
			u.Enabled = "disabled"
			if _, err := systemctl(ctx, "is-enabled", "--quiet", "--", name); err == nil {
				u.Enabled = "enabled"
			}
			units[name] = u
		}
	}
	return units, nil
}

// parseShow reads the output of systemctl show: one paragraph for each unit, in the order of names.
func parseShow(out string, names []string) (map[string]host.Unit, error) {
	paragraphs := strings.Split(strings.TrimSpace(out), "\n\n")
	if len(paragraphs) != len(names) {
		return nil, fmt.Errorf("systemctl show describes %d units, want %d", len(paragraphs), len(names))
	}
	units := make(map[string]host.Unit, len(names))
	for i, name := range names {
		p := map[string]string{}
		for line := range strings.Lines(paragraphs[i]) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			p[key] = value
		}
		if p["LoadState"] == "" || p["ActiveState"] == "" {
			return nil, fmt.Errorf("systemctl show does not give the state of %s", name)
		}
		units[name] = host.Unit{
			Name: name, Load: p["LoadState"], Active: p["ActiveState"], Sub: p["SubState"], Enabled: p["UnitFileState"],
			Fragment: p["FragmentPath"], DropIns: strings.Fields(p["DropInPaths"]),
			TriggeredBy: strings.Fields(p["TriggeredBy"]),
			NeedsReload: p["NeedDaemonReload"] == "yes", CanReload: p["CanReload"] == "yes",
			Stamp:    p["InvocationID"] + " " + p["StateChangeTimestampMonotonic"],
			Ends:     p["Type"] == "oneshot" && p["RemainAfterExit"] != "yes",
			HasEnded: p["InvocationID"] != "" && p["ActiveState"] == "inactive" && p["Result"] == "success",
		}
	}
	return units, nil
}
