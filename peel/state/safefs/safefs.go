//go:build linux

// Package safefs changes files for root in directories that other users may write.
//
// [Open] and [Parent] walk to a directory, component by component; the methods of [Dir] then name files in it.
// [Dir.Stage] writes a file that [Staged.Commit] puts at its place.
//
// Guarantees:
//   - A symbolic link on the way is followed only if a trusted user (root, or the user of this process) owns it and the
//     directory that it is in. The last component of a path is never followed.
//   - From a directory of another user the walk leads only to what this user owns, to files of root with one name, and
//     to directories of root that others cannot write: a user cannot bring those from elsewhere. So a user can direct
//     root to files in his own directories and to no others.
//   - With [UserLinks] the walk also follows links that other users may have made. Such a link leads only to a
//     directory of the owner of the link, which those who may replace the link may write as well, or which is below
//     the directory that the link is in. The check is of the open directory, so a swap after it changes nothing.
//     In the directory of a user it reads and replaces files of a third user that have one name.
//   - [Dir.Own] changes no file of a third user: one who can move files may have moved it there to have it opened.
//   - At any time a file that is written has its old content or its new content, also after a crash, and its new
//     content has its final owner and mode. Extended attributes, and with them access lists, are those of the old file
//     if a trusted user or the new owner owns it; others get in by the mode alone. [Attributes.ModeOnly] drops every
//     access list.
//   - [Staged.Commit] succeeds only if the file at the path is the one that was written, and not one that another user
//     put in its place. Until then another user may have replaced it if the directory is exposed, see [Dir.Exposed]:
//     nothing may be done with it by its path.
//   - A crash leaves at most one file beside the one that is written, which the next [Dir.Stage] of that name removes.
//   - [Dir.RemoveAll] follows no link and leaves what is mounted below.
//
// Known gap: a mandatory access policy such as SELinux gets the label that the old file had; a new file gets the
// default of its directory.
package safefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
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

// Links says which symbolic links a walk follows.
type Links uint8

const (
	TrustedLinks Links = iota // of root and of the user of this process, where no other user can replace them
	UserLinks                 // also those of other users, to directories that these may write themselves
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
	Links    uint64 // names of the file
	Target   string // of a symbolic link
	HasACL   bool   // an access list lets more users in than the mode says
	Modified time.Time
}

// An UnsafeError says that a path leads through a place that another user controls.
type UnsafeError struct {
	Path, Why string
	Strict    bool // a walk with UserLinks may get there
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("%s is not safe to use: %s", e.Path, e.Why)
}

// A Dir is an open directory. Close it after use.
type Dir struct {
	fd        int
	path      string
	info      Info
	links     Links
	swappable bool // another user can put another directory at the path
}

// Close releases the directory.
func (d *Dir) Close() { _ = unix.Close(d.fd) }

// Path returns the path without the links that were followed.
func (d *Dir) Path() string { return d.path }

// Exposed reports whether another user can put a file in the directory, or another directory at its path.
func (d *Dir) Exposed() bool { return d.swappable || !trusted(d.info.UID) || othersWrite(d.info) }

// canSwap reports whether another user can put something else in the place of a file in the directory.
func (d *Dir) canSwap(file Info) bool {
	return d.swappable || !trusted(d.info.UID) ||
		othersWrite(d.info) && (d.info.Mode&unix.S_ISVTX == 0 || !trusted(file.UID))
}

// trusted reports whether a user can already do what this process does.
func trusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// Open walks to a directory. The path is absolute and clean. An error of a missing component is [fs.ErrNotExist].
func Open(name string) (*Dir, error) { return TrustedLinks.Open(name) }

// Parent walks to the directory of a path and returns the last component too.
func Parent(name string) (*Dir, string, error) { return TrustedLinks.Parent(name) }

// Open is [Open] with other links.
func (l Links) Open(name string) (*Dir, error) {
	w := walk{links: l, left: maxLinks}
	return w.to(name)
}

