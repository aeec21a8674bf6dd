package plan_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// endsAfter is a context that ends after it was asked some times.
type endsAfter struct {
	context.Context
	asked, after int
}

func (c *endsAfter) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

func TestACompileEndsWhenItsContextDoes(t *testing.T) {
	tree := fstest.MapFS{
		"top.yaml":        {Data: []byte("base:\n  '*': [a]\n  'web-*': [b]\n")},
		"settings/a.yaml": {Data: []byte("x: 1\n")},
		"settings/b.yaml": {Data: []byte("y: 1\n")},
	}
	fleet := peelindex.New()
	fleet.Put("web-01", nil)
	fleet.Put("db-01", nil)
	c := plan.NewCompiler()
	const asked = 4 // before two files and two signatures
	for after := range asked {
		ctx := &endsAfter{t.Context(), 0, after}
		c.Until(ctx)
		if p, err := c.Compile(tree, fleet); !errors.Is(err, context.Canceled) || p != nil || ctx.asked != after+1 {
			t.Errorf("after %d: asked %d times, %v", after, ctx.asked, err)
		}
	}
	c.Until(&endsAfter{t.Context(), 0, asked})
	if p, err := c.Compile(tree, fleet); err != nil || len(p.Peels) != 2 || p.Peels["web-01"].Digest == p.Peels["db-01"].Digest {
		t.Errorf("a compile that does not end: %v", err)
	}
}
