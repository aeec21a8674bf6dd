//go:build linux

package pkg

import (
	"reflect"
	"testing"
)

func TestTheLinesOfASimulation(t *testing.T) {
	for line, want := range map[string]effect{
		"Inst nginx (1.22.1-9 Debian:12.11/stable [amd64])\n":         {name: "nginx", to: "1.22.1-9"},
		"Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [amd64]) []\n": {name: "libc6", from: "2.36-9", to: "2.36-10"},
		"Conf nginx (1.22.1-9 Debian:12.11/stable [amd64])\n":         {setUp: true, name: "nginx", to: "1.22.1-9"},
		"Remv exim4 [4.96-15]\n":                                      {remove: true, name: "exim4", from: "4.96-15"},
		"Purg exim4 [4.96-15]\n":                                      {remove: true, purge: true, name: "exim4", from: "4.96-15"},
	} {
		if got, ok := parseEffect(line); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	}
	for _, line := range []string{"Reading package lists...\n", "\n", "Inst\n"} {
		if got, ok := parseEffect(line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

func TestASimulation(t *testing.T) {
	out := "Inst a (1 x [all])\nInst b (2 x [all])\nConf c (3 x [all])\nConf a (1 x [all])\nConf b (2 x [all])\n"
	want := []effect{{name: "a", to: "1"}, {name: "b", to: "2"}, {name: "c", to: "3", setUp: true}}
	if got := parseEffects(out); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// table is what dnf 4.14 says with --assumeno on a host with packages that this test made.
const table = `Dependencies resolved.
================================================================================
 Package                                         Arch      Version  Repo   Size
================================================================================
Installing:
 zt-b                                            noarch    1.0-1    zt    5.4 k
 zt-with-a-very-long-name-that-wraps-the-line-of-the-table
                                                 noarch    1:1.0-1  zt    5.5 k
Installing dependencies:
 zt-a                                            noarch    2.0-1    zt    5.4 k
Downgrading:
 zt-d                                            noarch    1.0-1    zt    5.4 k
Removing dependent packages:
 zt-c                                            noarch    1.0-1    @zt      0  

Transaction Summary
================================================================================
Install  3 Packages

Total size: 16 k
Operation aborted.
`

func TestTheTableOfDnf(t *testing.T) {
	want := []effect{
		{name: "zt-b", arch: "noarch", to: "1.0-1"},
		{name: "zt-with-a-very-long-name-that-wraps-the-line-of-the-table", arch: "noarch", to: "1:1.0-1"},
		{name: "zt-a", arch: "noarch", to: "2.0-1"},
		{name: "zt-d", arch: "noarch", to: "1.0-1"},
		{name: "zt-c", arch: "noarch", from: "1.0-1", remove: true},
	}
	if got := parseTable(table); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		installed, version string
		want               bool
	}{{"1.0-1", "1.0", true}, {"1.0-1", "1.0-1", true}, {"1:1.0-1", "1.0", true}, {"1:1.0-1", "1:1.0", true}, {"1.0-1", "1", false}, {"", "1", false}} {
		if got := (dnf{}).has(c.installed, c.version); got != c.want {
			t.Errorf("%+v is %v", c, got)
		}
	}
}

// twoArchitectures is what dnf says to "remove zt-x.i686" on a host that has zt-x of two architectures.
const twoArchitectures = `Dependencies resolved.
================================================================================
 Package                Arch        Version             Repository         Size
================================================================================
Removing:
 zt-x                   i686        1.0-1               @zt                0

Transaction Summary
`

func TestAPackageOfDnfIsNamedWithItsArchitecture(t *testing.T) {
	remove := func(names ...string) (transaction, []effect) {
		t := transaction{verb: "remove"}
		for _, name := range names {
			t.packages = append(t.packages, wanted{name: name})
		}
		return t, t.name(parseTable(twoArchitectures))
	}
	for _, name := range []string{"zt-x.i686", "zt-x"} {
		one, effects := remove(name)
		if err := one.refuse(effects); err != nil || effects[0].name != name {
			t.Errorf("remove %s: %+v %v", name, effects, err)
		}
	}
	other, effects := remove("zt-x.x86_64")
	if other.refuse(effects) == nil {
		t.Error("a package goes of which the state names the other architecture")
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(table)
	f.Fuzz(func(t *testing.T, out string) {
		for _, e := range parseTable(out) {
			if e.name == "" || e.remove == (e.to != "") {
				t.Errorf("%+v", e)
			}
		}
	})
}

func FuzzParseEffect(f *testing.F) {
	f.Add("Inst nginx [1] (2 x [y])")
	f.Fuzz(func(t *testing.T, line string) {
		if e, ok := parseEffect(line); ok && e.name == "" {
			t.Errorf("%q has no name", line)
		}
	})
}
