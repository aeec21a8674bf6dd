//go:build linux

package file

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// maxRead bounds the content that Read returns, in bytes: with the rest of a result it fits into a message of the bus.
const maxRead = 256 << 10

// Read describes a file as Describe does, and returns its content. A directory or a link has none. It follows no link
// that another user may have made.
func Read(name string) (Description, []byte, error) {
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
	content, err := dir.Read(base, maxRead)
	if err != nil {
		return d, nil, err
	}
	after, err := dir.Stat(base)
	if err == nil && after != before {
		err = fmt.Errorf("%s changed while it was read; try again", name)
	}
	return d, content, err
}