// Parent is [Parent] with other links.
func (l Links) Parent(name string) (*Dir, string, error) {
	if name == "/" {
		return nil, "", &fs.PathError{Op: "open", Path: name, Err: errors.New("the root has no parent")}
	}
	d, err := l.Open(path.Dir(name))
	return d, path.Base(name), err
}

// A walk follows a path and counts its links.
type walk struct {
	links Links
	left  int // how many more links it follows
}

func (w *walk) to(name string) (*Dir, error) {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("the path is not absolute and clean")}
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	d := &Dir{fd: fd, path: "/", links: w.links}
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
	if err := d.check(part, info, fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	switch info.Kind {
	case Directory:
		return &Dir{fd: fd, path: at, info: info, links: d.links, swappable: d.canSwap(info)}, nil
	case Symlink:
		defer func() { _ = unix.Close(fd) }()
		return w.follow(d, fd, at, info)
	}
	_ = unix.Close(fd)
	return nil, &fs.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
}

// follow goes where a link in d points.
func (w *walk) follow(d *Dir, fd int, at string, link Info) (*Dir, error) {
	isTrusted := trusted(link.UID) && trusted(d.info.UID) && !othersWrite(d.info)
	if !isTrusted && w.links == TrustedLinks {
		return nil, &UnsafeError{at, "it is a symbolic link that another user may have made", true}
	}
	if w.left--; w.left < 0 {
		return nil, &fs.PathError{Op: "readlink", Path: at, Err: unix.ELOOP}
	}
	target, err := readlink(fd, "")
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	if !path.IsAbs(target) {
		target = path.Join(d.path, target)
	}
	to, err := w.to(path.Clean(target))
	if err != nil || isTrusted {
		return to, err
	}
	if why := d.leadsAstray(link, to); why != "" {
		to.Close()
		return nil, &UnsafeError{at, why, false}
	}
	to.swappable = true
	return to, nil
}

// leadsAstray says why a link in d that a user may have made must not lead to a directory, empty if it may.
func (d *Dir) leadsAstray(link Info, to *Dir) string {
	const text = "it is a symbolic link of user %d to %s, which belongs to user %d; " +
		"a link that root alone can replace may lead anywhere, and one of a user to a directory of this user"
	if !trusted(link.UID) && link.UID != to.info.UID {
		return fmt.Sprintf(text, link.UID, to.path, to.info.UID)
	}
	if !strings.HasPrefix(to.path, d.path+"/") && !writersMayWrite(d.info, to.info) {
		return fmt.Sprintf("it is a symbolic link to %s, and not all who can replace it may write there", to.path)
	}
	return ""
}

// writersMayWrite reports whether all users who may write one directory may write another one.
func writersMayWrite(dir, other Info) bool {
	everybody := other.Mode&0o002 != 0
	switch {
	case !trusted(dir.UID) && dir.UID != other.UID && !everybody:
		return false
	case dir.Mode&0o020 != 0 && (dir.GID != other.GID || other.Mode&0o020 == 0) && !everybody:
		return false
	}
	return dir.Mode&0o002 == 0 || everybody
}

// check returns an error if the way to the file fd in the directory is not safe.
func (d *Dir) check(name string, file Info, fd int) error {
	why := ""
	switch {
	case !trusted(d.info.UID) && file.UID != d.info.UID:
		why = fmt.Sprintf("it belongs to user %d, and the directory that it is in to user %d", file.UID, d.info.UID)
	case othersWrite(d.info) && d.info.Mode&unix.S_ISVTX == 0 && !trusted(file.UID) && file.UID != d.info.UID:
		why = fmt.Sprintf("it belongs to user %d, and others can write the directory that it is in", file.UID)
	}
	if why == "" || trusted(file.UID) && (isPutByOwner(file) || file.Kind == Directory && isEmpty(fd)) {
		return nil // a crash kept an empty directory from getting its owner
	}
	if d.links == UserLinks && (file.Kind == Symlink || isPutByOwner(file) || writersMayWrite(d.info, file)) {
		return nil // follow checks links
	}
	return &UnsafeError{path.Join(d.path, name), why, d.links == TrustedLinks}
}

