//go:build linux

package service

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// known returns a manager that has asked systemd for one unit.
func known(u host.Unit) *Manager {
	m := New(host.New(), nil)
	m.units = map[string]host.Unit{u.Name: u}
	return m
}

// words returns what steps do, with what is before it, and predicts them.
func words(m *Manager, steps []host.Step) string {
	var all []string
	for _, s := range steps {
		text := s.Do
		if s.Before != "" {
			text += " " + s.Before
		}
		if s.After != "" {
			text += " to " + s.After
		}
		all = append(all, text)
		s.Predict(m.world)
	}
	return strings.Join(all, ", ")
}

func web(load, active, enabled string) host.Unit {
	return host.Unit{Name: "web.service", Load: load, Active: active, Enabled: enabled}
}

func TestStepsOfAUnitThatShouldRun(t *testing.T) {
	yes, no := true, false
	up := web("loaded", "active", "enabled")
	reloads, stale := up, up
	reloads.CanReload = true
	stale.CanReload, stale.NeedsReload = true, true
	oneshot := web("loaded", "inactive", "static")
	oneshot.Ends = true
	ended, working := oneshot, oneshot
	ended.HasEnded, working.Active = true, "activating"
	for name, c := range map[string]struct {
		unit   host.Unit
		want   state.ServiceRunning
		react  bool
		unread string
		steps  string
		warns  string
		err    string
	}{
		"it runs":                       {unit: up},
		"it is stopped":                 {unit: web("loaded", "inactive", "disabled"), steps: "start inactive"},
		"it has failed":                 {unit: web("loaded", "failed", "disabled"), react: true, steps: "start failed"},
		"it reloads":                    {unit: web("loaded", "reloading", "enabled")},
		"a change":                      {unit: up, react: true, steps: "restart"},
		"a change, reload":              {unit: reloads, want: state.ServiceRunning{Reload: true}, react: true, steps: "reload"},
		"a change, reload not asked":    {unit: reloads, react: true, steps: "restart"},
		"a change, it cannot reload":    {unit: up, want: state.ServiceRunning{Reload: true}, react: true, steps: "restart"},
		"a change of its file, reload":  {unit: stale, want: state.ServiceRunning{Reload: true}, react: true, steps: "daemon-reload, restart"},
		"its file changed":              {unit: stale, steps: "daemon-reload"},
		"another file changed":          {unit: web("loaded", "inactive", ""), unread: "/etc/systemd/system/x.service", steps: "daemon-reload, start inactive"},
		"another file, nothing to do":   {unit: up, unread: "/etc/systemd/system/x.service"},
		"to be enabled":                 {unit: web("loaded", "inactive", "disabled"), want: state.ServiceRunning{Enable: &yes}, steps: "enable disabled, start inactive"},
		"to be disabled":                {unit: up, want: state.ServiceRunning{Enable: &no}, steps: "disable enabled"},
		"an alias is enabled":           {unit: web("loaded", "active", "alias"), want: state.ServiceRunning{Enable: &yes}},
		"static cannot be enabled":      {unit: web("loaded", "active", "static"), want: state.ServiceRunning{Enable: &yes}, warns: "cannot be enabled"},
		"transient cannot be enabled":   {unit: web("loaded", "active", "transient"), want: state.ServiceRunning{Enable: &yes}, warns: "is transient"},
		"enabled until the next boot":   {unit: web("loaded", "active", "enabled-runtime"), want: state.ServiceRunning{Enable: &yes}, steps: "enable enabled-runtime"},
		"it does not exist":             {unit: web("not-found", "inactive", ""), err: "there is no unit web.service on this host"},
		"it is to be unmasked":          {unit: web("masked", "inactive", "masked"), want: state.ServiceRunning{Unmask: true}, steps: "unmask masked, start inactive"},
		"it is unmasked and enabled":    {unit: web("masked", "inactive", "masked"), want: state.ServiceRunning{Unmask: true, Enable: &yes}, steps: "unmask masked, enable masked, start inactive"},
		"it is masked until the boot":   {unit: web("masked", "inactive", "masked-runtime"), want: state.ServiceRunning{Unmask: true}, err: "is masked-runtime"},
		"unmask of one that is not":     {unit: up, want: state.ServiceRunning{Unmask: true}},
		"a oneshot was never started":   {unit: oneshot, steps: "start inactive"},
		"a oneshot ended well":          {unit: ended},
		"a oneshot works":               {unit: working},
		"a change for a oneshot":        {unit: ended, react: true, steps: "restart"},
		"it is masked":                  {unit: web("masked", "inactive", "masked"), err: "unmask: true allows to start"},
		"systemd cannot read its file":  {unit: web("bad-setting", "inactive", ""), err: "it is bad-setting"},
		"disabled and should stay so":   {unit: web("loaded", "active", "disabled"), want: state.ServiceRunning{Enable: &no}},
		"an indirect one is left alone": {unit: web("loaded", "active", "indirect"), want: state.ServiceRunning{Enable: &yes}},
	} {
		m := known(c.unit)
		if c.unread != "" {
			m.world.SetUnread(c.unread)
		}
		c.want.Name = "web"
		steps, err := m.Running(t.Context(), &c.want, c.react)
		checkSteps(t, m, name, steps, err, c.steps, c.warns, c.err)
		if c.err != "" {
			continue
		}
		m.world.TakeWarnings()
		if again, err := m.Running(t.Context(), &c.want, false); err != nil || len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %v, %v", name, words(m, again), err)
		}
	}
}

