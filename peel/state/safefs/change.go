//go:build linux

package safefs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes are the owner and mode that a file should have.
type Attributes struct {
	UID, GID uint32
	Mode     uint32 // 12 bits
	ModeOnly bool   // nobody else gets in by an access list
}

// gives reports whether the attributes let anybody but root do more with a file than it lets them do now.
func (a Attributes) gives(now Info) bool {
	return !trusted(a.UID) || a.GID != now.GID || a.Mode&^now.Mode&0o077 != 0
}

// Extended attributes with the access list of a file, and with the one of new files in a directory.
const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

// A Staged file is complete and not yet at its place. End it with Commit or Discard.
type Staged struct {
	dir        *Dir
	file       *os.File
	temp, name string
	isLoose    bool // nothing is flushed
}

// Stage writes a new file beside name, with its owner, mode and the extended attributes of the file that it will
// replace.
func (d *Dir) Stage(name string, content []byte, a Attributes) (*Staged, error) {
	return d.StageFrom(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}, a)
}

// StageFrom is [Dir.Stage] with a content that fill writes. Until fill returns nobody but root can open the file.
func (d *Dir) StageFrom(name string, fill func(w io.Writer) error, a Attributes) (*Staged, error) {
	return d.stage(&Staged{dir: d, name: name, temp: d.temp(name)}, fill, a)
}

// StageLoose is [Dir.StageFrom] without a flush of the disk: a crash may leave a file that is not complete. After many
// of them call [Dir.Flush].
func (d *Dir) StageLoose(name string, fill func(w io.Writer) error, a Attributes) (*Staged, error) {
	return d.stage(&Staged{dir: d, name: name, temp: d.temp(name), isLoose: true}, fill, a)
}

// Flush writes all that was changed on the file system of the directory to the disk.
func (d *Dir) Flush() error {
	f, _, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return unix.Syncfs(int(f.Fd()))
}

func (d *Dir) stage(s *Staged, fill func(w io.Writer) error, a Attributes) (*Staged, error) {
	fd, err := unix.Openat(d.fd, s.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, d.fail("create", s.temp, err)
	}
	s.file = os.NewFile(uintptr(fd), s.Path())
	if err = s.fill(fill, a); err != nil {
		s.Discard()
		return nil, err
	}
	return s, nil
}

// temp returns the name of a file that will replace another one. It is the same each time, so that what a crash left is
// removed by the next one that writes the same file. If it cannot be removed, because a user put a directory there, the
// name is random.
func (d *Dir) temp(name string) string {
	sum := sha256.Sum256([]byte(name))
	temp := ".zester-" + hex.EncodeToString(sum[:8])
	if err := unix.Unlinkat(d.fd, temp, 0); err != nil && err != unix.ENOENT {
		return ".zester-" + strings.ToLower(rand.Text())
	}
	return temp
}

// Path returns where the staged file is now.
func (s *Staged) Path() string { return path.Join(s.dir.path, s.temp) }

func (s *Staged) fill(fill func(w io.Writer) error, a Attributes) error {
	if err := fill(s.file); err != nil {
		return err
	}
	if err := s.copyXattrs(a.UID); err != nil {
		return err
	}
	if err := own(int(s.file.Fd()), a); err != nil {
		return s.dir.fail("change the owner or mode of", s.name, err)
	}
	if s.isLoose {
		return nil
	}
	return s.file.Sync()
}

// own sets owner and mode. The mode comes last, because a change of the owner clears setuid. A user to whom the file
// does not belong any more keeps no access list on it.
func own(fd int, a Attributes) error {
	now, err := statFD(fd)
	if err != nil {
		return err
	}
	lists := []string{accessList, defaultList}
	switch {
	case now.UID != a.UID && !trusted(now.UID):
	case a.ModeOnly:
		lists = lists[:1]
	default:
		lists = nil
	}
	for _, list := range lists {
		if err := unix.Fremovexattr(fd, list); err != nil && err != unix.ENODATA && err != unix.ENOTSUP {
			return err
		}
	}
	if now.UID != a.UID || now.GID != a.GID {
		if err := unix.Fchown(fd, int(a.UID), int(a.GID)); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, a.Mode)
}

