package movein

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// recurse copies a directory.
func recurse(c *conversion) error {
	value, _ := c.take("source")
	names, ok := texts(value)
	if !ok || len(names) != 1 || !strings.HasPrefix(names[0], "salt://") {
		return refuse("argument source: not one directory of salt://")
	}
	keepsLinks := c.left["keep_symlinks"] == true
	if c.left["dir_mode"] == keepMode {
		c.take("dir_mode")
		c.note("argument dir_mode: keep is left out: a directory gets 0755")
	}
	dir := path.Clean(strings.TrimPrefix(names[0], "salt://"))
	if dir == "." {
		return refuse("argument source: all that Salt serves")
	}
	found, hasEmpty := false, false
	all := map[string]served{}
	for _, root := range slices.Backward(c.source.roots) { // the first root wins
		files, isEmpty, err := directoryOf(root, dir, keepsLinks)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			continue
		}
		if errors.Is(err, errLeadsOut) {
			return refuse("argument source: %s", leadsOut)
		}
		if err != nil {
			return err
		}
		found, hasEmpty = true, hasEmpty || isEmpty
		maps.Copy(all, files)
	}
	if !found {
		return refuse("argument source: a directory that is not below --roots")
	}
	if hasEmpty && c.left["include_empty"] == true {
		c.note("argument include_empty: a directory without files is left out, Git has none: give it as file.directory")
	}
	for name, f := range all {
		if c.isTemplate(string(f.text), "") {
			return refuse("argument source: a directory with a template: give its files as file.managed")
		}
		if _, ok := c.add(saltFiles, name, f.text); !ok {
			return refuse("argument source: a directory with a secret")
		}
	}
	c.args["source"] = path.Join(saltFiles, dir)
	c.modesOf(all)
	return nil
}

// modesOf reads which modes the files of a directory get.
func (c *conversion) modesOf(all map[string]served) {
	switch c.left["file_mode"] {
	case nil:
		c.note(forAll + "a file that somebody made executable is so no more: Salt leaves its mode, as there is no " +
			"file_mode")
		return
	case keepMode:
		c.take("file_mode")
	default:
		return
	}
	modes := map[string]bool{}
	for _, f := range all {
		modes[f.mode] = true
	}
	if len(modes) == 1 {
		c.left["file_mode"] = slices.Collect(maps.Keys(modes))[0]
		return
	}
	for name, f := range all {
		if bits, _ := strconv.ParseUint(f.mode, 8, 12); bits&0o111 != 0 {
			c.programs = append(c.programs, path.Join(saltFiles, name))
		}
		if f.mode != "0755" && f.mode != "0644" {
			c.note("argument file_mode: keep is left out: a file gets 0755 if somebody may execute it, else 0644")
		}
	}
}

// directoryOf returns the files below a directory, and whether it has an empty directory. It takes a link to a file for
// the file, unless links are kept.
func directoryOf(root fs.FS, dir string, keepsLinks bool) (files map[string]served, hasEmpty bool, err error) {
	files = map[string]served{}
	size := 0
	err = fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			below, err := fs.ReadDir(root, name)
			hasEmpty = hasEmpty || len(below) == 0
			return err
		}
		if !d.Type().IsRegular() && keepsLinks {
			return refuse("argument keep_symlinks: a directory with links: give each as file.symlink")
		}
		info, err := fs.Stat(root, name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return refuse("argument source: a directory with a link to another one: copy it in the place of the link")
		}
		text, err := fs.ReadFile(root, name)
		files[name] = served{name, text, modeOf(info)}
		if size += len(text); size > 64<<20 {
			return refuse("argument source: a directory of more than 64 MiB")
		}
		return err
	})
	return files, hasEmpty, err
}
