package strictyaml

import (
	"strconv"
	"strings"
)

// path is the path from the document to a value. It becomes text only for an error, so all elements of a collection
// share one path, whose index or key the caller updates.
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
