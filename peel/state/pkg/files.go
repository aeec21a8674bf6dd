//go:build linux

// File files.go reads which files the package manager keeps of installed packages, for predictions. A list that cannot
// be read is an error: without it a prediction would say that a package has no files.

package pkg

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

// addFiles adds to effects the files of the packages that go or get another version.
func (m *Manager) addFiles(ctx context.Context, effects []effect) (err error) {
	for i, e := range effects {
		if !e.remove && e.from == "" {
			continue
		}
		if effects[i].files, err = m.tool.files(ctx, e); err != nil {
			return fmt.Errorf("cannot read the files of the package %s: %w", e.name, err)
		}
	}
	return nil
}

// Doubt notes that nobody knows what becomes of packages and of their files.
func (m *Manager) Doubt(ctx context.Context, names []string) {
	for _, name := range names {
		err := m.read(ctx)
		var files host.PackageFiles
		if err == nil && m.now.versions[name] != "" {
			files, err = m.tool.files(ctx, effect{name: name})
		}
		if err != nil {
			m.world.Doubt("/", fmt.Sprintf("the files of the package %s cannot be read: %v", name, err))
			return
		}
		m.world.ReplacePackage(name, files)
	}
}

// dpkgLists is where dpkg keeps the lists of files of packages.
const dpkgLists = "/var/lib/dpkg/info/"

func (apt) files(_ context.Context, e effect) (files host.PackageFiles, err error) {
	own := listsOf(e.name, "list")
	if len(own) == 0 {
		return files, fmt.Errorf("there is no list of %s in %s", e.name, dpkgLists)
	}
	for _, list := range own {
		data, err := os.ReadFile(list)
		if err != nil {
			return files, err
		}
		for line := range strings.Lines(string(data)) {
			if p := strings.TrimSpace(line); path.IsAbs(p) && p != "/." {
				files.Paths = append(files.Paths, p)
			}
		}
	}
	if !e.remove {
		return files, nil
	}
	for _, list := range listsOf(e.name, "conffiles") {
		data, err := os.ReadFile(list)
		if err != nil {
			return files, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line) // the path may follow a word such as remove-on-upgrade
			if len(f) > 0 {
				files.Kept = append(files.Kept, f[len(f)-1])
			}
		}
	}
	files.Shared, err = sharedIn(own, files.Paths)
	return files, err
}

// listsOf returns the names of the lists of a package, which have its architecture or not.
func listsOf(name, kind string) []string {
	plain, _, _ := strings.Cut(name, ":")
	found, _ := filepath.Glob(dpkgLists + plain + ":*." + kind) // the pattern is valid: packages have plain names
	if _, err := os.Lstat(dpkgLists + plain + "." + kind); err == nil {
		found = append(found, dpkgLists+plain+"."+kind)
	}
	return found
}

// sharedIn returns those of paths that are in another list than own.
func sharedIn(own, paths []string) (shared []string, err error) {
	isOwn := make(map[string]bool, len(paths))
	for _, p := range paths {
		isOwn[p] = true
	}
	all, _ := filepath.Glob(dpkgLists + "*.list")
	for _, list := range all {
		if slices.Contains(own, list) {
			continue
		}
		data, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if p := strings.TrimSpace(line); isOwn[p] {
				shared = append(shared, p)
				delete(isOwn, p)
			}
		}
	}
	return shared, nil
}

// files asks rpm, which removes all files of a package that goes, and renames those of its configuration that were
// edited.
func (d dnf) files(ctx context.Context, e effect) (files host.PackageFiles, err error) {
	out, err := d.query(ctx, `[%{FILEFLAGS:fflags}\t%{FILEMODES:perms}\t%{FILENAMES}\n]`, e.name)
	if err != nil {
		return files, err
	}
	var directories []string
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) < 3 || !path.IsAbs(f[2]) {
			continue
		}
		files.Paths = append(files.Paths, f[2])
		if strings.HasPrefix(f[1], "d") {
			directories = append(directories, f[2])
		}
		if e.remove && strings.Contains(f[0], "c") {
			files.Copies = append(files.Copies, f[2]+".rpmsave")
		}
	}
	slices.Sort(files.Paths)
	if e.remove && len(directories) > 0 {
		files.Shared, err = d.shared(ctx, e.name, directories)
	}
	return files, err
}

// shared returns those of a package's directories that another package has too.
func (d dnf) shared(ctx context.Context, name string, directories []string) (shared []string, err error) {
	owners, err := d.query(ctx, `%{NAME}\t%{NAME}.%{ARCH}\n`, append([]string{"--file"}, directories...)...)
	if err != nil {
		return nil, err
	}
	var others []string
	for line := range strings.Lines(owners) {
		plain, full, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if plain != name && full != name {
			others = append(others, full)
		}
	}
	slices.Sort(others)
	if others = slices.Compact(others); len(others) == 0 {
		return nil, nil
	}
	out, err := d.query(ctx, `[%{FILENAMES}\n]`, others...)
	if err != nil {
		return nil, err
	}
	theirs := map[string]bool{}
	for line := range strings.Lines(out) {
		theirs[strings.TrimSuffix(line, "\n")] = true
	}
	return slices.DeleteFunc(directories, func(p string) bool { return !theirs[p] }), nil
}

// query asks rpm about installed packages.
func (dnf) query(ctx context.Context, format string, args ...string) (string, error) {
	out, err := output(ctx, "rpm", append([]string{"--query", "--queryformat", format}, args...)...)
	return string(out), err
}