// ofContent are attributes that were given to one content of a file: rights of a program, and signatures.
var ofContent = []string{"security.capability", "security.ima", "security.evm"}

// copyXattrs gives a staged file of a user the extended attributes of the file at its place, unless another user made
// them or they are of its content.
func (s *Staged) copyXattrs(uid uint32) error {
	from, info, err := s.dir.open(s.name, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) { // ELOOP: a symbolic link, which is replaced
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if info.Kind != File || !trusted(info.UID) && info.UID != uid {
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
		if name == "" || slices.Contains(ofContent, name) {
			continue
		}
		size, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err == nil {
			err = unix.Fsetxattr(int(s.file.Fd()), name, value[:size], 0)
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) &&
			!(errors.Is(err, unix.EPERM) && strings.HasPrefix(name, "security.")) {
			return s.dir.fail("copy the attribute "+name+" of", s.name, err)
		}
	}
	return nil
}

// Commit puts the file at its place and flushes the directory. If another user replaced the file, Commit fails: before
// the rename the old file stays; after it the path has what that user put there.
func (s *Staged) Commit() error {
	if err := s.isAt(s.temp); err != nil {
		_ = s.file.Close()
		return err
	}
	if err := unix.Renameat(s.dir.fd, s.temp, s.dir.fd, s.name); err != nil {
		s.Discard()
		return s.dir.fail("replace", s.name, err)
	}
	err := errors.Join(s.isAt(s.name), s.file.Close())
	if s.isLoose {
		return err
	}
	return errors.Join(err, s.dir.sync())
}

// isAt returns an error unless name is the file that was written.
func (s *Staged) isAt(name string) error {
	var written, is unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &written); err != nil {
		return s.dir.fail("stat", name, err)
	}
	err := unix.Fstatat(s.dir.fd, name, &is, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return s.dir.fail("stat", name, err)
	}
	if err != nil || is.Dev != written.Dev || is.Ino != written.Ino {
		return &UnsafeError{path.Join(s.dir.path, name), "another user replaced the file while it was written", false}
	}
	return nil
}

// Discard removes the staged file.
func (s *Staged) Discard() {
	_ = s.file.Close()
	_ = unix.Unlinkat(s.dir.fd, s.temp, 0)
}

func (d *Dir) sync() error {
	f, _, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

// Own changes owner and mode of a file or directory, "." for the directory itself. It is an error if another user may
// have brought the file there for what it would get: a file of a third user, or a directory of root with files. Such a
// directory may get fewer rights for root and its group.
func (d *Dir) Own(name string, a Attributes) error {
	f, info, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	isOpen := name != "." && (!trusted(d.info.UID) || othersWrite(d.info) && d.info.Mode&unix.S_ISVTX == 0)
	isFull := trusted(info.UID) && info.Kind == Directory && !isEmpty(int(f.Fd()))
	isForeign := !trusted(info.UID) && info.UID != d.info.UID
	if isOpen && (isForeign || isFull && a.gives(info)) {
		const text = "it belongs to user %d, and others may have moved it there to have its owner or mode changed"
		why := fmt.Sprintf(text, info.UID)
		return &UnsafeError{path.Join(d.path, name), why, false}
	}
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

// Symlink makes a symbolic link, or changes the target of one. over is the kind of another file that the link may
// replace.
func (d *Dir) Symlink(name, target string, over Kind) error {
	temp := d.temp(name)
	if err := unix.Symlinkat(target, d.fd, temp); err != nil {
		return d.fail("make the link", name, err)
	}
	now, err := d.Stat(name)
	if err == nil && now.Kind != Absent && now.Kind != Symlink && now.Kind != over {
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

// RemoveAll removes a file, or a directory with all that is below it. A missing one is no error. A mount point is an
// error, and what is mounted stays; what was removed until then is gone.
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
	sub := &Dir{fd: fd, path: path.Join(d.path, name), links: d.links}
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