// isPutByOwner reports whether nobody but its owner can have brought a file into a directory of another user: it has
// one name, so it is no link to a file elsewhere, or it is a directory that nobody else can write, which the kernel
// moves to another directory for its owner alone.
func isPutByOwner(file Info) bool {
	return file.Kind == File && file.Links == 1 || file.Kind == Directory && !othersWrite(file)
}

// isEmpty reports whether a directory has no files.
func isEmpty(fd int) bool {
	readable, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(readable), ".")
	defer func() { _ = f.Close() }()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
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
		Kind: kind, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Size: st.Size, Links: uint64(st.Nlink),
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
	info.HasACL = d.hasACL(name, info)
	if info.Kind == Symlink {
		if info.Target, err = readlink(d.fd, name); err != nil {
			return Info{}, d.fail("readlink", name, err)
		}
	}
	return info, nil
}

// minACL is the size of an access list that says what the mode says.
const minACL = 4 + 3*8

func (d *Dir) hasACL(name string, info Info) bool {
	if info.Kind != File && info.Kind != Directory {
		return false
	}
	n, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", d.fd, name), accessList, nil)
	return err == nil && n > minACL
}

func (d *Dir) fail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(d.path, name), Err: err}
}

// open opens a regular file or a directory in the directory, and nothing that opening would have an effect on.
func (d *Dir) open(name string, flags int) (*os.File, Info, error) {
	fd, info, err := d.descriptor(name, flags)
	if err != nil {
		return nil, Info{}, err
	}
	return os.NewFile(uintptr(fd), path.Join(d.path, name)), info, nil
}

// A descriptor is an open file. It is read without the system calls that an [os.File] needs for what may block.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// descriptor is [Dir.open] without an [os.File].
func (d *Dir) descriptor(name string, flags int) (descriptor, Info, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, Info{}, d.fail("open", name, err)
	}
	info, err := statFD(fd)
	if err == nil && info.Kind != File && info.Kind != Directory {
		err = fmt.Errorf("it is %s", info.Kind)
	}
	if err == nil {
		err = d.check(name, info, fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, Info{}, d.fail("open", name, err)
	}
	return descriptor(fd), info, nil
}

// Read returns the content of a file. More than limit bytes are an error.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	fd, info, err := d.descriptor(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(int(fd)) }()
	return d.read(fd, name, info.Size, limit)
}

// ReadStored is [Dir.Read] of a file on a disk or in memory. It is an error if the kernel makes the content, as on proc
// and sysfs: such a file may have no end, and what is read may be gone for others.
func (d *Dir) ReadStored(name string, limit int64) ([]byte, error) {
	f, info, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	kind, err := fileSystem(f)
	if err != nil {
		return nil, d.fail("statfs", name, err)
	}
	if slices.Contains(ofKernel, kind) {
		return nil, d.fail("read", name, errors.New("the kernel makes its content, and reading it may not end"))
	}
	return d.read(f, name, info.Size, limit)
}

// ofKernel are the file systems whose content the kernel makes.
var ofKernel = []uint32{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
	unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.SELINUX_MAGIC, unix.BPF_FS_MAGIC, unix.BINFMTFS_MAGIC,
}

// fileSystem returns the type of the file system that a file is on. It does not use Fd, after which a read may block a
// thread.
func fileSystem(f *os.File) (uint32, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &st) }); err != nil {
		return 0, err
	}
	return uint32(st.Type), failed
}

// read returns the content of an open file that seems to have size bytes.
func (d *Dir) read(f io.Reader, name string, size, limit int64) ([]byte, error) {
	var data bytes.Buffer
	data.Grow(int(min(size, limit)) + bytes.MinRead)
	_, err := data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = d.fail("read", name, fmt.Errorf("it has more than %d bytes", limit))
	}
	return data.Bytes(), err
}

// Copy writes the content of a file to w.
func (d *Dir) Copy(name string, w io.Writer) error {
	f, _, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return err
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
