//go:build linux && debian

package state

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/service"
)

// unit writes a unit that counts its starts and reloads in /run/zt.NAME.
func unit(t *testing.T, name, more string) {
	t.Helper()
	must(t, os.WriteFile("/etc/systemd/system/"+name+".service", []byte(`[Service]
ExecStartPre=/bin/sh -c 'echo start >> /run/zt.`+name+`'
ExecStart=/bin/sleep infinity
ExecReload=/bin/sh -c 'echo reload >> /run/zt.`+name+`'
`+more+`
[Install]
WantedBy=multi-user.target
`), 0o644))
	_ = os.Remove("/run/zt." + name)
	t.Cleanup(func() {
		sh(t, "systemctl stop %s; systemctl disable -q %[1]s; systemctl reset-failed %[1]s 2>/dev/null || true", name)
		sh(t, "rm -f /etc/systemd/system/%s.service; systemctl daemon-reload", name)
	})
}

func counted(name string) string {
	data, _ := os.ReadFile("/run/zt." + name)
	return strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", " ")
}

func needsSystemd(t *testing.T) {
	t.Helper()
	needsHost(t)
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("this host runs without systemd")
	}
}

func TestInHostServices(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	unit(t, "web", "")
	has := func(want string) {
		t.Helper()
		if got := counted("web"); got != want {
			t.Errorf("the unit counts %q, want %q", got, want)
		}
	}
	const web = "conf: {file.managed: {path: DIR/conf, content: one}}\nweb: {service.running: {enable: true}, watch: [conf]}"
	// A service that has to be started is not restarted.
	r := h.step(web, "conf: changed intended", "web: changed intended")
	if len(r.States[1].Changes) != 2 || r.States[1].Changes[0].Do != "enable" || r.States[1].Changes[1].Do != "start" {
		t.Errorf("%+v", r.States[1].Changes)
	}
	has("start")
	h.step(strings.Replace(web, "one", "two", 1), "conf: changed intended", "web: changed intended")
	has("start start")
	reloads := strings.Replace(web, "enable: true", "enable: true, reload: true", 1)
	h.step(strings.Replace(reloads, "one", "three", 1), "conf: changed intended", "web: changed intended")
	has("start start reload")
	// It reacts also if the same state enables it.
	sh(t, "systemctl disable -q web")
	r = h.step(strings.Replace(reloads, "one", "four", 1), "conf: changed intended", "web: changed intended")
	if len(r.States[1].Changes) != 2 {
		t.Errorf("%+v", r.States[1].Changes)
	}
	has("start start reload reload")
	// A changed unit is read again.
	sh(t, "echo '#' >> /etc/systemd/system/web.service")
	r = h.step(strings.Replace(reloads, "one", "four", 1), "conf: unchanged", "web: changed drift")
	if c := r.States[1].Changes; len(c) != 1 || c[0].Do != "daemon-reload" {
		t.Errorf("%+v", c)
	}
	h.step("dead: {service.dead: {name: web, enable: false}}", "dead: changed intended")
	h.step("dead: {service.dead: {name: nothing}}", "dead: unchanged")
	h.wants(h.run("x: {service.running: {name: nothing}}", true), "x: failed")
	h.wants(h.run("cron: {pkg.removed: {}}\nm: {service.dead: {name: cron}}", true), "cron: would_change intended", "m: unknown")
	h.step("m: {service.dead: {name: cron, mask: true}}", "m: changed intended")
	h.wants(h.run("m: {service.running: {name: cron}}", true), "m: failed")
	h.step("m: {service.running: {name: cron, enable: true, unmask: true}}", "m: changed intended")
}

