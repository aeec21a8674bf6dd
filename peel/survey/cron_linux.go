package survey

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"path"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// Bounds of a survey. All texts together fit into a message of the bus, sealed.
const (
	maxNames = 1000      // of one directory
	maxTable = 256 << 10 // bytes
	maxTexts = 512 << 10 // bytes of all tables
	maxSkips = 200
)

// ReadCron reads the tables of cron of the host whose root directory is root. It reports what it could not read.
func ReadCron(root string) Cron {
	r := cronReader{root: root, found: Cron{Tables: []Table{}, Skipped: []Skip{}, Timers: []string{}}}
	r.start()
	r.file("/etc/crontab", "")
	r.directory("/etc/cron.d", false)
	for _, dir := range []string{"/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron"} {
		r.directory(dir, true)
	}
	r.others()
	return r.found
}

// A cronReader collects the tables of one host.
type cronReader struct {
	root     string
	owner    uint32 // of the root directory: root
	isDebian bool
	bytes    int // of all texts
	found    Cron
}

// start looks at whose the host is, and which cron it has.
func (r *cronReader) start() {
	dir, err := safefs.Open(r.root)
	if err == nil {
		r.owner, _, _ = dir.Owner()
		dir.Close()
	}
	if dir, err = safefs.Open(path.Join(r.root, "/var/spool/cron/crontabs")); err == nil {
		r.isDebian = true
		dir.Close()
	}
}

func (r *cronReader) skip(file, format string, args ...any) {
	switch len(r.found.Skipped) {
	case maxSkips:
		return
	case maxSkips - 1:
		file = ""
		format = "more files are skipped than the %d that are listed"
		args = []any{maxSkips - 1}
	}
	r.found.Skipped = append(r.found.Skipped, Skip{file, fmt.Sprintf(format, args...)})
}

// directory reads the tables in a directory. isUsers: a table is of the user of its name.
func (r *cronReader) directory(name string, isUsers bool) {
	for _, file := range r.list(name) {
		reason := r.skippedName(file)
		switch at := path.Join(name, file); {
		case isUsers && notTables[file]:
		case isUsers:
			r.file(at, file)
		case reason != "":
			r.skip(at, "%s", reason)
		default:
			r.file(at, "")
		}
	}
}

// notTables are names in /var/spool/cron that are no users: the directories of tables, of at, and of a file system.
var notTables = map[string]bool{
	"crontabs": true, "tabs": true, "atjobs": true, "atspool": true, "lastrun": true, "lost+found": true,
}

// list returns the names in a directory. One that is absent has none.
func (r *cronReader) list(name string) []string {
	dir, err := safefs.Open(path.Join(r.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var names []string
	if err == nil {
		names, err = dir.List()
		dir.Close()
	}
	if err != nil {
		r.skip(name, "%s", causeOf(err))
	}
	if len(names) > maxNames {
		r.skip(name, "of %d files the first %d are read", len(names), maxNames)
		names = names[:maxNames]
	}
	return names
}

// causeOf returns why a file could not be read, without its path, which stands beside it.
func causeOf(err error) string {
	var onPath *fs.PathError
	if errors.As(err, &onPath) {
		return "cannot be read: " + onPath.Err.Error()
	}
	return "cannot be read: " + err.Error()
}

// skippedName says why cron does not read a file of /etc/cron.d with a name, empty if it does.
func (r *cronReader) skippedName(name string) string {
	if r.isDebian {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return "the cron of Debian does not read it: its name has a character beside letters, digits, _ and -"
		}
		return ""
	}
	for _, end := range []string{"~", ".rpmsave", ".rpmorig", ".rpmnew", ".cfsaved"} {
		if strings.HasSuffix(name, end) {
			return "cron does not read it: its name ends with " + end
		}
	}
	if name[0] == '.' || name[0] == '#' {
		return "cron does not read it: its name begins with " + name[:1]
	}
	return ""
}

// file reads a table. owner is whose table it is; if it is empty, its lines name their user.
func (r *cronReader) file(name, owner string) {
	dir, base, err := safefs.Parent(path.Join(r.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.skip(name, "%s", causeOf(err))
		return
	}
	defer dir.Close()
	info, err := dir.Stat(base)
	switch {
	case err != nil:
		r.skip(name, "%s", causeOf(err))
		return
	case info.Kind == safefs.Absent:
		return
	}
	if reason := r.refuse(info, owner); reason != "" {
		r.skip(name, "%s", reason)
		return
	}
	text, err := dir.Read(base, maxTable)
	switch {
	case err != nil:
		r.skip(name, "%s", causeOf(err))
	case r.bytes+len(text) > maxTexts:
		r.skip(name, "all tables together have more than %d bytes; read it with zester import crontab", maxTexts)
	default:
		r.bytes += len(text)
		r.found.Tables = append(r.found.Tables, Table{File: name, User: owner, Bytes: len(text), Text: string(text)})
	}
}

// refuse says why cron does not run a table: another user can have written it.
func (r *cronReader) refuse(info safefs.Info, owner string) string {
	switch {
	case info.Kind != safefs.File:
		return fmt.Sprintf("it is %s, which is not read", info.Kind)
	case info.Mode&0o022 != 0:
		return fmt.Sprintf("cron does not run it: other users can write it, its mode is %04o", info.Mode)
	case info.Links > 1:
		return fmt.Sprintf("cron does not run it: the file has %d names", info.Links)
	case info.UID == r.owner:
		return ""
	case owner == "":
		return fmt.Sprintf("cron does not run it: it belongs to the user %s and not to root", nameOf(info.UID))
	}
	if u, err := user.Lookup(owner); err == nil && u.Uid != strconv.FormatUint(uint64(info.UID), 10) {
		return fmt.Sprintf("cron does not run it: it belongs to the user %s and not to %s", nameOf(info.UID), owner)
	}
	return ""
}

func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// others lists what starts jobs beside the tables.
func (r *cronReader) others() {
	if dir, base, err := safefs.Parent(path.Join(r.root, "/etc/anacrontab")); err == nil {
		if info, err := dir.Stat(base); err == nil && info.Kind != safefs.Absent {
			r.skip("/etc/anacrontab", "its lines have no times: write an entry with interval for each that is not in "+
				"/etc/crontab already")
		}
		dir.Close()
	}
	for _, unit := range r.list("/etc/systemd/system/timers.target.wants") {
		if strings.HasSuffix(unit, ".timer") {
			r.found.Timers = append(r.found.Timers, unit)
		}
	}
}
