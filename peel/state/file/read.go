//go:build linux

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// maxRead bounds the content that Read returns, in bytes: with the rest of a result it fits into a message of the bus.
const maxRead = 256 << 10

// Read describes a file as Describe does, and returns its content. A directory or a link has none. It follows no link
// that another user may have made. Files of own, files below directories of own, and files of a master are an error.
func Read(name string, own []string) (Description, []byte, error) {
	d, err := Describe(name)
	if err != nil || d.Kind != "file" {
		return d, nil, err
	}
	before, err := host.New().Stat(name)
	if err != nil {
		return d, nil, err
	}
	dir, base, err := safefs.Parent(name)
	if err != nil {
		return d, nil, err
	}
	defer dir.Close()
	if err := refuseOwn(path.Join(dir.Path(), base), own); err != nil {
		return d, nil, err
	}
	content, err := dir.ReadStored(base, maxRead)
	if err != nil {
		return d, nil, err
	}
	after, err := dir.Stat(base)
	if err == nil && after != before {
		err = fmt.Errorf("%s changed while it was read; try again", name)
	}
	return d, content, err
}

// ofMaster is a file that the data directory of each master has.
const ofMaster = "run.id"

// refuseOwn returns an error if a path without links is or is below one of own, or the data directory of a master. It
// compares files and not names, so a bind mount of a directory is the directory.
func refuseOwn(name string, own []string) error {
	var infos []fs.FileInfo
	for _, at := range own {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			infos = append(infos, info)
		}
	}
	for at := name; ; at = path.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		for _, its := range infos {
			if os.SameFile(info, its) {
				return fmt.Errorf("%s is not read: %s belongs to the peel that runs this", name, at)
			}
		}
		if _, err := os.Lstat(path.Join(at, ofMaster)); err == nil && info.IsDir() {
			return fmt.Errorf("%s is not read: %s is the data directory of a master", name, at)
		}
		if at == "/" {
			return nil
		}
	}
}
