//go:build linux

package pkg

import "testing"

func TestTheLinesOfASimulation(t *testing.T) {
	for line, want := range map[string]effect{
		"Inst nginx (1.22.1-9 Debian:12.11/stable [amd64])\n":         {name: "nginx", to: "1.22.1-9"},
		"Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [amd64]) []\n": {name: "libc6", from: "2.36-9", to: "2.36-10"},
		"Remv exim4 [4.96-15]\n":                                      {remove: true, name: "exim4", from: "4.96-15"},
		"Purg exim4 [4.96-15]\n":                                      {remove: true, name: "exim4", from: "4.96-15"},
	} {
		if got, ok := parseEffect(line); !ok || got != want {
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	}
	for _, line := range []string{"Conf nginx (1.22.1-9 Debian [amd64])\n", "Reading package lists...\n", "\n", "Inst\n"} {
		if got, ok := parseEffect(line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

func FuzzParseEffect(f *testing.F) {
	f.Add("Inst nginx [1] (2 x [y])")
	f.Fuzz(func(t *testing.T, line string) {
		if e, ok := parseEffect(line); ok && e.name == "" {
			t.Errorf("%q has no name", line)
		}
	})
}
