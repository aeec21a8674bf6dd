//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// A User is an account.
type User struct {
	Exists   bool
	Name     string
	UID, GID uint32
	Comment  string
	Home     string
	Shell    string
	Hash     string // of the password, if it was read
}

// A Group is a group of accounts.
type Group struct {
	Exists  bool
	Name    string
	GID     uint32
	Members []string
}

// SetUser plans an account.
func (w *World) SetUser(u User) { w.users[u.Name] = u }

// SetGroup plans a group.
func (w *World) SetGroup(g Group) { w.groups[g.Name] = g }

// User finds an account by name or number, in all databases of the host. One that does not exist is no error.
func (w *World) User(ctx context.Context, name string) (User, error) {
	if u, ok := w.users[name]; ok {
		return u, nil
	}
	fields, err := w.lookUp(ctx, "passwd", name, 7)
	if err != nil || fields == nil {
		return User{Name: name}, errors.Join(err, w.mayMake("user", name))
	}
	uid, err1 := strconv.ParseUint(fields[2], 10, 32)
	gid, err2 := strconv.ParseUint(fields[3], 10, 32)
	return User{
		Exists:  true,
		Name:    fields[0],
		UID:     uint32(uid),
		GID:     uint32(gid),
		Comment: fields[4],
		Home:    fields[5],
		Shell:   fields[6],
	}, errors.Join(err1, err2)
}

// Group finds a group by name or number. One that does not exist is no error.
func (w *World) Group(ctx context.Context, name string) (Group, error) {
	if g, ok := w.groups[name]; ok {
		return g, nil
	}
	fields, err := w.lookUp(ctx, "group", name, 4)
	if err != nil || fields == nil {
		return Group{Name: name}, errors.Join(err, w.mayMake("group", name))
	}
	gid, err := strconv.ParseUint(fields[2], 10, 32)
	g := Group{Exists: true, Name: fields[0], GID: uint32(gid)}
	if fields[3] != "" {
		g.Members = strings.Split(fields[3], ",")
	}
	return g, err
}

// IDs returns the numbers of the users and groups in the files of the host and of those that are planned.
func (w *World) IDs() (users, groups map[uint32]bool, err error) {
	users, groups = map[uint32]bool{}, map[uint32]bool{}
	for file, ids := range map[string]map[uint32]bool{"passwd": users, "group": groups} {
		lines, err := entries(file)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range lines {
			if id, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				ids[uint32(id)] = true
			}
		}
	}
	for _, u := range w.users {
		users[u.UID] = users[u.UID] || u.Exists
	}
	for _, g := range w.groups {
		groups[g.GID] = groups[g.GID] || g.Exists
	}
	return users, groups, nil
}

// MainGroups returns the numbers of the primary groups of the users in the host's file.
func (w *World) MainGroups() (map[string]uint32, error) {
	lines, err := entries("passwd")
	of := make(map[string]uint32, len(lines))
	for _, f := range lines {
		if gid, err := strconv.ParseUint(f[3], 10, 32); err == nil {
			of[f[0]] = uint32(gid)
		}
	}
	for name, u := range w.users {
		if delete(of, name); u.Exists {
			of[name] = u.GID
		}
	}
	return of, err
}

// PasswordHash returns the hash of a user's password on the host, empty if there is none.
func PasswordHash(name string) (string, error) {
	lines, err := entries("shadow")
	for _, f := range lines {
		if f[0] == name {
			return f[1], err
		}
	}
	return "", err
}

// entries returns the fields of the lines of a file such as /etc/passwd that have at least four.
func entries(file string) (lines [][]string, err error) {
	data, err := os.ReadFile("/etc/" + file)
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) >= 4 {
			lines = append(lines, f)
		}
	}
	return lines, err
}

// A table is a file of accounts as it was read.
type table struct {
	info  fs.FileInfo
	lines [][]string
}

// entries is like the function of the same name. It reads a file again only if it is another one than before.
func (w *World) entries(file string) ([][]string, error) {
	info, err := os.Stat("/etc/" + file)
	if err != nil {
		return nil, err
	}
	old := w.tables[file]
	if old.info != nil && os.SameFile(old.info, info) && old.info.Size() == info.Size() &&
		old.info.ModTime().Equal(info.ModTime()) {
		return old.lines, nil
	}
	lines, err := entries(file)
	if err == nil {
		w.tables[file] = table{info, lines}
	}
	return lines, err
}

// lookUp finds one entry; nil if there is none. Most are in the file of the host, which costs no process; the name
// service switch knows the others.
func (w *World) lookUp(ctx context.Context, database, key string, fields int) ([]string, error) {
	lines, _ := w.entries(database)
	for _, f := range lines {
		if len(f) == fields && f[0] == key {
			return f, nil
		}
	}
	cmd := exec.CommandContext(ctx, "getent", "--", database, key)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look up %s in %s: %w", key, database, err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	list := strings.Split(string(line), ":")
	if len(list) != fields || list[0] != key && list[2] != key {
		return nil, fmt.Errorf("cannot look up %s in %s: getent gives %.200q", key, database, line)
	}
	return list, nil
}
