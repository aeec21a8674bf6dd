package plan_test

import "github.com/seed-c01c3da5/zester/reconciler/plan/plantest"

var (
	tree, edit, fleet   = plantest.Tree, plantest.Edit, plantest.Fleet
	withHashes, compile = plantest.WithHashes, plantest.Compile
	values              = plantest.Values
)
