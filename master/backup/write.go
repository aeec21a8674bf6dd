package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Options are the options of [Write].
type Options struct {
	DataDir string   // of the master; snapshots are kept there until the archive is written
	Version string   // of this program
	Lacks   []string // paths of files that the configuration of the master names
}

// short are the buckets that are left out: they say which masters are alive now.
var short = []string{wire.KV(wire.BucketMasters), wire.KV(wire.BucketLeases)}

// early are copied before all other streams, in this order, and the audit log after all others.
var early = []string{wire.KV(wire.BucketActive), wire.KV(wire.BucketJobs), wire.KV(wire.BucketJobReturns)}

// durable is the stream with durable consumers: how far results are stored, and spans sent.
const durable = wire.StreamJobEvents

// order returns the place of a stream in the order in which streams are copied.
func order(name string) int {
	if name == wire.StreamAudit {
		return len(early) + 1
	}
	if i := slices.Index(early, name); i >= 0 {
		return i
	}
	return len(early)
}

// Write writes an archive with the keys in the data directory and all streams of the bus to w. The connection needs
// the permissions of [grants.Archiver].
func Write(ctx context.Context, nc *nats.Conn, o Options, w io.Writer) (Manifest, error) {
	began := time.Now().UTC().Truncate(time.Second)
	m := Manifest{Format: format, Version: o.Version, Protocol: wire.Version, Time: began, Lacks: o.Lacks}
	dir, err := os.MkdirTemp(o.DataDir, ".backup-*")
	if err != nil {
		return m, fmt.Errorf("cannot back up: %w", err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, fmt.Errorf("cannot back up: %w", err)
	}
	defer root.Close()
	if m.Streams, err = takeStreams(ctx, nc, root); err != nil {
		return m, err
	}
	contents, err := readFiles(&m, o.DataDir)
	if err != nil {
		return m, err
	}
	if err := pack(m, contents, root, w); err != nil {
		return m, fmt.Errorf("cannot write the backup: %w", err)
	}
	return m, nil
}

// takeStreams writes a snapshot of each stream into a folder.
func takeStreams(ctx context.Context, nc *nats.Conn, root *os.Root) ([]Stream, error) {
	names, err := streamNames(ctx, nc)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(short, name) })
	sorting.Func(names, func(a, b string) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b)) })
	var all []Stream
	for _, name := range names {
		s, err := takeStream(ctx, nc, root, name)
		if err != nil {
			return nil, fmt.Errorf("cannot back up the stream %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func takeStream(ctx context.Context, nc *nats.Conn, root *os.Root, name string) (s Stream, err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return untilLed(ctx, func() (Stream, error) {
		if err := errors.Join(f.Truncate(0), rewind(f)); err != nil {
			return Stream{}, err
		}
		return snapshot(ctx, nc, name, f)
	})
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// streamNames returns the names of all streams.
func streamNames(ctx context.Context, nc *nats.Conn) (names []string, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("cannot list the streams of the bus: %w", err)
	}
	return names, nil
}

// readFiles adds the keys of a data directory to the manifest and returns the contents in the same order.
func readFiles(m *Manifest, dataDir string) (contents [][]byte, err error) {
	root, err := os.OpenRoot(dataDir)
	if err != nil {
		return nil, fmt.Errorf("cannot back up the keys: %w", err)
	}
	defer root.Close()
	for _, folder := range folders {
		err := fs.WalkDir(root.FS(), folder, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name == folder {
				return nil // without REST and with a bus elsewhere a master needs no certificates
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := root.ReadFile(name)
			if err != nil {
				return err
			}
			sum := newHashed()
			_, _ = sum.Write(data)
			m.Files = append(m.Files, sum.part(filepath.ToSlash(name)))
			contents = append(contents, data)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot back up the keys: %w", err)
		}
	}
	return contents, nil
}

// pack writes the archive.
func pack(m Manifest, contents [][]byte, snapshots *os.Root, w io.Writer) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	add := func(name string, size int64, r io.Reader) error {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Time}); err != nil {
			return err
		}
		_, err := io.Copy(archive, r)
		return err
	}
	if err := add(manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for i, f := range m.Files {
		if err := add(filesFolder+f.Name, f.Size, bytes.NewReader(contents[i])); err != nil {
			return err
		}
	}
	for _, s := range m.Streams {
		f, err := snapshots.Open(s.Name)
		if err == nil {
			err = errors.Join(add(streamFolder+s.Name, s.Size, f), f.Close())
		}
		if err != nil {
			return err
		}
	}
	return archive.Close()
}
