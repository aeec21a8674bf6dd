//go:build linux

package host

import "testing"

func TestFilesOfUnits(t *testing.T) {
	for _, c := range []struct {
		unit, changed string
		want          bool
	}{
		{"web.service", "/etc/systemd/system/web.service", true},
		{"web.service", "/usr/lib/systemd/system/web.service", true},
		{"web.service", "/etc/systemd/system/web.service.d/a.conf", true},
		{"web.service", "/etc/systemd/system/web.service.d", true},
		{"web.service", "/etc/systemd/system/service.d/a.conf", true},
		{"web.service", "/etc/systemd", true},
		{"web-a-b.service", "/run/systemd/system/web-a-.service.d/a.conf", true},
		{"tpl@x.service", "/etc/systemd/system/tpl@.service", true},
		{"tpl@x.service", "/etc/systemd/system/tpl@x.service.d/a.conf", true},
		{"web.service", "/etc/systemd/system/web.timer", false},
		{"web.service", "/etc/systemd/system/webs.service", false},
		{"web.service", "/etc/systemd/system/multi-user.target.wants/web.service", false},
	} {
		paths := UnitPaths([]Step{{Change: Change{Do: "write", What: c.changed}}, {Change: Change{Do: "mode", What: c.changed}}})
		if len(paths) != 1 {
			t.Errorf("%s: the paths of units are %q", c.changed, paths)
		}
		w := New()
		w.SetUnread(paths...)
		if got := w.Unit(Unit{Name: c.unit}).NeedsReload; got != c.want {
			t.Errorf("%s after a change of %s: %v", c.unit, c.changed, got)
		}
		w.UnitsRead()
		if w.Unit(Unit{Name: c.unit}).NeedsReload || !w.Unit(Unit{Name: c.unit, NeedsReload: true}).NeedsReload {
			t.Errorf("%s after systemd read it", c.unit)
		}
		if w.PlanUnitsRead(); w.Unit(Unit{Name: c.unit, NeedsReload: true}).NeedsReload {
			t.Errorf("%s after a planned daemon-reload", c.unit)
		}
	}
	if paths := UnitPaths([]Step{{Change: Change{Do: "write", What: "/etc/systemd/system.conf"}}, {Change: Change{Do: "start", What: "web.service"}}}); len(paths) > 0 {
		t.Errorf("%q", paths)
	}
}
