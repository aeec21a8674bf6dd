//go:build linux

package service

import "testing"

// shown is what systemctl show of systemd 252 says of a unit that runs and one that does not exist.
const shown = `InvocationID=5f3a4a5b9be54bb2a6ecbc4b92a3a2e4
StateChangeTimestampMonotonic=81732045
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/lib/systemd/system/cron.service
DropInPaths=/etc/systemd/system/cron.service.d/a.conf /etc/systemd/system/cron.service.d/b.conf
UnitFileState=enabled
NeedDaemonReload=yes
CanReload=no
TriggeredBy=cron.timer cron.path

InvocationID=
StateChangeTimestampMonotonic=0
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
NeedDaemonReload=no
CanReload=no
`

func TestUnitsAreRead(t *testing.T) {
	units, err := parseShow(shown, []string{"cron.service", "no.service"})
	if err != nil {
		t.Fatal(err)
	}
	u := units["cron.service"]
	if !u.Exists() || !u.IsRunning() || !u.NeedsReload || u.CanReload || u.Enabled != "enabled" || len(u.DropIns) != 2 || len(u.TriggeredBy) != 2 || invocation(u) != "5f3a4a5b9be54bb2a6ecbc4b92a3a2e4" {
		t.Errorf("%+v", u)
	}
	if u := units["no.service"]; u.Exists() || u.IsRunning() || u.NeedsReload || len(u.TriggeredBy) > 0 {
		t.Errorf("%+v", u)
	}
	if _, err := parseShow(shown, []string{"cron.service"}); err == nil {
		t.Error("two units are taken for one")
	}
}

func FuzzParseShow(f *testing.F) {
	f.Add(shown)
	f.Fuzz(func(t *testing.T, out string) {
		units, err := parseShow(out, []string{"a.service", "b.service"})
		for _, u := range units {
			if u.Load == "" || u.Active == "" {
				t.Errorf("%+v, %v", u, err)
			}
		}
	})
}
