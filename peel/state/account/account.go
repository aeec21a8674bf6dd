//go:build linux

// Package account has the functions of states for users and groups: [UserPresent], [UserAbsent], [GroupPresent] and
// [GroupAbsent] return the steps that are missing.
//
// Guarantees:
//   - A plan changes nothing, and names the numbers that a new user or group gets.
//   - A user keeps the groups that the state does not name, and its home directory is not moved.
//   - The hash of a password reaches chpasswd through its standard input, and is in no change and no error.
//
// Known gap: accounts of a directory service can be found but not changed.
package account

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// GroupPresent plans group.present.
func GroupPresent(ctx context.Context, w *host.World, a *state.GroupPresent) ([]host.Step, error) {
	g, err := w.Group(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	switch {
	case !g.Exists:
		gid, err := freeGroup(w, a)
		if err != nil {
			return nil, err
		}
		steps = append(steps, addGroup(a.Name, gid, a.System))
	case a.GID != nil && *a.GID != g.GID:
		change := host.Change{Do: "gid", What: a.Name, Before: id(g.GID), After: id(*a.GID)}
		steps = append(steps, step(change, func(w *host.World) {
			g.GID = *a.GID
			w.SetGroup(g)
		}, "groupmod", "--gid", id(*a.GID), "--", a.Name))
	}
	members, err := addMembers(ctx, w, a, g)
	return append(steps, members...), err
}

// addMembers plans the members that a group lacks.
func addMembers(ctx context.Context, w *host.World, a *state.GroupPresent,
	g host.Group,
) (steps []host.Step, err error) {
	for _, name := range a.Members {
		if slices.Contains(g.Members, name) {
			continue
		}
		u, err := w.User(ctx, name)
		if err != nil {
			return nil, err
		}
		if !u.Exists {
			return nil, w.Lacks("there is no user %q on this host", name)
		}
		change := host.Change{Do: "add member", What: a.Name, After: name}
		steps = append(steps, step(change, func(w *host.World) { join(w, name, []string{a.Name}) },
			"usermod", "--append", "--groups", a.Name, "--", name))
	}
	return steps, nil
}

// freeGroup returns the number of a new group.
func freeGroup(w *host.World, a *state.GroupPresent) (uint32, error) {
	if a.GID != nil {
		return *a.GID, nil
	}
	_, groups, err := w.IDs()
	if err != nil {
		return 0, err
	}
	return free("GID", a.System, func(n uint32) bool { return !groups[n] })
}

func addGroup(name string, gid uint32, system bool) host.Step {
	argv := []string{"groupadd", "--gid", id(gid)}
	if system {
		argv = append(argv, "--system")
	}
	change := host.Change{Do: "create group", What: name, After: "gid " + id(gid)}
	return step(change, func(w *host.World) {
		w.SetGroup(host.Group{Exists: true, Name: name, GID: gid})
	}, append(argv, "--", name)...)
}

// GroupAbsent plans group.absent.
func GroupAbsent(ctx context.Context, w *host.World, a *state.GroupAbsent) ([]host.Step, error) {
	g, err := w.Group(ctx, a.Name)
	if err != nil || !g.Exists {
		return nil, err
	}
	change := host.Change{Do: "remove group", What: a.Name, Before: "gid " + id(g.GID), Deletes: true}
	return []host.Step{
		step(change, func(w *host.World) { w.SetGroup(host.Group{Name: a.Name}) }, "groupdel", "--", a.Name),
	}, nil
}

// UserPresent plans user.present.
func UserPresent(ctx context.Context, w *host.World, a *state.UserPresent) ([]host.Step, error) {
	u, err := w.User(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	missing, err := missingGroups(ctx, w, a)
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	if u.Exists {
		steps, err = change(ctx, w, a, u, missing)
	} else {
		steps, err = create(ctx, w, a, missing)
	}
	if err != nil || a.Password == "" {
		return steps, err
	}
	if u.Exists && u.Hash == "" {
		if u.Hash, err = host.PasswordHash(a.Name); err != nil {
			return nil, err
		}
	}
	if u.Hash != a.Password {
		steps = append(steps, password(a))
	}
	return steps, nil
}

// missingGroups returns the groups that the state names and the user is not in.
func missingGroups(ctx context.Context, w *host.World, a *state.UserPresent) (missing []string, err error) {
	for _, name := range a.Groups {
		g, err := w.Group(ctx, name)
		if err != nil {
			return nil, err
		}
		if !g.Exists {
			return nil, w.Lacks("there is no group %q on this host", name)
		}
		if !slices.Contains(g.Members, a.Name) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// create plans a new user, with a group of its own if the state names none.
func create(ctx context.Context, w *host.World, a *state.UserPresent, groups []string) ([]host.Step, error) {
	mainGroup := a.Group
	if mainGroup == "" {
		mainGroup = a.Name
	}
	g, err := w.Group(ctx, mainGroup)
	if err != nil {
		return nil, err
	}
	if !g.Exists && a.Group != "" {
		return nil, w.Lacks("there is no group %q on this host", a.Group)
	}
	uid, err := freeUser(w, a, g.Exists)
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	if !g.Exists {
		gid := uid
		if a.UID != nil {
			if gid, err = freeGroup(w, &state.GroupPresent{System: a.System}); err != nil {
				return nil, err
			}
		}
		g = host.Group{Exists: true, Name: a.Name, GID: gid}
		steps = append(steps, addGroup(a.Name, gid, a.System))
	}
	return append(steps, add(a, uid, g, groups)), nil
}

// freeUser returns the number of a new user, which is free for its group as well.
func freeUser(w *host.World, a *state.UserPresent, hasGroup bool) (uint32, error) {
	if a.UID != nil {
		return *a.UID, nil
	}
	users, groups, err := w.IDs()
	if err != nil {
		return 0, err
	}
	return free("UID", a.System, func(n uint32) bool { return !users[n] && (hasGroup || !groups[n]) })
}

// add is the call of useradd.
func add(a *state.UserPresent, uid uint32, g host.Group, groups []string) host.Step {
	u := host.User{Exists: true, Name: a.Name, UID: uid, GID: g.GID, Home: a.Home, Shell: a.Shell}
	if u.Home == "" {
		u.Home = "/home/" + a.Name
	}
	argv := []string{"useradd", "--uid", id(uid), "--gid", id(g.GID), "--home-dir", u.Home}
	home := a.CreateHome == nil && !a.System || a.CreateHome != nil && *a.CreateHome
	argv = append(argv, map[bool]string{true: "--create-home", false: "--no-create-home"}[home])
	if a.System {
		argv = append(argv, "--system")
	}
	if len(groups) > 0 {
		argv = append(argv, "--groups", strings.Join(groups, ","))
	}
	if a.Shell != "" {
		argv = append(argv, "--shell", a.Shell)
	}
	if a.Comment != nil {
		u.Comment = *a.Comment
		argv = append(argv, "--comment", u.Comment)
	}
	what := fmt.Sprintf("uid %d, gid %d, home %s", uid, g.GID, u.Home)
	return step(host.Change{Do: "create user", What: a.Name, After: what}, func(w *host.World) {
		w.SetUser(u)
		join(w, a.Name, groups)
		if home {
			newHome(w, u)
		}
	}, append(argv, "--", a.Name)...)
}

// newHome plans the home directory that useradd makes, with the files of /etc/skel.
func newHome(w *host.World, u host.User) {
	if info, err := w.Stat(u.Home); err != nil || info.Kind != safefs.Absent {
		return
	}
	mode := uint32(0o777) &^ uint32(number("UMASK", 0o022))
	if m := number("HOME_MODE", 0); m != 0 {
		mode = uint32(m)
	}
	w.NewDirectory(u.Home, safefs.Info{Kind: safefs.Directory, Mode: mode, UID: u.UID, GID: u.GID})
	names, _ := w.List("/etc/skel") // without it the directory is empty
	for _, name := range names {
		info, err := w.Stat(path.Join("/etc/skel", name))
		if err != nil {
			continue
		}
		content, _ := w.Read(path.Join("/etc/skel", name), 1<<20)
		info.UID, info.GID = u.UID, u.GID
		w.SetFile(path.Join(u.Home, name), info, content)
	}
}

// join plans the membership of a user in groups.
func join(w *host.World, user string, groups []string) {
	for _, name := range groups {
		g, err := w.Group(context.Background(), name)
		if err == nil && !slices.Contains(g.Members, user) {
			g.Members = append(slices.Clone(g.Members), user)
			w.SetGroup(g)
		}
	}
}

// change plans what differs of a user that exists.
func change(ctx context.Context, w *host.World, a *state.UserPresent, u host.User,
	groups []string,
) (steps []host.Step, err error) {
	uid, gid, comment := u.UID, u.GID, u.Comment
	if a.UID != nil {
		uid = *a.UID
	}
	if a.Group != "" {
		g, err := w.Group(ctx, a.Group)
		if err != nil {
			return nil, err
		}
		if !g.Exists {
			return nil, w.Lacks("there is no group %q on this host", a.Group)
		}
		gid = g.GID
	}
	if a.Comment != nil {
		comment = *a.Comment
	}
	home, shell := cmp.Or(a.Home, u.Home), cmp.Or(a.Shell, u.Shell)
	for _, f := range []struct {
		do, flag, now, want string
		effect              func(u *host.User)
	}{
		{"uid", "--uid", id(u.UID), id(uid), func(u *host.User) { u.UID = uid }},
		{"gid", "--gid", id(u.GID), id(gid), func(u *host.User) { u.GID = gid }},
		{"groups", "-aG", "", strings.Join(groups, ","), func(*host.User) { join(w, a.Name, groups) }},
		{"home", "--home", u.Home, home, func(u *host.User) { u.Home = home }},
		{"shell", "--shell", u.Shell, shell, func(u *host.User) { u.Shell = shell }},
		{"comment", "--comment", u.Comment, comment, func(u *host.User) { u.Comment = comment }},
	} {
		if f.now == f.want {
			continue
		}
		steps = append(steps, step(host.Change{Do: f.do, What: a.Name, Before: f.now, After: f.want},
			func(w *host.World) {
				now, _ := w.User(ctx, a.Name)
				f.effect(&now)
				w.SetUser(now)
			}, "usermod", f.flag, f.want, "--", a.Name))
	}
	return steps, nil
}

// password is the call of chpasswd.
func password(a *state.UserPresent) host.Step {
	return host.Step{
		Change: host.Change{Do: "password", What: a.Name},
		Apply: func(ctx context.Context) error {
			return run(ctx, a.Name+":"+a.Password+"\n", "chpasswd", "--encrypted")
		},
		Predict: func(w *host.World) {
			u, _ := w.User(context.Background(), a.Name)
			u.Hash = a.Password
			w.SetUser(u)
		},
	}
}

// UserAbsent plans user.absent. userdel removes the user's own group as well.
func UserAbsent(ctx context.Context, w *host.World, a *state.UserAbsent) ([]host.Step, error) {
	u, err := w.User(ctx, a.Name)
	if err != nil || !u.Exists {
		return nil, err
	}
	argv := []string{"userdel"}
	if a.RemoveHome {
		argv = append(argv, "--remove")
	}
	steps := []host.Step{step(host.Change{Do: "remove user", What: a.Name, Before: "uid " + id(u.UID), Deletes: true},
		func(w *host.World) { w.SetUser(host.User{Name: a.Name}) }, append(argv, "--", a.Name)...)}
	if a.RemoveHome {
		info, err := w.Stat(u.Home)
		if err != nil {
			return nil, err
		}
		if info.Kind != safefs.Absent {
			steps = append(steps, host.Step{
				Change:  host.Change{Do: "remove", What: u.Home, Before: info.Kind.String(), Deletes: true},
				Predict: func(w *host.World) { w.SetFile(u.Home, safefs.Info{}, nil) },
			})
		}
	}
	own, err := goesWithUser(ctx, w, u)
	if err != nil || !own {
		return steps, err
	}
	return append(steps, host.Step{
		Change:  host.Change{Do: "remove group", What: a.Name, Deletes: true},
		Predict: func(w *host.World) { w.SetGroup(host.Group{Name: a.Name}) },
	}), nil
}

// goesWithUser reports whether userdel removes the group that has the name of the user.
func goesWithUser(ctx context.Context, w *host.World, u host.User) (bool, error) {
	g, err := w.Group(ctx, u.Name)
	if err != nil || !g.Exists || g.GID != u.GID || word("USERGROUPS_ENAB") == "no" {
		return false, err
	}
	of, err := w.MainGroups()
	for user, gid := range of {
		if user != u.Name && gid == g.GID {
			return false, err
		}
	}
	others := slices.ContainsFunc(g.Members, func(m string) bool { return m != u.Name })
	return !others, err
}

// step runs a program.
func step(c host.Change, predict func(w *host.World), argv ...string) host.Step {
	return host.Step{
		Change:  c,
		Predict: predict,
		Apply:   func(ctx context.Context) error { return run(ctx, "", argv...) },
	}
}

// run runs a program that changes accounts.
func run(ctx context.Context, stdin string, argv ...string) error {
	program, err := exec.LookPath(argv[0])
	if errors.Is(err, exec.ErrNotFound) {
		if program = "/usr/sbin/" + argv[0]; !isFile(program) {
			return fmt.Errorf(
				"this host has no %s; users and groups need the programs of the package passwd or shadow-utils",
				argv[0],
			)
		}
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Env = host.Environment()
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %.2000s", strings.Join(argv, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// free returns a number for a new user or group ("UID" or "GID"): as useradd does the one after the largest, so that
// none is given twice, or for the system's own the largest that is free.
func free(kind string, system bool, isFree func(uint32) bool) (uint32, error) {
	low, high := number(kind+"_MIN", 1000), number(kind+"_MAX", 60000)
	if system {
		low, high = number("SYS_"+kind+"_MIN", 100), number("SYS_"+kind+"_MAX", low-1)
	}
	found := uint64(0)
	for n := high; n >= low && n > 0; n-- {
		if isFree(uint32(n)) {
			found = n
		}
		if found != 0 && (system || found != n) {
			return uint32(found), nil
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("no %s from %d to %d is free", kind, low, high)
	}
	return uint32(found), nil
}

// number returns a number of /etc/login.defs.
func number(key string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(word(key), 0, 32)
	if err != nil {
		return otherwise
	}
	return n
}

// word returns a value of /etc/login.defs, empty if it has none.
func word(key string) string {
	data, _ := os.ReadFile("/etc/login.defs") // without the file the defaults hold
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			return f[1]
		}
	}
	return ""
}

func id(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
