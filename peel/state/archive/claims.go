//go:build linux

package archive

import "path"

// A Claim is a set of what another state decides of a file.
type Claim uint8

// The elements of a [Claim].
const (
	Whole   Claim = 1 << iota // all: whether it exists, and what is below it
	Content                   // of a file that the archive brings and the other state edits
	User
	Group
	Mode
)

// Claims are what the other states decide, by path.
type Claims struct {
	At    map[string]Claim // of the path
	Below map[string]Claim // of each path below it
}

func (c Claims) of(name string) Claim {
	all := c.At[name]
	for name != "/" {
		name = path.Dir(name)
		all |= c.Below[name]
	}
	return all
}