func checkSteps(t *testing.T, m *Manager, name string, steps []host.Step, err error, want, warns, wrong string) {
	t.Helper()
	switch {
	case err != nil && wrong == "", err == nil && wrong != "":
		t.Errorf("%s: the error is %v, want %q", name, err, wrong)
	case err != nil && !strings.Contains(err.Error(), wrong):
		t.Errorf("%s: the error is %v, want %q", name, err, wrong)
	}
	if got := words(m, steps); got != want {
		t.Errorf("%s: the steps are %q, want %q", name, got, want)
	}
	if got := m.world.TakeWarnings(); (got == "") != (warns == "") || !strings.Contains(got, warns) {
		t.Errorf("%s: the warning is %q, want %q", name, got, warns)
	}
}

func TestStepsOfAUnitThatShouldNotRun(t *testing.T) {
	no := false
	stale := web("loaded", "active", "enabled")
	stale.NeedsReload = true
	for name, c := range map[string]struct {
		unit  host.Unit
		want  state.ServiceDead
		own   OwnCall
		steps string
		warns string
	}{
		"it is stopped":               {unit: web("loaded", "inactive", "enabled")},
		"it has failed":               {unit: web("loaded", "failed", "enabled")},
		"it runs":                     {unit: web("loaded", "active", "enabled"), steps: "stop active"},
		"it begins":                   {unit: web("loaded", "activating", ""), steps: "stop activating"},
		"its file changed":            {unit: stale, steps: "daemon-reload, stop active"},
		"to be disabled":              {unit: web("loaded", "active", "enabled"), want: state.ServiceDead{Enable: &no}, steps: "stop active, disable enabled"},
		"not enabled":                 {unit: web("loaded", "inactive", "disabled"), want: state.ServiceDead{Enable: &no}},
		"enabled until the next boot": {unit: web("loaded", "inactive", "enabled-runtime"), want: state.ServiceDead{Enable: &no}, steps: "disable enabled-runtime"},
		"to be masked":                {unit: web("loaded", "active", "enabled"), want: state.ServiceDead{Mask: true}, steps: "stop active, mask enabled"},
		"masked":                      {unit: web("masked", "inactive", "masked"), want: state.ServiceDead{Mask: true}},
		"it does not exist":           {unit: web("not-found", "inactive", ""), warns: "there is no unit web.service on this host"},
		"its own unit, put off":       {unit: web("loaded", "active", "enabled"), own: OwnCall{"stop", "web.service"}},
		"its own unit, to restart":    {unit: web("loaded", "active", "enabled"), own: OwnCall{"restart", "web.service"}, steps: "stop active"},
		"another unit is put off":     {unit: web("loaded", "active", "enabled"), own: OwnCall{"stop", "x.service"}, steps: "stop active"},
	} {
		m := known(c.unit)
		m.own = c.own
		c.want.Name = "web"
		steps, err := m.Dead(t.Context(), &c.want)
		checkSteps(t, m, name, steps, err, c.steps, c.warns, "")
		if again, err := m.Dead(t.Context(), &c.want); err != nil || len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %v, %v", name, words(m, again), err)
		}
	}
}

