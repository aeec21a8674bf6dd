package state

import (
	"math"
	"regexp"
	"sync"
)

// A shape is a regular expression and a greatest length in bytes. The length is not part of the expression, because
// {1,256} compiles to 256 instructions. The expression is compiled when it is first used: most programs use few of
// them.
type shape struct {
	compiled func() *regexp.Regexp
	most     int
}

const anyLength = math.MaxInt

func newShape(pattern string, most int) shape {
	return shape{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) }), most}
}

// MatchString reports whether a text has the shape.
func (s shape) MatchString(text string) bool {
	return len(text) <= s.most && s.compiled().MatchString(text)
}
