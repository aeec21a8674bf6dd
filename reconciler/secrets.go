package reconciler

import (
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
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

// sealedTo is the key to which the settings of a peel are sealed, empty if they hold no secrets.
func (t *term) sealedTo(id target.PeelID, e *plan.Effective) settings.Key {
	if _, secret := e.Secret(); !secret {
		return ""
	}
	return settings.Key(t.fleet.Key(id))
}

// sealable holds back the peels of a plan that are to have secrets and have told no key to seal them to.
func (t *term) sealable(p *plan.Plan, err error) (*plan.Plan, error) {
	if err != nil {
		return nil, err
	}
	behind := map[target.PeelID]strictyaml.Error{}
	for id, at := range p.Secrets() {
		switch {
		case t.fleet.Key(id) != "":
		case t.fleet.PendingKey(id) != "":
			behind[id] = strictyaml.Error{Pos: at, Msg: "the key to seal its secrets to is not signed by the peel's credential; upgrade zester-peel there, or compare the key and approve it: zester peel rekey " + string(id)}
		default:
			behind[id] = strictyaml.Error{Pos: at, Msg: "the peel has told no key to seal its secrets to; upgrade zester-peel there"}
		}
	}
	if len(behind) == 0 {
		return p, nil
	}
	return p.HoldBack(behind), nil
}
