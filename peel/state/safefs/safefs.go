//go:build linux

// Package safefs changes files for root in directories that other users may write.
//
// [Open] and [Parent] walk to a directory, component by component; the methods of [Dir] then name files in it. [Dir.Stage]
// writes a file that [Staged.Commit] puts at its place.
//
// Guarantees:
//   - A symbolic link on the way is followed only if a trusted user (root, or the user of this process) owns it and the
//     directory that it is in. The last component of a path is never followed.
//   - From a directory of another user the walk leads only to what this user owns. So a user can direct root to files of
//     his own and to no others.
//   - At any time a file that is written has its old content or its new content, also after a crash, and its new content
//     has its final owner and mode. Extended attributes, and with them access lists, are those of the old file.
//   - [Dir.RemoveAll] follows no link and leaves what is mounted below.
//
// Known gap: a mandatory access policy such as SELinux gets the label that the old file had; a new file gets the default
// of its directory.
package safefs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the links that one walk follows, as the kernel does.
const maxLinks = 40

// Kind is the type of a file.
type Kind uint8

// The kinds of files. Other is a device, a socket or a pipe.
const (
	Absent Kind = iota
	File
	Directory
	Symlink
	Other
)

func (k Kind) String() string {
	return [...]string{"absent", "a file", "a directory", "a symbolic link", "a device, socket or pipe"}[k]
}

// Info describes a file.
type Info struct {
	Kind     Kind
	Mode     uint32 // the lower 12 bits: permissions, setuid, setgid, sticky
	UID, GID uint32
	Size     int64
	Target   string // of a symbolic link
	Modified time.Time
}

// An UnsafeError says that a path leads through a place that another user controls.
type UnsafeError struct{ Path, Why string }

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s is not safe to use: %s", e.Path, e.Why)
}

// A Dir is an open directory. Close it after use.
type Dir struct {
	fd   int
	path string
	info Info
}

// Close releases the directory.
func (d *Dir) Close() { _ = unix.Close(d.fd) }

// Path returns the path without the links that were followed.
func (d *Dir) Path() string { return d.path }

// trusted reports whether a user can already do what this process does.
func trusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// Open walks to a directory. The path is absolute and clean. An error of a missing component is [fs.ErrNotExist].
func Open(name string) (*Dir, error) {
	w := walk{links: maxLinks}
	return w.to(name)
}

// Parent walks to the directory of a path and returns the last component too.
func Parent(name string) (*Dir, string, error) {
	if name == "/" {
		return nil, "", &fs.PathError{Op: "open", Path: name, Err: errors.New("the root has no parent")}
	}
	d, err := Open(path.Dir(name))
	return d, path.Base(name), err
}

// A walk follows a path and counts its links.
type walk struct{ links int }

func (w *walk) to(name string) (*Dir, error) {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("the path is not absolute and clean")}
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	d := &Dir{fd: fd, path: "/"}
	if d.info, err = statFD(fd); err != nil {
		d.Close()
		return nil, &fs.PathError{Op: "stat", Path: "/", Err: err}
	}
	if name == "/" {
		return d, nil
	}
	for part := range strings.SplitSeq(name[1:], "/") {
		next, err := w.step(d, part)
		d.Close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// step goes from a directory to one in it, or to where a trusted link points.
func (w *walk) step(d *Dir, part string) (*Dir, error) {
	at := path.Join(d.path, part)
	fd, err := unix.Openat(d.fd, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: at, Err: err}
	}
	info, err := statFD(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	if why := unsafe(d.info, info); why != "" {
		_ = unix.Close(fd)
		return nil, &UnsafeError{at, why}
	}
	switch info.Kind {
	case Directory:
		return &Dir{fd: fd, path: at, info: info}, nil
	case Symlink:
		defer func() { _ = unix.Close(fd) }()
		return w.follow(d, fd, at, info)
	}
	_ = unix.Close(fd)
	return nil, &fs.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
}

// follow goes where a link in d points.
func (w *walk) follow(d *Dir, fd int, at string, info Info) (*Dir, error) {
	if !trusted(info.UID) || !trusted(d.info.UID) || othersWrite(d.info) {
		return nil, &UnsafeError{at, "it is a symbolic link that another user may have made"}
	}
	if w.links--; w.links < 0 {
		return nil, &fs.PathError{Op: "open", Path: at, Err: unix.ELOOP}
	}
	target, err := readlink(fd, "")
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	if !path.IsAbs(target) {
		target = path.Join(d.path, target)
	}
	return w.to(path.Clean(target))
}

// unsafe says why the way from a directory to a file in it is not safe, empty if it is.
func unsafe(dir, file Info) string {
	if !trusted(dir.UID) && file.UID != dir.UID {
		return "the directory that it is in belongs to another user, and it does not belong to that user"
	}
	if othersWrite(dir) && dir.Mode&unix.S_ISVTX == 0 && !trusted(file.UID) && file.UID != dir.UID {
		return "the directory that it is in can be written by others, and it belongs to one of them"
	}
	return ""
}

// othersWrite reports whether users other than the owner may write a directory.
func othersWrite(dir Info) bool { return dir.Mode&0o022 != 0 }

func statFD(fd int) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Info{}, err
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) Info {
	kind := Other
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		kind = File
	case unix.S_IFDIR:
		kind = Directory
	case unix.S_IFLNK:
		kind = Symlink
	}
	return Info{
		Kind: kind, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Size: st.Size,
		Modified: time.Unix(st.Mtim.Unix()),
	}
}