func TestInHostAOneshotUnit(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	unit(t, "once", "")
	sh(t, "sed -i 's/^ExecStart=.*/ExecStart=true/; s/^\\[Service\\]/[Service]\\nType=oneshot/' /etc/systemd/system/once.service; systemctl daemon-reload")
	const once = "conf: {file.managed: {path: DIR/conf, content: one}}\nonce: {service.running: {enable: true}, watch: [conf]}"
	h.step(once, "conf: changed intended", "once: changed intended")
	h.step(strings.Replace(once, "one}", "two}", 1), "conf: changed intended", "once: changed intended")
	if got := counted("once"); got != "start start" {
		t.Errorf("the unit counts %q", got)
	}
	sh(t, "sed -i 's/^ExecStart=true/ExecStart=false/' /etc/systemd/system/once.service; systemctl daemon-reload")
	r := h.run(strings.Replace(once, "one}", "three}", 1), false)
	h.wants(r, "conf: changed intended", "once: failed intended")
}

func TestInHostAServiceWithItsUnitFromTheRepo(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	unit(t, "own", "")
	must(t, os.Remove("/etc/systemd/system/own.service"))
	sh(t, "systemctl daemon-reload")
	const own = `
/etc/systemd/system/own.service: {file.managed: {content: "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"}}
own: {service.running: {enable: true}, watch: [/etc/systemd/system/own.service]}
`
	h.step(own, "/etc/systemd/system/own.service: changed intended", "own: changed intended")
	r := h.step(strings.Replace(own, "ExecStart", "Nice=1\\nExecStart", 1), "/etc/systemd/system/own.service: changed intended", "own: changed intended")
	if c := r.States[1].Changes; len(c) != 2 || c[0].Do != "daemon-reload" || c[1].Do != "restart" {
		t.Errorf("%+v", c)
	}
	const dropIn = own + `
/etc/systemd/system/own.service.d/n.conf: {file.managed: {content: "[Service]\nNice=2\n", makedirs: true}, watch_in: [own]}
`
	r = h.step(dropIn, "/etc/systemd/system/own.service: changed intended", "/etc/systemd/system/own.service.d/n.conf: changed intended", "own: changed intended")
	if got := strings.TrimSpace(sh(t, "systemctl show --property=Nice --value own")); got != "2" {
		t.Errorf("the nice value is %s", got)
	}
	sh(t, "rm -r /etc/systemd/system/own.service.d")
}

// TestInHostFilesThatSystemdDoesNotNotice: systemd says that it need not read a unit again whose file in /etc takes the place of one in
// /lib, or that has its first drop-in. It is told to, also by the run after the one that wrote the file, and before a command.
func TestInHostFilesThatSystemdDoesNotNotice(t *testing.T) {
	needsSystemd(t)
	const text = `[Unit]\nStartLimitIntervalSec=0\n[Service]\nEnvironment=V=%s\nExecStart=/bin/sh -c \"echo $$V > /run/zt.v; exec sleep infinity\"\n`
	const over = `
u: {file.managed: {path: /etc/systemd/system/zt-over.service, content: "` + text + `"}}
s: {service.running: {name: zt-over}, watch: [u]}
`
	const dropIn = `
u: {file.managed: {path: /etc/systemd/system/zt-over.service.d/v.conf, makedirs: true, content: "[Service]\nEnvironment=V=%s\n"}}
s: {service.running: {name: zt-over}, watch: [u]}
`
	const command = `
u: {file.managed: {path: /etc/systemd/system/zt-over.service, content: "` + text + `"}}
c: {cmd.run: {command: systemctl restart zt-over}, onchanges: [u]}
`
	for _, c := range []struct {
		name, states string
		apart        bool // the file is written by a run of its own
	}{
		{"the file of a package is overridden", over, false},
		{"in two runs", over, true},
		{"the first drop-in", dropIn, false},
		{"a command follows", command, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			old := strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(fmt.Sprintf(text, "old"))
			must(t, os.WriteFile("/lib/systemd/system/zt-over.service", []byte(old), 0o644))
			sh(t, "rm -rf /etc/systemd/system/zt-over*; systemctl daemon-reload; systemctl restart zt-over")
			t.Cleanup(func() {
				sh(t, "systemctl stop zt-over; rm -rf /etc/systemd/system/zt-over* /lib/systemd/system/zt-over.service; systemctl daemon-reload")
			})
			states := fmt.Sprintf(c.states, "new")
			lines := strings.Split(strings.TrimSpace(states), "\n")
			if c.apart {
				h.run(lines[0], false)
				sh(t, "touch -d 2020-01-01 /etc/systemd/system/zt-over.service /etc/systemd/system")
				r := h.step(states, "u: unchanged", "s: changed intended")
				if c := r.States[1].Changes; len(c) != 1 || c[0].Do != "daemon-reload" {
					t.Errorf("%+v", c)
				}
				sh(t, "systemctl restart zt-over")
			} else {
				r := h.step(states, "u: changed intended", strings.Fields(lines[1])[0]+" changed intended")
				if c := r.States[1].Changes; len(c) != 2 || c[0].Do != "daemon-reload" {
					t.Errorf("%+v", c)
				}
			}
			if got := strings.TrimSpace(sh(t, "sleep 0.2; cat /run/zt.v")); got != "new" {
				t.Errorf("the unit runs with %q", got)
			}
		})
	}
}

