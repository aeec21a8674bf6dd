//go:build linux

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// Limits of what is kept of files that states replace or remove.
const (
	maxKeptFile  = 8 << 20  // bytes of a file
	maxKept      = 64 << 20 // bytes of all files
	maxKeptRuns  = 20
	maxKeptFiles = 1000 // files, directories and links of one run
)

const (
	keptRun   = "%012d"
	keptIndex = "index"
)

// A Kept describes a file, directory or link as it was before a run replaced or removed it.
type Kept struct {
	Run    int       `json:"run"` // higher numbers are newer
	Time   time.Time `json:"time"`
	Path   string    `json:"path"`
	Kind   string    `json:"kind"` // "file", "directory" or "link"
	Mode   string    `json:"mode,omitempty"`
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	Size   int64     `json:"size,omitempty"`
	Target string    `json:"target,omitempty"` // of a link
	File   string    `json:"file,omitempty"`   // the name of the content in the directory of the run
	Follow bool      `json:"follow,omitempty"` // the path goes through links of other users
}

// keeper keeps what one run replaces or removes, in a directory of its own below dir, whose files root alone can read.
type keeper struct {
	dir   string     // of all runs
	run   int        // 0: nothing is kept yet
	seen  int        // files of this run
	runs  []keptSize // oldest first, with this one
	total int64      // bytes of all runs
}

// keptSize is how many bytes of contents a run keeps.
type keptSize struct {
	run  int
	size int64
}

// keep keeps what is at a path and below it. It leaves out devices, what is over a limit and what is not safe to read.
// A full disk is no error, because states make room too.
func (k *keeper) keep(links safefs.Links, name string) error {
	d, base, err := links.Parent(name)
	if err == nil {
		defer d.Close()
		err = k.entry(links, d, base, name)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return nil
	}
	return fmt.Errorf("nothing was changed, because the old %s cannot be kept: %w", name, err)
}

func (k *keeper) entry(links safefs.Links, d *safefs.Dir, base, name string) error {
	info, err := d.Stat(base)
	if err != nil || k.seen >= maxKeptFiles {
		return err
	}
	e := Kept{Time: time.Now().UTC(), Path: name, Mode: fmt.Sprintf("%04o", info.Mode), UID: info.UID, GID: info.GID}
	e.Follow = links == safefs.UserLinks
	var content []byte
	switch info.Kind {
	case safefs.File:
		if info.Size > maxKeptFile {
			return nil
		}
		content, err = d.Read(base, maxKeptFile)
		e.Kind, e.Size = "file", int64(len(content))
	case safefs.Directory:
		e.Kind = "directory"
	case safefs.Symlink:
		e.Kind, e.Target = "link", info.Target
	default:
		return nil
	}
	if _, isUnsafe := errors.AsType[*safefs.UnsafeError](err); isUnsafe {
		return nil
	}
	if err == nil {
		err = k.store(e, content)
	}
	if err != nil || info.Kind != safefs.Directory {
		return err
	}
	return k.below(links, name)
}

