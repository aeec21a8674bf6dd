package fence

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/segmentio/ksuid"
)

func open(t testing.TB, path string) *Fence {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func reopen(t testing.TB, f *Fence) *Fence {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, f.table.path)
}

func admit(t testing.TB, f *Fence, jid wire.JID, epoch uint64, want Verdict) {
	t.Helper()
	if got, err := f.Admit(jid, epoch); got != want || err != nil {
		t.Errorf("%s at epoch %d: verdict %d, want %d, %v", jid, epoch, got, want, err)
	}
}

func path(t testing.TB) string { return filepath.Join(t.TempDir(), "fence") }

func jidOf(t testing.TB, at time.Time) wire.JID {
	t.Helper()
	id, err := ksuid.NewRandomWithTime(at)
	if err != nil {
		t.Fatal(err)
	}
	return wire.JID(id.String())
}

func jids(n int) []wire.JID {
	all := make([]wire.JID, n)
	for i := range all {
		all[i] = wire.NewJID()
	}
	return all
}

// written makes a file that holds admissions of the jobs at epoch 1.
func written(t testing.TB, path string, jobs []wire.JID) {
	t.Helper()
	var records []record
	for _, jid := range jobs {
		records = append(records, record{kind: finished, jid: jid, number: 1})
	}
	table, _, err := openTable(path)
	if err == nil {
		err = errors.Join(table.replace(records), table.close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAJobRunsOncePerEpochAlsoAfterARestart(t *testing.T) {
	f := open(t, path(t))
	a, b := wire.NewJID(), wire.NewJID()
	admit(t, f, a, 2, Accept)
	for range 2 {
		admit(t, f, a, 2, Duplicate)
		admit(t, f, a, 1, Stale)
		f = reopen(t, f)
	}
	admit(t, f, b, 0, Accept)
	admit(t, f, b, 0, Duplicate)
	admit(t, f, a, 3, Accept)
	f = reopen(t, f)
	admit(t, f, a, 3, Duplicate)
	admit(t, f, a, 2, Stale)
	if _, err := f.Admit("nonsense", 1); err == nil {
		t.Error("a job without an ID was admitted")
	}
	if f.Damage() != nil {
		t.Error(f.Damage())
	}
}

func TestOneOfManyAtOnceIsAccepted(t *testing.T) {
	f := open(t, path(t))
	jid := wire.NewJID()
	var accepted atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if v, err := f.Admit(jid, 1); err == nil && v == Accept {
				accepted.Add(1)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 1 {
		t.Errorf("%d were accepted", accepted.Load())
	}
}

func TestTheOldestJobsFallOutAlsoAfterARestart(t *testing.T) {
	name := path(t)
	jobs := jids(Capacity + 3)
	written(t, name, jobs[:Capacity])
	f := open(t, name)
	admit(t, f, jobs[0], 2, Accept) // now the newest
	for _, jid := range jobs[Capacity:] {
		admit(t, f, jid, 1, Accept)
	}
	for range 2 {
		for _, jid := range jobs[4:] {
			admit(t, f, jid, 1, Duplicate)
		}
		admit(t, f, jobs[0], 2, Duplicate)
		f = reopen(t, f)
	}
	admit(t, f, jobs[1], 1, Accept) // it fell out, with 2 and 3
}

func TestAFullFileIsWrittenAnew(t *testing.T) {
	name := path(t)
	jobs := jids(slots + 2)
	written(t, name, jobs[:slots])
	f := open(t, name)
	admit(t, f, jobs[slots], 1, Accept)
	admit(t, f, jobs[slots+1], 1, Accept)
	if f.table.used != Capacity+2 {
		t.Errorf("%d slots are used", f.table.used)
	}
	f = reopen(t, f)
	for _, jid := range jobs[slots+2-Capacity:] {
		admit(t, f, jid, 1, Duplicate)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(fileSize) {
		t.Errorf("%v, %v", info, err)
	}
}

// A host that dies during an admission leaves any part of the record on the disk.
func TestACrashDuringAnAdmissionIsBeforeOrAfterIt(t *testing.T) {
	name := path(t)
	f := open(t, name)
	a, b := wire.NewJID(), wire.NewJID()
	admit(t, f, a, 1, Accept)
	before := read(t, name)
	admit(t, f, b, 7, Accept)
	after := read(t, name)
	f.Close()
	at := len(header) + slotSize
	for n := range slotSize + 1 {
		torn := append(append(append([]byte{}, before[:at]...), after[at:at+n]...), before[at+n:]...)
		write(t, name, torn)
		f := open(t, name)
		if f.Damage() != nil {
			t.Fatalf("%d bytes: %v", n, f.Damage())
		}
		admit(t, f, a, 1, Duplicate)
		want := Accept
		if bytes.Equal(torn, after) { // already before the last byte where that is 0
			want = Duplicate
		}
		admit(t, f, b, 7, want)
		f = reopen(t, f)
		admit(t, f, b, 7, Duplicate)
		f.Close()
	}
}

func TestNoSequenceOfRequestsRestartsAndCrashesAdmitsTwice(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	f := open(t, path(t))
	jobs := jids(5)
	admitted := map[wire.JID]uint64{}
	for range 300 {
		if rnd.IntN(10) == 0 {
			f = crash(t, f, rnd)
		}
		jid, epoch := jobs[rnd.IntN(len(jobs))], 1+rnd.Uint64N(50)
		want := Accept
		switch last, ok := admitted[jid]; {
		case ok && epoch == last:
			want = Duplicate
		case ok && epoch < last:
			want = Stale
		default:
			admitted[jid] = epoch
		}
		if got, err := f.Admit(jid, epoch); got != want || err != nil {
			t.Fatalf("seed %d: %s at epoch %d: %d, want %d, %v", seed, jid, epoch, got, want, err)
		}
	}
}

// crash reopens a file that has part of a record more than was admitted.
func crash(t *testing.T, f *Fence, rnd *rand.Rand) *Fence {
	t.Helper()
	slot := record{kind: finished, jid: wire.NewJID(), number: 1}.encode()
	if _, err := f.table.file.WriteAt(slot[:rnd.IntN(slotSize)], int64(len(header)+f.table.used*slotSize)); err != nil {
		t.Fatal(err)
	}
	return reopen(t, f)
}

func TestWhatTheDiskDoesNotTakeIsNotAdmitted(t *testing.T) {
	f := open(t, path(t))
	a, b := wire.NewJID(), wire.NewJID()
	admit(t, f, a, 1, Accept)
	sound := f.table.file
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	f.table.file = full
	if v, err := f.Admit(b, 1); v != Refuse || err == nil || !strings.Contains(err.Error(), "cannot admit job "+string(b)) {
		t.Errorf("%d, %v", v, err)
	}
	admit(t, f, a, 1, Duplicate)
	full.Close()
	f.table.file = sound
	admit(t, f, b, 1, Accept)
	f = reopen(t, f)
	admit(t, f, b, 1, Duplicate)
}

func TestASecondProcessIsRefused(t *testing.T) {
	f := open(t, path(t))
	if _, err := Open(f.table.path); err == nil || !strings.Contains(err.Error(), "zester-peel already runs with this data directory") {
		t.Errorf("%v", err)
	}
}

func TestADamagedFileRefusesWhatMayHaveRun(t *testing.T) {
	known, lost, late := wire.NewJID(), wire.NewJID(), jidOf(t, time.Now().Add(time.Hour))
	old := jidOf(t, time.Now().Add(-time.Hour))
	for name, damage := range map[string]func([]byte) []byte{
		"a flipped bit":   func(b []byte) []byte { b[len(header)+slotSize+3] ^= 4; return b },
		"a lost slot":     func(b []byte) []byte { clear(b[len(header)+slotSize:][:slotSize]); return b },
		"cut short":       func(b []byte) []byte { return b[:len(header)+slotSize+7] },
		"empty":           func([]byte) []byte { return nil },
		"another file":    func(b []byte) []byte { copy(b, "#!/bin/sh"); return b },
		"one byte longer": func(b []byte) []byte { return append(b, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			file := path(t)
			written(t, file, []wire.JID{known, lost, wire.NewJID()})
			damaged := damage(read(t, file))
			write(t, file, damaged)
			f := open(t, file)
			if !errors.Is(f.Damage(), ErrDamaged) || !strings.Contains(f.Damage().Error(), file+".damaged") {
				t.Errorf("damage: %v", f.Damage())
			}
			if kept := read(t, file+".damaged"); string(kept) != string(damaged) {
				t.Error("the damaged file was not kept as it was")
			}
			for range 2 {
				for _, jid := range []wire.JID{known, lost, old} {
					v, err := f.Admit(jid, 1)
					if v == Accept || v == Refuse && !errors.Is(err, ErrDamaged) {
						t.Errorf("%d, %v", v, err)
					}
				}
				if v, _ := f.Admit(late, 1); v != Accept && v != Duplicate {
					t.Errorf("a job made later: %d", v)
				}
				f = reopen(t, f)
				if f.Damage() != nil {
					t.Errorf("found again: %v", f.Damage())
				}
			}
		})
	}
}

func TestDamageLosesOnlyWhatItHit(t *testing.T) {
	file := path(t)
	jobs := jids(3)
	written(t, file, jobs)
	data := read(t, file)
	data[len(header)+slotSize] ^= 1
	write(t, file, data)
	f := open(t, file)
	admit(t, f, jobs[0], 1, Duplicate)
	admit(t, f, jobs[2], 1, Duplicate)
	if v, err := f.Admit(jobs[1], 1); v != Refuse || !errors.Is(err, ErrDamaged) {
		t.Errorf("%d, %v", v, err)
	}
}

func FuzzParse(f *testing.F) {
	slot := record{kind: finished, jid: wire.NewJID(), number: 1}.encode()
	f.Add([]byte(header+string(slot[:])+string(slot[:])), true)
	f.Add([]byte(header+string(make([]byte, slotSize))+string(slot[:])), true)
	f.Add([]byte(header+string(slot[:slotSize-1])), true)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if whole && len(data) <= fileSize {
			data = append(data, make([]byte, fileSize-len(data))...)
		}
		c := parse(data)
		if c.damage == nil && len(data) != fileSize {
			t.Errorf("%d bytes are no damage", len(data))
		}
		for _, r := range c.records {
			slot := r.encode()
			if r.kind == finished && !strings.Contains(string(data), string(slot[:])) {
				t.Errorf("%+v was made up", r)
			}
		}
	})
}

func FuzzOneWrongByte(f *testing.F) {
	jobs := jids(4)
	sound := make([]byte, fileSize)
	copy(sound, header)
	for i, jid := range jobs {
		slot := record{kind: finished, jid: jid, number: 1}.encode()
		copy(sound[len(header)+i*slotSize:], slot[:])
	}
	f.Add(uint(0), byte(1))
	f.Add(uint(len(header)+slotSize), byte(1))
	f.Add(uint(len(header)+3*slotSize), byte(1))
	f.Add(uint(len(header)+4*slotSize), byte(1))
	f.Add(uint(len(header)+5*slotSize), byte(1))
	f.Fuzz(func(t *testing.T, at uint, flip byte) {
		at %= uint(fileSize)
		data := append([]byte{}, sound...)
		data[at] ^= flip
		c := parse(data)
		slot := (int(at) - len(header)) / slotSize
		if int(at) < len(header) {
			slot = -1
		}
		unfinished := slot == len(jobs)-1 || slot == len(jobs) // what a crash can leave, too
		if (c.damage != nil) != (flip != 0 && !unfinished) {
			t.Errorf("byte %d of slot %d: %v", at, slot, c.damage)
		}
		want := len(jobs)
		if flip != 0 && slot >= 0 && slot < len(jobs) {
			want--
		}
		if len(c.records) != want {
			t.Errorf("byte %d of slot %d: %d records", at, slot, len(c.records))
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	f := open(b, path(b))
	for b.Loop() {
		if v, err := f.Admit(wire.NewJID(), 1); v != Accept {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	name := path(b)
	written(b, name, jids(slots))
	for b.Loop() {
		f, err := Open(name)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestJobsWithoutAResultAreKnownAfterACrash(t *testing.T) {
	name := path(t)
	before := jids(3)
	written(t, name, before) // by a version that did not record results
	f := open(t, name)
	a, b, c := wire.NewJID(), wire.NewJID(), wire.NewJID()
	admit(t, f, a, 1, Accept)
	admit(t, f, b, 1, Accept)
	admit(t, f, c, 4, Accept)
	for _, end := range []Admission{{a, 1}, {b, 7}, {c, 3}, {before[0], 1}, {wire.NewJID(), 1}} {
		if err := f.Finish(end.JID, end.Epoch); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := f.Unfinished(); !slices.Equal(got, []Admission{{b, 1}, {c, 4}}) || f.IsUnfinished(a) || !f.IsUnfinished(b) {
			t.Errorf("%v", got)
		}
		admit(t, f, a, 1, Duplicate)
		admit(t, f, c, 4, Duplicate)
		f = reopen(t, f)
	}
	admit(t, f, b, 2, Accept) // a master took the job over
	if err := errors.Join(f.Finish(b, 1), f.Finish(c, 4)); err != nil {
		t.Fatal(err)
	}
	for range slots { // the file is written anew
		if err := f.store(record{kind: finished, jid: before[1], number: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := reopen(t, f).Unfinished(); !slices.Equal(got, []Admission{{b, 2}}) {
		t.Errorf("%v", got)
	}
}

// An admission that was not flushed does not count: /dev/null takes every write and no flush.
func TestAnAdmissionIsFlushed(t *testing.T) {
	f := open(t, path(t))
	file := f.table.file
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f.table.file = null
	jid := wire.NewJID()
	if got, err := f.Admit(jid, 1); got != Refuse || err == nil {
		t.Errorf("verdict %d, %v", got, err)
	}
	f.table.file = file
	admit(t, f, jid, 1, Accept)
}