func TestInHostAServiceThatFails(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	unit(t, "bad", "")
	sh(t, "sed -i 's|^ExecStart=.*|ExecStart=/bin/sh -c \"echo no such database; exit 3\"|' /etc/systemd/system/bad.service")
	r := h.run("bad: {service.running: {}}", false)
	h.wants(r, "bad: failed intended")
	if !strings.Contains(r.States[0].Comment, "no such database") || strings.Count(r.States[0].Comment, "\n") > 12 {
		t.Errorf("the comment is %q", r.States[0].Comment)
	}
	// A service that systemd starts again and again is not up.
	unit(t, "loop", "Restart=always\nRestartSec=100ms")
	sh(t, "sed -i 's|^ExecStart=.*|ExecStart=/bin/sleep 0.5|' /etc/systemd/system/loop.service")
	h.wants(h.run("loop: {service.running: {}}", false), "loop: failed intended")
	// A reload that fails is made by the next run.
	unit(t, "rel", "")
	must(t, os.WriteFile("/run/zt.broken", nil, 0o644))
	sh(t, "sed -i 's|^ExecReload=.*|ExecReload=/bin/sh -c \"test ! -e /run/zt.broken \\&\\& echo reload >> /run/zt.rel\"|' /etc/systemd/system/rel.service; systemctl daemon-reload; systemctl start rel")
	const rel = "conf: {file.managed: {path: DIR/c, content: one}}\nrel: {service.running: {reload: true}, watch: [conf]}"
	h.wants(h.run(rel, false), "conf: changed intended", "rel: failed intended")
	h.wants(h.run(rel, false), "conf: unchanged", "rel: failed intended")
	must(t, os.Remove("/run/zt.broken"))
	h.step(rel, "conf: unchanged", "rel: changed intended")
	if got := counted("rel"); got != "start reload" {
		t.Errorf("the unit counts %q", got)
	}
}

// TestInHostARunThatIsKilledRestartsOnce kills the process after the change and before the restart, and between the restart
// and its end.
func TestInHostARunThatIsKilledRestartsOnce(t *testing.T) {
	needsSystemd(t)
	for name, until := range map[string]func(h *fixture) bool{
		"before the restart": func(h *fixture) bool { return h.read("conf") == "two" },
		"after the restart":  func(*fixture) bool { return counted("once") == "start start" },
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			for !killWhen(t, until) {
				if tries++; tries == 5 {
					t.Fatal("no run was killed at that moment")
				}
			}
		})
	}
}

