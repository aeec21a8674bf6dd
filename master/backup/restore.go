package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// RestoreOptions are the options of [Restore].
type RestoreOptions struct {
	// Replicas is the number of copies of each stream; 0: as many as there were. The embedded server keeps 1.
	Replicas int
	// Revoked is the folder of the keys of the lost master, with its revocations since the backup; empty: it is lost
	// too.
	Revoked string
}

// Restore restores an archive into an empty data directory, and its streams to a bus without streams. It calls open
// twice: it reads the archive to its end before it writes anything. From the first file to the last stream the data
// directory has a mark, so that a restore that failed or was killed can be repeated, and [CheckWhole] fails. It starts
// no master.
func Restore(ctx context.Context, b Bus, o RestoreOptions, open func() (io.Reader, error)) (Manifest, error) {
	m, files, err := readAll(open)
	if err != nil {
		return m, fmt.Errorf("cannot use the backup: %w", err)
	}
	if o.Revoked != "" {
		if err := joinNotes(files, o.Revoked); err != nil {
			return m, fmt.Errorf("cannot use the revocations in %s: %w", o.Revoked, err)
		}
	}
	replicas := o.Replicas
	if b.NATS == "" {
		replicas = 1
	}
	if err := b.begin(); err != nil {
		return m, fmt.Errorf("cannot restore to %s: %w", b.DataDir, err)
	}
	if err := placeFiles(b.DataDir, files); err != nil {
		return m, fmt.Errorf("cannot restore the keys to %s: %w", b.DataDir, err)
	}
	if err := restoreStreams(ctx, b, replicas, open); err != nil {
		return m, err
	}
	return m, b.end()
}

// end removes the mark once all that was written is on the disk.
func (b Bus) end() error {
	dir, err := os.Open(b.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("cannot write to the disk: %w", err)
	}
	if err := os.Remove(b.mark()); err != nil {
		return err
	}
	return dir.Sync()
}

// joinNotes adds the notes in a folder of keys to the files of an archive.
func joinNotes(files map[string][]byte, folder string) error {
	keys := filepath.Base(keystore.Dir("")) + "/"
	own := map[string][]byte{}
	for name, data := range files {
		if name, of := strings.CutPrefix(name, keys); of {
			own[name] = data
		}
	}
	notes, err := keystore.Notes(folder, own)
	if err != nil {
		return err
	}
	for name, note := range notes {
		joined, err := keystore.Join(name, own[name], note)
		if err != nil {
			return err
		}
		files[keys+name] = joined
	}
	return nil
}

// CheckWhole returns an error if a restore has begun to write to a data directory and has not ended.
func CheckWhole(dataDir string) error {
	mark := Bus{DataDir: dataDir}.mark()
	_, err := os.Stat(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot tell whether a restore has ended: %w", err)
	}
	return fmt.Errorf("cannot start with a part of a backup: the restore to %s has not ended (%s); "+
		"run zester-master restore again", dataDir, mark)
}

// markName is the name of the file that is in a data directory while a restore writes to it.
const markName = "restoring"

func (b Bus) mark() string { return filepath.Join(b.DataDir, markName) }

// begin marks an empty data directory. It empties a directory that has a mark: a restore wrote its files.
func (b Bus) begin() error {
	if err := private.Make(b.DataDir); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.DataDir)
	if err != nil {
		return err
	}
	marked := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == markName })
	written := append([]string{markName, filepath.Base(b.store())}, folders...)
	for _, e := range entries {
		if !marked || !slices.Contains(written, e.Name()) {
			return notEmpty(b.DataDir, e.Name())
		}
	}
	if err := os.WriteFile(b.mark(), nil, 0o600); err != nil {
		return err
	}
	if err := syncDir(b.DataDir); err != nil {
		return err
	}
	for _, name := range written[1:] {
		if err := os.RemoveAll(filepath.Join(b.DataDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// notEmpty says that a data directory has an entry. Its keys may know more revocations than the backup.
func notEmpty(dataDir, entry string) error {
	keys := keystore.Dir(dataDir)
	if entry == filepath.Base(keys) {
		return fmt.Errorf("it is not empty: it has keys; move %s away, and name it with --revoked so that what was "+
			"revoked since the backup stays revoked", keys)
	}
	return fmt.Errorf("it is not empty: it has %s; name an empty directory with --data-dir", entry)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readAll checks an archive, and returns the contents of its files by their paths in the data directory.
func readAll(open func() (io.Reader, error)) (m Manifest, files map[string][]byte, err error) {
	r, err := open()
	if err != nil {
		return m, nil, err
	}
	files = map[string][]byte{}
	var names []Part
	m, err = read(r, func(m Manifest) error {
		names = m.Files
		return nil
	}, func(i int, r io.Reader) error {
		if i >= len(names) {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		data, err := io.ReadAll(r)
		files[names[i].Name] = data
		return err
	})
	return m, files, err
}

// placeFiles writes files below a data directory.
func placeFiles(dataDir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dataDir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func restoreStreams(ctx context.Context, b Bus, replicas int, open func() (io.Reader, error)) error {
	to, err := b.open()
	if err != nil {
		return err
	}
	defer to.close()
	nc, err := to.restorer()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := checkEmpty(ctx, nc); err != nil {
		return err
	}
	if err := loadStreams(ctx, nc, replicas, open); err != nil {
		return err
	}
	if replicas == 0 {
		return nil
	}
	return keep(ctx, to, replicas)
}

func checkEmpty(ctx context.Context, nc *nats.Conn) error {
	names, err := untilLed(ctx, func() ([]string, error) { return streamNames(ctx, nc) })
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("cannot restore to this bus, which has the streams %s: "+
			"stop its masters, and empty the stores of its servers", strings.Join(names, ", "))
	}
	return nil
}

func loadStreams(ctx context.Context, nc *nats.Conn, replicas int, open func() (io.Reader, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	var m Manifest
	_, err = read(r, func(read Manifest) error {
		m = read
		return nil
	}, func(i int, r io.Reader) error {
		if i < len(m.Files) {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		s := m.Streams[i-len(m.Files)]
		if replicas > 0 {
			s.Config.Replicas = replicas
		}
		if err := load(ctx, nc, s, r); err != nil {
			return fmt.Errorf("cannot restore the stream %s: %w", s.Name, err)
		}
		return nil
	})
	return err
}

// keep stores how many copies the bus keeps, if that changes.
func keep(ctx context.Context, to *openBus, replicas int) error {
	nc, err := to.master()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	kept, err := natsd.KeptNow(ctx, js)
	if err != nil || kept.Replicas == replicas {
		return err
	}
	_, err = natsd.Change(ctx, js, bucket.Kept{Replicas: replicas})
	return err
}