func readlink(fd int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Stat describes a file in the directory without following it. A missing one is [Absent].
func (d *Dir) Stat(name string) (Info, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, d.fail("stat", name, err)
	}
	info := infoOf(&st)
	if info.Kind == Symlink {
		if info.Target, err = readlink(d.fd, name); err != nil {
			return Info{}, d.fail("readlink", name, err)
		}
	}
	return info, nil
}

func (d *Dir) fail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(d.path, name), Err: err}
}

// open opens a regular file or a directory in the directory, and nothing that opening would have an effect on.
func (d *Dir) open(name string, flags int) (*os.File, Info, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, Info{}, d.fail("open", name, err)
	}
	info, err := statFD(fd)
	if err == nil && info.Kind != File && info.Kind != Directory {
		err = fmt.Errorf("it is %s", info.Kind)
	}
	if err == nil {
		if why := unsafe(d.info, info); why != "" {
			err = &UnsafeError{path.Join(d.path, name), why}
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, Info{}, d.fail("open", name, err)
	}
	return os.NewFile(uintptr(fd), path.Join(d.path, name)), info, nil
}

// Read returns the content of a file. More than limit bytes are an error.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, _, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = d.fail("read", name, fmt.Errorf("it has more than %d bytes", limit))
	}
	return data, err
}