func TestStepsOfAUnitAtBoot(t *testing.T) {
	stale, on := web("loaded", "inactive", "disabled"), web("loaded", "inactive", "enabled")
	stale.NeedsReload, on.NeedsReload = true, true
	for name, c := range map[string]struct {
		unit  host.Unit
		on    bool
		steps string
		warns string
		err   string
	}{
		"on":                          {unit: web("loaded", "inactive", "disabled"), on: true, steps: "enable disabled"},
		"on, its file changed":        {unit: stale, on: true, steps: "daemon-reload, enable disabled"},
		"off, its file changed":       {unit: on, steps: "daemon-reload, disable enabled"},
		"on already":                  {unit: web("loaded", "inactive", "enabled"), on: true},
		"on until the next boot":      {unit: web("loaded", "inactive", "enabled-runtime"), on: true, steps: "enable enabled-runtime"},
		"off":                         {unit: web("loaded", "inactive", "enabled"), steps: "disable enabled"},
		"off already":                 {unit: web("loaded", "inactive", "disabled")},
		"another unit starts it":      {unit: web("loaded", "inactive", "indirect"), warns: "disable the unit that starts it"},
		"off until the next boot":     {unit: web("loaded", "inactive", "enabled-runtime"), warns: "is enabled-runtime"},
		"masked and to be on":         {unit: web("masked", "inactive", "masked"), on: true, err: "systemctl unmask web.service"},
		"masked and to be off":        {unit: web("masked", "inactive", "masked")},
		"generated cannot be enabled": {unit: web("loaded", "inactive", "generated"), on: true, warns: "is generated"},
		"it does not exist":           {unit: web("not-found", "inactive", ""), err: "there is no unit web.service"},
	} {
		m := known(c.unit)
		steps, err := m.AtBoot(t.Context(), "web", c.on)
		checkSteps(t, m, name, steps, err, c.steps, c.warns, c.err)
	}
}

// A unit that goes with its package, and one that a planned package or file may bring, are not those of the host.
func TestAUnitAfterPlannedSteps(t *testing.T) {
	u := web("loaded", "active", "enabled")
	u.Fragment = "/usr/lib/systemd/system/zt-web.service"
	m := known(u)
	m.world.RemovePackage("zt-web", host.PackageFiles{Paths: []string{"/lib/systemd/system/zt-web.service"}}, false)
	_, err := m.Running(t.Context(), &state.ServiceRunning{Name: "web"}, false)
	if unknown, ok := err.(*host.UnknownError); !ok || !strings.Contains(unknown.Why, "belongs to the package zt-web") {
		t.Errorf("its package goes: %v", err)
	}

	absent := web("not-found", "inactive", "")
	m = known(absent)
	m.world.SetPackage("zt-web", "1.0")
	_, err = m.Running(t.Context(), &state.ServiceRunning{Name: "web"}, false)
	if _, ok := err.(*host.UnknownError); !ok {
		t.Errorf("a package may bring it: %v", err)
	}
	if _, err = m.Dead(t.Context(), &state.ServiceDead{Name: "web"}); err == nil {
		t.Error("nobody knows whether a package brings it, and it counts as stopped")
	}
}

func TestUnitsAreAskedForOnce(t *testing.T) {
	m := known(web("loaded", "active", "enabled"))
	if s, err := m.Stamp(t.Context(), "web"); err != nil || s != "" {
		t.Errorf("%q, %v", s, err)
	}
	if IsRunning() {
		t.Skip("systemd runs here and would answer")
	}
	if _, err := m.Stamp(t.Context(), "other"); err != errNoSystemd {
		t.Errorf("a unit that was not asked for: %v", err)
	}
	m.Forget()
	if _, err := m.Stamp(t.Context(), "web"); err != errNoSystemd {
		t.Errorf("after something changed: %v", err)
	}
	if _, err := Control(t.Context(), "kill", "web"); err == nil || !strings.Contains(err.Error(), `"kill" is not start`) {
		t.Errorf("%v", err)
	}
	if own, err := Control(t.Context(), "stop", "web"); err != errNoSystemd || !own.IsZero() {
		t.Errorf("%v, %v", own, err)
	}
	if (OwnCall{"stop", "web.service"}).IsZero() {
		t.Error("a call is none")
	}
}

func TestWhichCallsEndTheUnitOfThisProcess(t *testing.T) {
	var ends []string
	for _, verb := range []string{"start", "stop", "restart", "reload", "enable", "disable", "mask"} {
		if endsOwn(verb, own()) {
			ends = append(ends, verb)
		}
		if endsOwn(verb, "other-than-"+own()) {
			t.Errorf("%s of another unit ends this process", verb)
		}
	}
	if !slices.Equal(ends, []string{"stop", "restart"}) {
		t.Errorf("%q", ends)
	}
}

func TestUnitsThatSystemdDoesNotDescribe(t *testing.T) {
	for _, out := range []string{"LoadState=loaded\n", "ActiveState=active\n", ""} {
		if units, err := parseShow(out, []string{"web.service"}); err == nil {
			t.Errorf("%q: %+v", out, units)
		}
	}
}
