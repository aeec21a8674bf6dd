//go:build linux

package safefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A user swaps a directory for a link to a directory of root, and back, while root writes below it.
func TestAUserWhoSwapsADirectoryForALinkGetsNothingWritten(t *testing.T) {
	dir := temp(t)
	h := home(t, dir, 1234)
	system := filepath.Join(dir, "system")
	must(t, os.Mkdir(system, 0o755))
	must(t, os.WriteFile(filepath.Join(system, "f"), []byte("of root"), 0o600))
	at, aside := filepath.Join(h, "conf"), filepath.Join(h, "aside")
	must(t, os.Mkdir(at, 0o755))
	must(t, os.Chown(at, 1234, 1234))
	must(t, os.Symlink(system, aside))
	must(t, os.Lchown(aside, 1234, 1234))
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, aside, unix.RENAME_EXCHANGE)
			}
		}
	})
	written, refused := 0, 0
	for range 3000 {
		d, base, err := Parent(filepath.Join(at, "f"))
		if err == nil {
			var s *Staged
			if s, err = d.Stage(base, []byte("of the state"), Attributes{UID: 1234, GID: 1234, Mode: 0o666}); err == nil {
				err = s.Commit()
			}
			if err == nil {
				err = d.Own(base, Attributes{UID: 1234, GID: 1234, Mode: 0o644})
			}
			d.Close()
		}
		switch {
		case err == nil:
			written++
		case isUnsafe(err):
			refused++
		default:
			t.Fatal(err)
		}
	}
	close(stop)
	swapping.Wait()
	data, err := os.ReadFile(filepath.Join(system, "f"))
	must(t, err)
	names, err := os.ReadDir(system)
	must(t, err)
	info, err := os.Stat(filepath.Join(system, "f"))
	must(t, err)
	if string(data) != "of root" || len(names) != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("the directory of root has %d files, f is %v: %q", len(names), info.Mode(), data)
	}
	if written == 0 || refused == 0 {
		t.Errorf("%d written and %d refused: the swaps were not in between", written, refused)
	}
}

func TestOnAFullDiskTheOldFileStays(t *testing.T) {
	dir := filepath.Join(temp(t), "small")
	must(t, os.Mkdir(dir, 0o755))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	name := filepath.Join(dir, "f")
	write(t, name, "old")
	d, base, err := Parent(name)
	must(t, err)
	defer d.Close()
	if _, err := d.Stage(base, []byte(strings.Repeat("x", 1<<20)), Attributes{UID: 0, GID: 0, Mode: 0o644}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a file that does not fit: %v", err)
	}
	names, err := d.List()
	must(t, err)
	if data, err := os.ReadFile(name); err != nil || string(data) != "old" || len(names) != 1 {
		t.Errorf("the file is %q of %v: %v", data, names, err)
	}
	write(t, name, "new")
}
