//go:build linux

package file

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// Keys plans ssh_auth.present. A line with the same key and other options or another comment is replaced. A file in the
// home of the user, and its directory, are made for the user alone.
func Keys(ctx context.Context, w *host.World, a *state.SSHAuthPresent) ([]host.Step, error) {
	add := func(lines []string) ([]string, error) {
		for _, line := range a.Keys {
			lines = withKey(lines, line)
		}
		return lines, nil
	}
	if a.File != "" {
		return edit(w, wanted{path: a.File, diff: true}, add)
	}

	name, owner, err := keyFile(ctx, w, a.User)
	if err != nil {
		return nil, err
	}
	info, err := w.Stat(name)
	if err != nil {
		return nil, err
	}
	f := wanted{path: name, diff: true}
	if info.Kind == safefs.Absent {
		f.attributes = owner
	}

	steps, err := keyFolder(w, path.Dir(name), owner)
	if err != nil {
		return nil, err
	}
	own, err := newText(w, f, 0o600, add)
	return append(steps, own...), err
}

// withKey returns the lines with one that has the key of line, and no other with that key.
func withKey(lines []string, line string) []string {
	has := hasKey(line)
	at := slices.IndexFunc(lines, has)
	if at < 0 {
		return append(slices.Clone(ended(lines)), line+"\n")
	}

	out := slices.Clone(lines[:at+1])
	if strings.TrimRight(lines[at], "\r\n") != line {
		out[at] = line + "\n"
	}
	return append(out, slices.DeleteFunc(slices.Clone(lines[at+1:]), has)...)
}

// hasKey returns a function that reports whether a line has the key of line.
func hasKey(line string) func(other string) bool {
	key, _ := state.SSHKey(line)
	return func(other string) bool {
		other = strings.TrimRight(other, "\r\n")
		found, ok := state.SSHKey(other)
		return ok && found == key && !strings.HasPrefix(strings.TrimSpace(other), "#")
	}
}

// KeysMissing plans ssh_auth.absent.
func KeysMissing(ctx context.Context, w *host.World, a *state.SSHAuthAbsent) ([]host.Step, error) {
	name := a.File
	if name == "" {
		u, err := w.User(ctx, a.User)
		if err != nil || !u.Exists {
			return nil, err
		}
		if name, _, err = keyFile(ctx, w, a.User); err != nil {
			return nil, err
		}
	}
	return edit(w, wanted{path: name, diff: true}, func(lines []string) ([]string, error) {
		for _, line := range a.Keys {
			lines = slices.DeleteFunc(slices.Clone(lines), hasKey(line))
		}
		return lines, nil
	})
}

// keyFile returns the path of the keys of a user, and the owner of what is made for them.
func keyFile(ctx context.Context, w *host.World, user string) (string, attributes, error) {
	u, err := w.User(ctx, user)
	if err != nil {
		return "", attributes{}, err
	}
	if !u.Exists {
		return "", attributes{}, w.Lacks("there is no user %q on this host", user)
	}
	return path.Join(u.Home, ".ssh/authorized_keys"), attributes{user: user, uid: &u.UID, gid: &u.GID}, nil
}

// keyFolder plans the directory of the keys. The one that it is in must be there.
func keyFolder(w *host.World, dir string, attrs attributes) ([]host.Step, error) {
	isDir, err := w.IsDirectory(dir)
	if err != nil || isDir {
		return nil, err
	}
	if _, err := parents(w, dir, false, attrs); err != nil {
		return nil, err
	}
	mode := uint32(0o700)
	attrs.mode = &mode
	return []host.Step{makeDirectory(w, dir, attrs.over(safefs.Info{}, mode))}, nil
}
