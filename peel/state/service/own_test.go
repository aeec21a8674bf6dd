//go:build linux

package service

import "testing"

func TestTheUnitOfAProcess(t *testing.T) {
	for cgroups, want := range map[string]string{
		"0::/system.slice/zester-peel.service\n":                                           "zester-peel.service",
		"0::/system.slice/zester-peel.service/commands\n":                                  "zester-peel.service",
		"0::/system.slice/system-peel.slice/peel@a.service\n":                              "peel@a.service",
		"12:cpu:/x.service\n1:name=systemd:/system.slice/y.service\n0::/\n":                "y.service",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/zester-peel.service\n": "zester-peel.service",
		"0::/user.slice/user-0.slice/session-3.scope\n":                                    "",
		"0::/../../system.slice/ssh.service\n":                                             "",
		"0::/\n":                                                                           "",
		"":                                                                                 "",
	} {
		if got := unitOf(cgroups); got != want {
			t.Errorf("%q: %q, want %q", cgroups, got, want)
		}
	}
}