// List returns the names in the directory, sorted.
func (d *Dir) List() ([]string, error) {
	f, _, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	entries, err := os.ReadDir("/proc/self/fd/" + fmt.Sprint(f.Fd()))
	if err != nil {
		return nil, d.fail("read", "", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Attributes are the owner and mode that a file should have.
type Attributes struct {
	UID, GID uint32
	Mode     uint32 // 12 bits
}

// A Staged file is complete and not yet at its place. End it with Commit or Discard.
type Staged struct {
	dir        *Dir
	temp, name string
}

// Stage writes a new file beside name, with its owner, mode and the extended attributes of the file that it will replace.
func (d *Dir) Stage(name string, content []byte, a Attributes) (*Staged, error) {
	s := &Staged{dir: d, name: name, temp: ".zester-" + strings.ToLower(rand.Text())}
	fd, err := unix.Openat(d.fd, s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, d.fail("create", s.temp, err)
	}
	f := os.NewFile(uintptr(fd), s.Path())
	if err = s.fill(f, content, a); err != nil {
		_ = f.Close()
		s.Discard()
		return nil, err
	}
	if err = f.Close(); err != nil {
		s.Discard()
		return nil, err
	}
	return s, nil
}

// Path returns where the staged file is now.
func (s *Staged) Path() string { return path.Join(s.dir.path, s.temp) }

func (s *Staged) fill(f *os.File, content []byte, a Attributes) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := s.copyXattrs(f); err != nil {
		return err
	}
	if err := own(int(f.Fd()), a); err != nil {
		return s.dir.fail("change the owner or mode of", s.name, err)
	}
	return f.Sync()
}

// own sets owner and mode. The mode comes last, because a change of the owner clears setuid.
func own(fd int, a Attributes) error {
	now, err := statFD(fd)
	if err != nil {
		return err
	}
	if now.UID != a.UID || now.GID != a.GID {
		if err := unix.Fchown(fd, int(a.UID), int(a.GID)); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, a.Mode)
}

// copyXattrs gives a staged file the extended attributes of the file at its place.
func (s *Staged) copyXattrs(to *os.File) error {
	from, info, err := s.dir.open(s.name, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) { // ELOOP: a symbolic link, which is replaced
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if info.Kind != File {
		return nil
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(from.Fd()), buf)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return s.dir.fail("read the attributes of", s.name, err)
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		size, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value[:size], 0)
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !(errors.Is(err, unix.EPERM) && strings.HasPrefix(name, "security.")) {
			return s.dir.fail("copy the attribute "+name+" of", s.name, err)
		}
	}
	return nil
}

// Commit puts the file at its place and flushes the directory.
func (s *Staged) Commit() error {
	if err := unix.Renameat(s.dir.fd, s.temp, s.dir.fd, s.name); err != nil {
		s.Discard()
		return s.dir.fail("replace", s.name, err)
	}
	return s.dir.sync()
}

// Discard removes the staged file.
func (s *Staged) Discard() { _ = unix.Unlinkat(s.dir.fd, s.temp, 0) }

func (d *Dir) sync() error {
	f, _, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

// Own changes owner and mode of a file or directory.
func (d *Dir) Own(name string, a Attributes) error {
	f, _, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := own(int(f.Fd()), a); err != nil {
		return d.fail("change the owner or mode of", name, err)
	}
	return nil
}

// Mkdir makes a directory.
func (d *Dir) Mkdir(name string, a Attributes) error {
	if err := unix.Mkdirat(d.fd, name, 0o700); err != nil {
		return d.fail("make the directory", name, err)
	}
	if err := d.Own(name, a); err != nil {
		return err
	}
	return d.sync()
}

// Symlink makes a symbolic link, or changes the target of one.
func (d *Dir) Symlink(name, target string) error {
	temp := ".zester-" + strings.ToLower(rand.Text())
	if err := unix.Symlinkat(target, d.fd, temp); err != nil {
		return d.fail("make the link", name, err)
	}
	now, err := d.Stat(name)
	if err == nil && now.Kind != Absent && now.Kind != Symlink {
		err = d.fail("make the link", name, fmt.Errorf("there is %s", now.Kind))
	}
	if err == nil {
		if e := unix.Renameat(d.fd, temp, d.fd, name); e != nil {
			err = d.fail("make the link", name, e)
		}
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0)
		return err
	}
	return d.sync()
}

// RemoveAll removes a file, or a directory with all that is below it. A missing one is no error. A mount point is an error,
// and what is mounted stays; what was removed until then is gone.
func (d *Dir) RemoveAll(name string) error {
	info, err := d.Stat(name)
	if err != nil || info.Kind == Absent {
		return err
	}
	own, err := mountOf(d.fd, "")
	if err != nil {
		return d.fail("stat", "", err)
	}
	err = d.removeAll(name, own)
	return errors.Join(err, d.sync())
}

// removeAll removes what is on one mount, and flushes nothing.
func (d *Dir) removeAll(name string, mount uint64) error {
	switch m, err := mountOf(d.fd, name); {
	case err != nil:
		return d.fail("stat", name, err)
	case m != mount:
		return d.fail("remove", name, errors.New("something is mounted there"))
	}
	err := unix.Unlinkat(d.fd, name, 0)
	if err != unix.EISDIR {
		if err != nil {
			return d.fail("remove", name, err)
		}
		return nil
	}
	if err := d.empty(name, mount); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR); err != nil {
		return d.fail("remove", name, err)
	}
	return nil
}

// empty removes all that is in a directory.
func (d *Dir) empty(name string, mount uint64) error {
	fd, err := unix.Openat(d.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return d.fail("open", name, err)
	}
	sub := &Dir{fd: fd, path: path.Join(d.path, name)}
	defer sub.Close()
	if sub.info, err = statFD(fd); err != nil {
		return d.fail("stat", name, err)
	}
	names, err := sub.List()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := sub.removeAll(n, mount); err != nil {
			return err
		}
	}
	return nil
}

// mountOf identifies the mount that a file is on. A bind mount has an ID of its own.
func mountOf(fd int, name string) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err
}

// Owner returns who owns the directory, and whether that is a trusted user.
func (d *Dir) Owner() (uid, gid uint32, isTrusted bool) {
	return d.info.UID, d.info.GID, trusted(d.info.UID)
}
