//go:build linux

package pkg

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// places returns what steps do to which paths, and predicts them.
func places(w *host.World, steps []host.Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Do+" "+s.What)
		s.Predict(w)
	}
	return all
}

// repositoryHost returns a host with the directories of both package managers and without files in them.
func repositoryHost() *host.World {
	w := host.New()
	for _, dir := range []string{"/etc/apt", "/etc/apt/keyrings", "/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/pki", "/etc/pki/rpm-gpg"} {
		w.NewDirectory(dir, safefs.Info{Kind: safefs.Directory, Mode: 0o755})
	}
	return w
}

func TestFilesOfARepository(t *testing.T) {
	a := &state.PkgRepoManaged{File: "zt", URIs: []string{"https://a.example", "https://b.example"}, Suites: []string{"one", "two"}, Components: []string{"main", "more"}}
	armored, binary := []byte("\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n"), []byte{0x99, 1}
	for name, c := range map[string]struct {
		tool            tool
		key             []byte
		keyPath         string
		content, list   string
		otherKey, other string // a key that is left from before, and whether it goes
	}{
		"apt": {
			tool: apt{}, list: "/etc/apt/sources.list.d/zt.sources",
			content: "# Written by zester.\nTypes: deb\nURIs: https://a.example https://b.example\nSuites: one two\nComponents: main more\n",
		},
		"apt, armored key": {
			tool: apt{}, key: armored, keyPath: "/etc/apt/keyrings/zt.asc", list: "/etc/apt/sources.list.d/zt.sources",
			content:  "# Written by zester.\nTypes: deb\nURIs: https://a.example https://b.example\nSuites: one two\nComponents: main more\nSigned-By: /etc/apt/keyrings/zt.asc\n",
			otherKey: "/etc/apt/keyrings/zt.gpg", other: "remove /etc/apt/keyrings/zt.gpg",
		},
		"apt, binary key": {
			tool: apt{}, key: binary, keyPath: "/etc/apt/keyrings/zt.gpg", list: "/etc/apt/sources.list.d/zt.sources",
			content:  "# Written by zester.\nTypes: deb\nURIs: https://a.example https://b.example\nSuites: one two\nComponents: main more\nSigned-By: /etc/apt/keyrings/zt.gpg\n",
			otherKey: "/etc/apt/keyrings/zt.asc", other: "remove /etc/apt/keyrings/zt.asc",
		},
		"dnf": {
			tool: dnf{}, list: "/etc/yum.repos.d/zt.repo",
			content:  "# Written by zester.\n[zt]\nname=zt\nbaseurl=https://a.example\n https://b.example\nenabled=1\ngpgcheck=0\n",
			otherKey: "/etc/pki/rpm-gpg/RPM-GPG-KEY-zt", other: "remove /etc/pki/rpm-gpg/RPM-GPG-KEY-zt",
		},
		"dnf, a key": {
			tool: dnf{}, key: armored, keyPath: "/etc/pki/rpm-gpg/RPM-GPG-KEY-zt", list: "/etc/yum.repos.d/zt.repo",
			content: "# Written by zester.\n[zt]\nname=zt\nbaseurl=https://a.example\n https://b.example\nenabled=1\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-zt\n",
		},
	} {
		r, err := c.tool.repository(a, c.key)
		if err != nil || r.content != c.content || r.list != c.list || r.keyPath != c.keyPath {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		w := repositoryHost()
		var want []string
		if c.key != nil {
			want = append(want, "create "+c.keyPath)
		}
		if c.otherKey != "" {
			w.SetFile(c.otherKey, safefs.Info{Kind: safefs.File, Mode: 0o644}, []byte("old"))
			want = append(want, c.other)
		}
		want = append(want, "create "+c.list)
		steps, err := r.plan(t.Context(), w, false)
		if got := places(w, steps); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q, %v", name, got, want, err)
		}
		for path, content := range map[string][]byte{c.list: []byte(c.content), c.keyPath: c.key} {
			if path == "" {
				continue
			}
			if got, err := w.Read(path, 1<<20); err != nil || string(got) != string(content) {
				t.Errorf("%s: %s has %q, %v", name, path, got, err)
			}
			if info, err := w.Stat(path); err != nil || info.Mode != 0o644 {
				t.Errorf("%s: the mode of %s is %o, %v", name, path, info.Mode, err)
			}
		}
		if again, err := r.plan(t.Context(), w, false); err != nil || len(again) > 0 {
			t.Errorf("%s: after the predicted steps: %q, %v", name, places(w, again), err)
		}
		gone, err := c.tool.repository(&state.PkgRepoManaged{File: "zt", Absent: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		steps, err = gone.plan(t.Context(), w, true)
		want = []string{"remove " + c.list}
		if c.key != nil {
			want = append(want, "remove "+c.keyPath)
		}
		if got := places(w, steps); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, removed: %q, want %q, %v", name, got, want, err)
		}
	}
	if _, err := (apt{}).repository(&state.PkgRepoManaged{File: "zt"}, nil); err == nil || !strings.Contains(err.Error(), "apt needs suites") {
		t.Errorf("%v", err)
	}
	want := []string{
		"/etc/apt/sources.list.d/zt.sources", "/etc/apt/keyrings/zt.asc", "/etc/apt/keyrings/zt.gpg",
		"/etc/yum.repos.d/zt.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-zt",
	}
	if got := RepositoryPaths(&state.PkgRepoManaged{File: "zt"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Only a change of a repository makes the lists of packages old.
func TestAChangedRepositoryMakesListsOld(t *testing.T) {
	a := &state.PkgRepoManaged{File: "zt", URIs: []string{"https://a.example"}, Suites: []string{"one"}}
	m, _ := managerOf(false, nil)
	m.world = repositoryHost()
	steps, err := m.Repository(t.Context(), a, file.Inputs{})
	if got := places(m.world, steps); err != nil || len(got) != 1 || !m.stale {
		t.Errorf("%q, %v, %v", got, m.stale, err)
	}
	m.stale = false
	if steps, err := m.Repository(t.Context(), a, file.Inputs{}); err != nil || len(steps) > 0 || m.stale {
		t.Errorf("%v, %v, %v", steps, m.stale, err)
	}
}