func (k *keeper) below(links safefs.Links, name string) error {
	d, err := links.Open(name)
	if _, isUnsafe := errors.AsType[*safefs.UnsafeError](err); isUnsafe {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.List()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := k.entry(links, d, n, path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// store writes one entry, the content first, after it has made room.
func (k *keeper) store(e Kept, content []byte) error {
	if k.run == 0 {
		if err := k.open(); err != nil {
			return err
		}
	}
	if fits, err := k.makeRoom(int64(len(content))); err != nil || !fits {
		return err
	}
	k.seen++
	k.total += int64(len(content))
	e.Run = k.run
	if e.Kind == "file" {
		e.File = strconv.Itoa(k.seen)
		if err := os.WriteFile(filepath.Join(k.path(k.run), e.File), content, 0o600); err != nil {
			return err
		}
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(k.path(k.run), keptIndex), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func (k *keeper) path(run int) string { return filepath.Join(k.dir, fmt.Sprintf(keptRun, run)) }

// open finds what earlier runs have kept, and makes the directory of this run.
func (k *keeper) open() error {
	runs, err := keptRuns(k.dir)
	if err != nil {
		return err
	}
	for _, run := range runs {
		entries, err := os.ReadDir(k.path(run))
		if err != nil {
			return err
		}
		size := int64(0)
		for _, e := range entries {
			if info, err := e.Info(); err == nil && e.Name() != keptIndex {
				size += info.Size()
			}
		}
		k.runs = append(k.runs, keptSize{run, size})
		k.total += size
	}
	run := 1
	if len(runs) > 0 {
		run = runs[len(runs)-1] + 1
	}
	if err := os.MkdirAll(k.path(run), 0o700); err != nil {
		return err
	}
	k.run, k.runs = run, append(k.runs, keptSize{run, 0})
	return nil
}

// makeRoom removes the oldest runs until so many bytes more are within the limits. It reports false if this run alone
// has too many.
func (k *keeper) makeRoom(more int64) (fits bool, err error) {
	for k.total+more > maxKept || len(k.runs) > maxKeptRuns {
		if k.runs[0].run == k.run {
			return false, nil
		}
		if err := os.RemoveAll(k.path(k.runs[0].run)); err != nil {
			return false, err
		}
		k.total -= k.runs[0].size
		k.runs = k.runs[1:]
	}
	return true, nil
}

// keptRuns returns the numbers of the runs that something is kept of, oldest first.
func keptRuns(dir string) (runs []int, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && e.Name() == fmt.Sprintf(keptRun, n) {
			runs = append(runs, n)
		}
	}
	slices.Sort(runs)
	return runs, err
}

// entries returns what is kept of a run, in the order in which it was kept. A line that a crash cut off is left out.
func (k *keeper) entries(run int) (all []Kept, err error) {
	data, err := os.ReadFile(filepath.Join(k.path(run), keptIndex))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(data) {
		var e Kept
		if json.Unmarshal(line, &e) == nil {
			all = append(all, e)
		}
	}
	return all, err
}

// Kept returns what is kept of files that states replaced or removed, the newest run first.
func (r *Runner) Kept() (all []Kept, err error) {
	k := r.keeper()
	runs, err := keptRuns(k.dir)
	for _, run := range slices.Backward(runs) {
		entries, e := k.entries(run)
		all, err = append(all, entries...), errors.Join(err, e)
	}
	return all, err
}

func (r *Runner) keeper() *keeper { return &keeper{dir: filepath.Join(r.o.Dir, "kept")} }

// Restore puts back what was at a path and below it before a run changed it: the run of a number, or the newest one if
// that is 0. What is there now is kept first, so that a restore can be taken back. It returns what it restored.
func (r *Runner) Restore(ctx context.Context, name string, run int) (restored []Kept, err error) {
	unlock, err := lock(ctx, r.o.Lock, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := r.Kept()
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(all, func(e Kept) bool {
		return e.Path != name && !strings.HasPrefix(e.Path, name+"/") || run != 0 && e.Run != run
	})
	if len(chosen) == 0 {
		return nil, fmt.Errorf("nothing is kept of %s; state.kept lists what is", name)
	}
	source, now := r.keeper(), r.keeper()
	contents := make([][]byte, len(chosen))
	for i, e := range chosen { // before anything is kept, which may remove the oldest run
		if e.Run == chosen[0].Run && e.File != "" {
			if contents[i], err = os.ReadFile(filepath.Join(source.path(e.Run), filepath.Base(e.File))); err != nil {
				return nil, err
			}
		}
	}
	for i, e := range chosen {
		if e.Run != chosen[0].Run || slices.ContainsFunc(restored, func(done Kept) bool {
			return done.Path == e.Path
		}) {
			continue // of a path that the run changed twice, the first is what was there before it
		}
		if err := now.restore(e, contents[i]); err != nil {
			return restored, fmt.Errorf("cannot restore %s: %w", e.Path, err)
		}
		restored = append(restored, e)
	}
	return restored, nil
}

// restore puts one entry at its place.
func (k *keeper) restore(e Kept, content []byte) error {
	mode, err := strconv.ParseUint(e.Mode, 8, 12)
	if err != nil {
		return err
	}
	links := safefs.TrustedLinks
	if e.Follow {
		links = safefs.UserLinks
	}
	d, base, err := links.Parent(e.Path)
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := d.Stat(base)
	if err != nil {
		return err
	}
	attributes := safefs.Attributes{UID: e.UID, GID: e.GID, Mode: uint32(mode)}
	switch {
	case e.Kind == "directory" && info.Kind == safefs.Directory:
		return d.Own(base, attributes)
	case e.Kind == "directory" && info.Kind == safefs.Absent:
		return d.Mkdir(base, attributes)
	case e.Kind == "directory" || info.Kind == safefs.Directory || info.Kind == safefs.Other:
		return fmt.Errorf("there is %s", info.Kind)
	}
	if err := k.keep(links, e.Path); err != nil {
		return err
	}
	if e.Kind == "link" {
		return d.Symlink(base, e.Target, safefs.File)
	}
	staged, err := d.Stage(base, content, attributes)
	if err != nil {
		return err
	}
	return staged.Commit()
}
