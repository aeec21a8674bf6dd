package peel_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings"
)

// disk makes the peel's directory a file system of its own, of so many bytes.
func (b *bench) disk(size string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		b.t.Skipf("cannot mount a small file system, which takes root: %v", err)
	}
	b.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			b.t.Error(err)
		}
	})
	b.dir = dir
}

// fill takes the room that the disk has left, until free is called.
func (b *bench) fill() (free func()) {
	b.t.Helper()
	file, err := os.Create(filepath.Join(b.dir, "ballast"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	return func() {
		if err := os.Remove(file.Name()); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestASnapshotThatTheDiskRefusedIsWrittenAgain(t *testing.T) {
	run(t, func(b *bench) {
		b.disk("1m")
		b.start()
		b.give(1, "a: 1\n")
		b.applied()
		time.Sleep(time.Second)
		free := b.fill()
		b.give(2, "a: "+strings.Repeat("x", 10_000)+"\n")
		time.Sleep(time.Minute)
		report := b.lastApplied()
		if report.Generation != 2 || len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "cannot store the snapshot") || !strings.Contains(report.Errors[0], "no space left") {
			t.Errorf("while the disk is full: %+v", report)
		}
		free()
		time.Sleep(time.Minute)
		if report := b.lastApplied(); report.Generation != 2 || len(report.Errors) > 0 {
			t.Errorf("when there is room: %+v", report)
		}
		b.stop()
		b.bus.Stop(t)
		b.start()
		time.Sleep(time.Second)
		b.bus.Start(t)
		time.Sleep(time.Minute)
		if !strings.Contains(b.log.String(), `msg="running the snapshot until the bus confirms it" peel=web.01 commit=c0ffee generation=2`) {
			t.Errorf("it starts with an older document:\n%s", b.log.String())
		}
	})
}

func TestADocumentThatTheDiskRefusedIsStoredWhenThePeelStops(t *testing.T) {
	run(t, func(b *bench) {
		b.disk("1m")
		b.start()
		b.give(1, "a: 1\n")
		b.applied()
		time.Sleep(time.Minute)
		free := b.fill()
		b.give(2, "a: "+strings.Repeat("x", 10_000)+"\n")
		time.Sleep(time.Second)
		if report := b.lastApplied(); report.Generation != 2 || len(report.Errors) != 1 {
			t.Errorf("while the disk is full: %+v", report)
		}
		free()
		b.stop()
		b.bus.Stop(t)
		b.start()
		time.Sleep(time.Second)
		b.bus.Start(t)
		time.Sleep(time.Minute)
		if !strings.Contains(b.log.String(), `msg="running the snapshot until the bus confirms it" peel=web.01 commit=c0ffee generation=2`) {
			t.Errorf("it starts with an older document:\n%s", b.log.String())
		}
	})
}

func TestASnapshotStaysStaleWhileTheNewestDocumentIsRefused(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "a: 1\n")
		b.applied()
		time.Sleep(time.Second)
		b.stop()
		pair, err := nkeys.CreateCurveKeys()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		other, err := settings.ParseKey(public)
		if err != nil {
			t.Fatal(err)
		}
		b.giveSecret(2, "password: SECRET\n", "hunter2-hunter2", other)
		b.start()
		time.Sleep(time.Minute)
		for range 2 {
			if report := b.lastApplied(); report.Generation != 1 || !report.Stale || len(report.Errors) != 1 {
				t.Errorf("%+v", report)
			}
			b.bus.Restart(t) // the peel asks for its settings again
			time.Sleep(time.Minute)
		}
		b.give(3, "a: 3\n")
		time.Sleep(time.Minute)
		if report := b.lastApplied(); report.Generation != 3 || report.Stale || len(report.Errors) > 0 {
			t.Errorf("%+v", report)
		}
	})
}
