package reconciler

import (
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// readRing takes identities that have changed, and has the newest revision judged again. Those of before stay where the
// files cannot be read.
func (t *term) readRing() {
	ring, err := sops.ReadRing(t.r.o.Identities...)
	if err != nil {
		t.r.log.Error("identities not read, those of before stay", "err", err)
		return
	}
	if ring.Equal(t.r.ring) {
		return
	}
	t.r.ring = ring
	t.compiler.UseRing(ring)
	t.tried, t.stale = gitrepo.Hash{}, true
	t.r.log.Info("identities have changed")
}

// sealable holds back the peels of a plan that are to have secrets and have no key to seal them to.
func (t *term) sealable(p *plan.Plan, err error) (*plan.Plan, error) {
	if err != nil {
		return nil, err
	}
	return publish.HoldBack(p, t.fleet), nil
}