// killWhen kills a run when until is true, and checks what the next runs do. It reports false if the run ended before
// that: systemd refuses a restart now and then, for example while it reads its files again.
func killWhen(t *testing.T, until func(h *fixture) bool) bool {
	t.Helper()
	h := newHost(t)
	unit(t, "once", "")
	const once = "conf: {file.managed: {path: DIR/conf, content: one}}\nonce: {service.running: {}, watch: [conf]}"
	h.run(once, false)
	two := strings.ReplaceAll(strings.Replace(once, "one", "two", 1), "DIR", h.dir)
	cmd := exec.Command("/test")
	cmd.Env = append(os.Environ(), killedStates+"="+two, killedDir+"="+h.dir)
	var said strings.Builder
	cmd.Stdout = &said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !until(h) {
		select {
		case err := <-ended:
			ended <- err
			if !until(h) {
				t.Logf("the process ended before it was killed: %v, the unit counts %q\n%s", err, counted("once"), &said)
				return false
			}
		case <-time.After(time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	// A reload that is under way has ended then, during which units may be busy, and so has a restart.
	sh(t, "systemctl daemon-reload; systemctl start once")
	r := h.run(two, false)
	if !r.Success() || len(r.Owed) > 0 || counted("once") != "start start" {
		t.Errorf("the unit counts %q, the next run is %v and owes %v", counted("once"), verdicts(r), r.Owed)
	}
	h.wants(h.run(two, false), "conf: unchanged", "once: unchanged")
	return true
}

func TestInHostWarningsOfServices(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	const both = "dbus: {service.running: {enable: true}}\ntypo: {service.dead: {name: zt-typo}}"
	r := h.run(both, false)
	h.wants(r, "dbus: unchanged", "typo: unchanged")
	for i, want := range []string{"the unit dbus.service is static: its file has no section [Install]", "there is no unit zt-typo.service on this host"} {
		if got := r.States[i].Comment; !strings.Contains(got, want) {
			t.Errorf("the comment is %q, want %s", got, want)
		}
	}
	if shown := r.Brief().States; len(shown) != 2 {
		t.Errorf("an answer shows %+v", shown)
	}

	unit(t, "own", "")
	for _, function := range []string{"enabled", "disabled"} {
		text := "own: {service." + function + ": {}}"
		h.wants(h.run(text, true), "own: would_change intended")
		h.wants(h.run(text, false), "own: changed intended")
		h.wants(h.run(text, false), "own: unchanged")
		if out, _ := exec.Command("systemctl", "is-enabled", "own").Output(); strings.TrimSpace(string(out)) != function {
			t.Errorf("systemctl says %s", out)
		}
	}
}

// TestInHostATimer: who starts a unit is part of its status, and daemon-reload is predicted as often as it is made.
func TestInHostATimer(t *testing.T) {
	needsSystemd(t)
	h := newHost(t)
	unit(t, "zt-back", "Type=oneshot")
	sh(t, "sed -i 's/sleep infinity/true/' /etc/systemd/system/zt-back.service")
	must(t, os.WriteFile("/etc/systemd/system/zt-back.timer", []byte("[Timer]\nOnCalendar=yearly\n[Install]\nWantedBy=timers.target\n"), 0o644))
	t.Cleanup(func() {
		sh(t, "systemctl disable -q --now zt-back.timer; rm -f /etc/systemd/system/zt-back.timer; systemctl daemon-reload")
	})
	h.step("t: {service.running: {name: zt-back.timer, enable: true}}", "t: changed intended")
	u, err := service.Status(t.Context(), "zt-back")
	if err != nil || !slices.Equal(u.TriggeredBy, []string{"zt-back.timer"}) || u.Active != "inactive" {
		t.Errorf("%+v, %v", u, err)
	}

	// Three units whose files changed need one daemon-reload.
	var text string
	for _, name := range []string{"zt-r1", "zt-r2", "zt-r3"} {
		unit(t, name, "")
		text += name + ": {service.running: {}}\n"
	}
	sh(t, "systemctl daemon-reload")
	h.run(text, false)
	sh(t, "for i in 1 2 3; do echo '#' >> /etc/systemd/system/zt-r$i.service; done")
	reloads := func(r *Result) (n int) {
		for _, o := range r.States {
			for _, c := range o.Changes {
				n += map[bool]int{true: 1}[c.Do == "daemon-reload"]
			}
		}
		return n
	}
	predicted := reloads(h.run(text, true))
	if made := reloads(h.run(text, false)); predicted != 1 || made != 1 {
		t.Errorf("daemon-reload is predicted %d times and made %d times", predicted, made)
	}
}
