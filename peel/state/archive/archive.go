//go:build linux

// Package archive has the function of states for archives: [Store.Extracted].
//
// Guarantees:
//   - Nothing is written before the whole archive was read and checked: the number of its files, its bytes, and that no
//     name or link leads out of it. Devices, pipes and setuid bits are refused or left out.
//   - Files are written as package safefs does, so no user can direct one elsewhere.
//   - A state holds if the archive is the one that was extracted, and each of its files, directories and links has the
//     kind, mode, owner, size, target and time of change that it had then. Contents are not read.
//   - What another state decides of a file, see [Claims], is neither compared nor written.
//
// Known gaps: the times of files are those of the extraction. Files that only an earlier archive had stay. Links belong
// to root. A hard link to a file of another state becomes a copy of what that state wrote.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A Store knows what was extracted. Its directory is made by the first extraction.
type Store struct{ Dir string }

// A stamp says what was extracted into a directory.
type stamp struct {
	Path    string  `json:"path"`
	SHA256  string  `json:"sha256"` // of the archive
	Strip   uint32  `json:"strip,omitempty"`
	UID     uint32  `json:"uid"`
	GID     uint32  `json:"gid"`
	Entries []entry `json:"entries"`
}

// Extracted plans archive.extracted. claims are those of the other states.
func (s Store) Extracted(ctx context.Context, w *host.World, a *state.ArchiveExtracted,
	in file.Inputs, claims Claims,
) ([]host.Step, error) {
	want, err := wantedStamp(ctx, w, a)
	if err != nil {
		return nil, err
	}
	x := extraction{store: s, world: w, args: a, want: want, claims: claims}
	if !state.IsRemote(a.Source) {
		content, err := in.Source(ctx, a.Source)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content.Data)
		x.data, x.want.SHA256 = content.Data, hex.EncodeToString(sum[:])
	}
	info, err := w.Stat(a.Path)
	if err != nil {
		return nil, err
	}
	if info.Kind != safefs.Absent && info.Kind != safefs.Directory {
		return nil, fmt.Errorf("%s is %s, not a directory", a.Path, info.Kind)
	}
	attributes := state.FileDirectory{Path: a.Path, User: a.User, Group: a.Group, MakeDirs: a.MakeDirs}
	steps, err := file.Directory(ctx, w, &attributes, nil)
	if err != nil {
		return nil, err
	}
	why, err := s.differs(w, x.want, claims)
	if err != nil || why == "" {
		return steps, err
	}
	extract := host.Step{
		Change:  host.Change{Do: "extract", What: a.Path, Before: why},
		Apply:   x.run,
		Predict: func(w *host.World) { w.Doubt(a.Path, "an archive would be extracted there") },
	}
	extract.Change.After = fmt.Sprintf("SHA-256 %.12s…", x.want.SHA256)
	if info.Kind == safefs.Directory { // its owner changes last, as run changes those below it
		return append([]host.Step{extract}, steps...), nil
	}
	return append(steps, extract), nil
}

// wantedStamp returns the stamp of a state without its entries.
func wantedStamp(ctx context.Context, w *host.World, a *state.ArchiveExtracted) (stamp, error) {
	want := stamp{
		Path: a.Path, SHA256: a.SHA256, Strip: a.Strip, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
	}
	if a.User != "" {
		u, err := w.User(ctx, a.User)
		if err != nil {
			return want, err
		}
		if !u.Exists {
			return want, w.Lacks("there is no user %q on this host", a.User)
		}
		want.UID = u.UID
	}
	if a.Group != "" {
		g, err := w.Group(ctx, a.Group)
		if err != nil {
			return want, err
		}
		if !g.Exists {
			return want, w.Lacks("there is no group %q on this host", a.Group)
		}
		want.GID = g.GID
	}
	return want, nil
}

// file returns where the stamp of a directory is.
func (s Store) file(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".json")
}

// load returns the stamp of a directory, nil if nothing was extracted there.
func (s Store) load(dir string) (*stamp, error) {
	data, err := os.ReadFile(s.file(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var got stamp
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what was extracted into %s: %w", dir, err)
	}
	return &got, nil
}

func (s Store) save(done stamp) error {
	data, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.file(done.Path), data, 0o600)
}

// differs returns how the host differs from the archive that was extracted. The text is empty if it does not.
func (s Store) differs(w *host.World, want stamp, claims Claims) (string, error) {
	got, err := s.load(want.Path)
	switch {
	case err != nil:
		return "", err
	case got == nil:
		return "not extracted yet", nil
	case got.SHA256 != want.SHA256 || got.Strip != want.Strip || got.UID != want.UID || got.GID != want.GID:
		return fmt.Sprintf("SHA-256 %.12s…", got.SHA256), nil
	}
	for _, e := range got.Entries {
		name := path.Join(want.Path, e.Name)
		claim := claims.of(name)
		if claim&Whole != 0 {
			continue
		}
		info, err := w.Stat(name)
		if err != nil {
			return "", err
		}
		if !e.is(info, want, claim) {
			return e.Name + " differs", nil
		}
	}
	return "", nil
}

// is reports whether a file is as it was extracted, except in what another state claims.
func (e entry) is(info safefs.Info, of stamp, claim Claim) bool {
	free := func(c Claim) bool { return claim&c == 0 }
	switch {
	case info.Kind != e.Kind:
		return false
	case e.Kind == safefs.Symlink:
		return info.Target == e.Target
	case free(Mode) && info.Mode != e.Mode, free(User) && info.UID != of.UID, free(Group) && info.GID != of.GID:
		return false
	case e.Kind == safefs.Directory:
		return true
	}
	return !free(Content) || info.Size == e.Size && info.Modified.UnixNano() == e.Modified
}
