//go:build linux

package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/state/download"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// An extraction brings the files of an archive to the host.
type extraction struct {
	store  Store
	world  *host.World
	args   *state.ArchiveExtracted
	want   stamp
	claims Claims
	data   []byte // the archive, if it is of the config repo
}

func (x *extraction) run(ctx context.Context) error {
	if err := os.MkdirAll(x.store.Dir, 0o700); err != nil {
		return err
	}
	from := &source{
		data: bytes.NewReader(x.data), size: int64(len(x.data)), format: x.args.Format(), strip: x.args.Strip,
	}
	if state.IsRemote(x.args.Source) {
		f, err := x.download(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		from.data, from.size = f, info.Size()
	}
	listed, err := list(from)
	if err != nil {
		return fmt.Errorf("%s: nothing was extracted: %w", path.Base(x.args.Source), err)
	}
	if err := x.extract(ctx, from, listed); err != nil {
		return err
	}
	done := x.want
	done.Entries = listed.entries
	return x.store.save(done)
}

// download returns a file without a name that has the archive.
func (x *extraction) download(ctx context.Context) (*os.File, error) {
	f, err := os.CreateTemp(x.store.Dir, "download-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = download.Get(ctx, x.args.Source, x.args.SHA256, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// extract writes all entries of a listing, and notes in it how they are on the host. The directories above an entry are
// before it in the listing. Owners change from the last to the first: [safefs.Dir.Own] refuses a directory of root with
// files in a directory of a user.
func (x *extraction) extract(ctx context.Context, from *source, listed *listing) error {
	for i := range listed.entries {
		if e := &listed.entries[i]; e.Kind == safefs.Directory {
			if err := x.in(e, x.makeDirectory); err != nil {
				return err
			}
		}
	}
	err := from.each(func(read entry, content io.Reader) error {
		e := &listed.entries[listed.index[read.Name]]
		if err := context.Cause(ctx); err != nil || e.Kind == safefs.Directory {
			return err
		}
		return x.in(e, func(d *safefs.Dir, base string, e *entry) error { return x.file(d, base, e, content) })
	})
	if err != nil {
		return err
	}
	for i := range slices.Backward(listed.entries) {
		if e := &listed.entries[i]; e.Kind == safefs.Directory {
			if err := x.in(e, x.ownDirectory); err != nil {
				return err
			}
		}
	}
	d, err := safefs.Open(x.args.Path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Flush()
}

// claim returns what other states decide of an entry.
func (x *extraction) claim(e *entry) Claim { return x.claims.of(path.Join(x.args.Path, e.Name)) }

// in runs f in the directory of an entry, unless the entry is another state's.
func (x *extraction) in(e *entry, f func(d *safefs.Dir, base string, e *entry) error) error {
	if x.claim(e)&Whole != 0 {
		return nil
	}
	d, base, err := safefs.Parent(path.Join(x.args.Path, e.Name))
	if err != nil {
		return err
	}
	defer d.Close()
	return f(d, base, e)
}

func (x *extraction) attributes(e *entry) safefs.Attributes {
	return safefs.Attributes{UID: x.want.UID, GID: x.want.GID, Mode: e.Mode, ModeOnly: true}
}

func (x *extraction) makeDirectory(d *safefs.Dir, base string, e *entry) error {
	info, err := d.Stat(base)
	switch {
	case err != nil:
		return err
	case info.Kind == safefs.Absent:
		return d.Mkdir(base, x.attributes(e))
	case info.Kind != safefs.Directory:
		return fmt.Errorf("%s is %s, not a directory", path.Join(d.Path(), base), info.Kind)
	}
	return nil
}

// ownDirectory changes owner and mode of a directory, except what another state claims.
func (x *extraction) ownDirectory(d *safefs.Dir, base string, e *entry) error {
	info, err := d.Stat(base)
	claim := x.claim(e)
	if err != nil || e.is(info, x.want, claim) {
		return err
	}
	a := x.attributes(e)
	if claim&User != 0 {
		a.UID = info.UID
	}
	if claim&Group != 0 {
		a.GID = info.GID
	}
	if claim&Mode != 0 {
		a.Mode, a.ModeOnly = info.Mode, false
	}
	return d.Own(base, a)
}

// copy writes the content of another entry to w.
func (x *extraction) copy(entry string, w io.Writer) error {
	d, base, err := safefs.Parent(path.Join(x.args.Path, entry))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Copy(base, w)
}

// file writes a file or a symbolic link.
func (x *extraction) file(d *safefs.Dir, base string, e *entry, content io.Reader) error {
	name := path.Join(d.Path(), base)
	info, err := d.Stat(base)
	if err != nil {
		return err
	}
	if info.Kind == safefs.Directory || info.Kind == safefs.Other {
		return fmt.Errorf("%s is %s, and the archive has a file or link there", name, info.Kind)
	}
	if err := x.world.KeepOld(name); err != nil {
		return err
	}
	if e.Kind == safefs.Symlink {
		return d.Symlink(base, e.Target, safefs.File)
	}
	fill := func(w io.Writer) error { _, err := io.Copy(w, content); return err }
	if e.same != "" {
		fill = func(w io.Writer) error { return x.copy(e.same, w) }
	}
	staged, err := d.StageLoose(base, fill, x.attributes(e))
	if err != nil {
		return err
	}
	if err := staged.Commit(); err != nil {
		return err
	}
	info, err = d.Stat(base)
	e.Size, e.Modified = info.Size, info.Modified.UnixNano()
	return err
}
