package strictyaml

import (
	"strconv"
	"strings"
)

// path is the way from the document down to a value. Its text is only made when there is an error, so that all elements
// of a collection share one, which is moved on.
type path struct {
	parent *path
	key    string // empty for an element of a list
	index  int
}

func (p *path) String() string {
	var steps []string
	for ; p != nil; p = p.parent {
		switch {
		case p.key == "":
			steps = append(steps, "["+strconv.Itoa(p.index)+"]")
		case p.parent == nil:
			steps = append(steps, p.key)
		default:
			steps = append(steps, "."+p.key)
		}
	}
	var b strings.Builder
	for i := len(steps) - 1; i >= 0; i-- {
		b.WriteString(steps[i])
	}
	return b.String()
}
