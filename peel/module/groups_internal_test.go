//go:build linux

package module

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatOfAProgramWithABadName(t *testing.T) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	want, ok := parseStat(own)
	if !ok || want.group != unix.Getpgrp() || want.start == 0 {
		t.Fatalf("own: %+v, %v", want, ok)
	}
	bad := []byte("7 (a) S 1 2 3 (b\n)")
	bad = append(bad, own[len(own)-len(after(own)):]...)
	if got, ok := parseStat(bad); !ok || got != want {
		t.Errorf("%q: %+v, want %+v", bad, got, want)
	}
}

func after(stat []byte) []byte {
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ')' {
			return stat[i+1:]
		}
	}
	return nil
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("4 (a) Z) R 1 4 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0"))
	f.Add([]byte("4 (a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, ok := parseStat(data); !ok && s != (procStat{}) {
			t.Errorf("%q cannot be read and says %+v", data, s)
		}
	})
}

func FuzzGroup(f *testing.F) {
	f.Add([]byte(`{"boot":"b","init":1,"session":2,"id":3,"start":4}`))
	f.Add([]byte(`{"id":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if g, err := parseGroup(data); err == nil && g.ID <= 1 {
			t.Errorf("%q is a record of group %d", data, g.ID)
		}
	})
}
