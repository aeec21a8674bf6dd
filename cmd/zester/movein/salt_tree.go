package movein

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path"
	"regexp"
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
	to, err := c.selection(all, dir)
	if err != nil {
		return err
	}
	for name, f := range all {
		if c.isTemplate(string(f.text), "") {
			return refuse("argument source: a directory with a template: give its files as file.managed")
		}
		if _, ok := c.add(to, name, f.text); !ok {
			return refuse("argument source: a directory with a secret")
		}
	}
	c.args["source"] = path.Join(to, dir)
	c.modesOf(all, to)
	return nil
}

// selection leaves the files of a directory that include_pat and exclude_pat select, and returns the folder of the repo
// for the directory. Parts of a directory have a folder of their own.
func (c *conversion) selection(all map[string]served, dir string) (folder string, err error) {
	include, hasInclude := c.take("include_pat")
	exclude, hasExclude := c.take("exclude_pat")
	if !hasInclude && !hasExclude {
		return saltFiles, nil
	}
	if hasExclude && c.left["clean"] == true {
		return "", refuse("argument exclude_pat: with clean, which would remove what it names on the host: " +
			"file.managed for each file, without clean")
	}
	for name := range all {
		relative := strings.TrimPrefix(name, dir+"/")
		isIncluded, err1 := c.matchesAny(relative, include, "include_pat")
		isExcluded, err2 := c.matchesAny(relative, exclude, "exclude_pat")
		if err := cmp.Or(err1, err2); err != nil {
			return "", err
		}
		if hasInclude && !isIncluded || isExcluded {
			delete(all, name)
		}
	}
	sum := crc32.ChecksumIEEE(fmt.Append(nil, include, exclude))
	return path.Join(c.source.texts, "part-"+strconv.FormatUint(uint64(sum), 16)), nil
}

// matchesAny reports whether a path matches one of the patterns of an argument: E@ and a regular expression, or a glob.
func (c *conversion) matchesAny(name string, patterns any, argument string) (bool, error) {
	if patterns == nil {
		return false, nil
	}
	all, ok := texts(patterns)
	if !ok {
		return false, refuse("argument %s: a value of another form", argument)
	}
	for _, pattern := range all {
		expression, isExpression := strings.CutPrefix(pattern, "E@")
		if !isExpression {
			if glob(pattern, name) {
				return true, nil
			}
			continue
		}
		re, err := regexp.Compile(expression)
		if err != nil {
			return false, refuse("argument %s: %v", argument, err)
		}
		if re.MatchString(name) {
			return true, nil
		}
	}
	return false, nil
}

// modesOf reads which modes the files of a directory get. folder is where the directory is in the repo.
func (c *conversion) modesOf(all map[string]served, folder string) {
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
			c.programs = append(c.programs, path.Join(folder, name))
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
