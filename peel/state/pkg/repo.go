//go:build linux

package pkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A repository is a package repository as its files.
type repository struct {
	list    string   // the path of the file that names it
	keys    []string // the paths that its key may have
	content string
	key     []byte // nil: it has none
	keyPath string
}

// Repository plans pkgrepo.managed. The lists of packages are refreshed before the next transaction.
func (m *Manager) Repository(ctx context.Context, a *state.PkgRepoManaged, in file.Inputs) ([]host.Step, error) {
	var key []byte
	if a.Key != "" && !a.Absent {
		c, err := in.Source(ctx, a.Key)
		if err != nil {
			return nil, err
		}
		key = c.Data
		if in.Note != nil {
			in.Note(a.Key, key)
		}
	}
	if m.tool == nil {
		t, err := find(m.test)
		if err != nil {
			return nil, err
		}
		m.tool = t
	}
	r, err := m.tool.repository(a, key)
	if err != nil {
		return nil, err
	}
	steps, err := r.plan(ctx, m.world, a.Absent)
	if len(steps) > 0 {
		m.stale = true
	}
	return steps, err
}

// RepositoryPaths returns the paths that the files of a repository may have, for each of the package managers.
func RepositoryPaths(a *state.PkgRepoManaged) (paths []string) {
	gone := state.PkgRepoManaged{File: a.File, Absent: true}
	for _, t := range []tool{apt{}, dnf{}} {
		r, _ := t.repository(&gone, nil) // nothing is wrong with one that is absent
		paths = append(append(paths, r.list), r.keys...)
	}
	return paths
}

// plan writes or removes the files. The key comes first, because without it the repository is refused.
func (r repository) plan(ctx context.Context, w *host.World, absent bool) (steps []host.Step, err error) {
	collect := func(more []host.Step, e error) {
		steps, err = append(steps, more...), errors.Join(err, e)
	}
	if absent {
		collect(file.Missing(w, &state.FileAbsent{Path: r.list}))
	} else if r.key != nil {
		key, no := string(r.key), false
		collect(file.Managed(ctx, w, &state.FileManaged{
			Path:     r.keyPath,
			Content:  &key,
			Mode:     "0644",
			MakeDirs: true,
			Diff:     &no,
		}, file.Inputs{}))
	}
	for _, other := range r.keys {
		if absent || other != r.keyPath {
			collect(file.Missing(w, &state.FileAbsent{Path: other}))
		}
	}
	if !absent {
		collect(file.Managed(ctx, w, &state.FileManaged{Path: r.list, Content: &r.content, Mode: "0644"},
			file.Inputs{}))
	}
	return steps, err
}

// repository is a file of the format deb822 and a key of its own, which apt accepts for this repository alone.
func (apt) repository(a *state.PkgRepoManaged, key []byte) (repository, error) {
	if len(a.Suites) == 0 && !a.Absent {
		return repository{}, errors.New("apt needs suites, such as [bookworm], or [./] for a repository without a tree")
	}
	base := "/etc/apt/keyrings/" + a.File
	r := repository{
		list: "/etc/apt/sources.list.d/" + a.File + ".sources",
		key:  key,
		keys: []string{base + ".asc", base + ".gpg"},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by zester.\nTypes: deb\nURIs: %s\nSuites: %s\n", strings.Join(a.URIs, " "),
		strings.Join(a.Suites, " "))
	if len(a.Components) > 0 {
		fmt.Fprintf(&b, "Components: %s\n", strings.Join(a.Components, " "))
	}
	if key != nil {
		r.keyPath = base + ".gpg"
		if bytes.HasPrefix(bytes.TrimSpace(key), []byte("-----BEGIN PGP")) {
			r.keyPath = base + ".asc"
		}
		fmt.Fprintf(&b, "Signed-By: %s\n", r.keyPath)
	}
	r.content = b.String()
	return r, nil
}

// repository is a file for dnf. Suites and components mean nothing to it.
func (dnf) repository(a *state.PkgRepoManaged, key []byte) (repository, error) {
	path := "/etc/pki/rpm-gpg/RPM-GPG-KEY-" + a.File
	r := repository{list: "/etc/yum.repos.d/" + a.File + ".repo", key: key, keys: []string{path}}
	check := 0
	if key != nil {
		check, r.keyPath = 1, path
	}
	r.content = fmt.Sprintf("# Written by zester.\n[%s]\nname=%[1]s\nbaseurl=%s\nenabled=1\ngpgcheck=%d\n", a.File,
		strings.Join(a.URIs, "\n "), check)
	if key != nil {
		r.content += "gpgkey=file://" + path + "\n"
	}
	return r, nil
}
