//go:build linux

package pkg

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// A leaver is a package manager whose transactions do what do does.
type leaver struct {
	tool
	do func()
}

func (l leaver) execute(context.Context, transaction) error {
	l.do()
	return nil
}

func TestFilesThatATransactionPutsAsideAreNamedOnce(t *testing.T) {
	m := New(host.New(), false)
	m.etc = t.TempDir()
	path := func(name string) string { return filepath.Join(m.etc, name) }
	leave := func(name string, at time.Time) {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	leave("old.conf.dpkg-dist", day)
	leave("again.conf.rpmnew", day)
	m.tool = leaver{do: func() {
		leave("app/app.conf.dpkg-dist", day)
		leave("app/app.conf", day)
		leave("again.conf.rpmnew", day.Add(time.Hour))
	}}
	if err := m.execute(t.Context(), transaction{}); err != nil {
		t.Fatal(err)
	}
	want := "the package has another configuration than this host; compare the files that it left: " + path("again.conf.rpmnew") + ", " + path("app/app.conf.dpkg-dist")
	if got := m.Aside(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.tool = leaver{do: func() {}}
	if err := m.execute(t.Context(), transaction{}); err != nil || m.Aside() != "" {
		t.Errorf("they are named again: %v", err)
	}
}
