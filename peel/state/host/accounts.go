//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// User finds an account by name, in all databases of the host. One that does not exist is no error.
func (w *World) User(ctx context.Context, name string) (User, error) {
	if u, ok := w.users[name]; ok {
		return u, nil
	}
	fields, err := getent(ctx, "passwd", name, 7)
	if err != nil || fields == nil {
		return User{Name: name}, err
	}
	uid, err1 := strconv.ParseUint(fields[2], 10, 32)
	gid, err2 := strconv.ParseUint(fields[3], 10, 32)
	return User{true, fields[0], uint32(uid), uint32(gid), fields[4], fields[5], fields[6]}, errors.Join(err1, err2)
}

// Group finds a group by name. One that does not exist is no error.
func (w *World) Group(ctx context.Context, name string) (Group, error) {
	if g, ok := w.groups[name]; ok {
		return g, nil
	}
	fields, err := getent(ctx, "group", name, 4)
	if err != nil || fields == nil {
		return Group{Name: name}, err
	}
	gid, err := strconv.ParseUint(fields[2], 10, 32)
	g := Group{Exists: true, Name: fields[0], GID: uint32(gid)}
	if fields[3] != "" {
		g.Members = strings.Split(fields[3], ",")
	}
	return g, err
}

// getent asks the name service switch for one entry; nil if there is none.
func getent(ctx context.Context, database, key string, fields int) ([]string, error) {
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
