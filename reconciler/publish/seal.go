package publish

import (
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// sealingKey returns the key that the settings of a peel are sealed to, empty if they hold no secrets.
func (p *Published) sealingKey(id target.PeelID, e *plan.Effective) settings.Key {
	if _, secret := e.Secret(); !secret {
		return ""
	}
	return settings.Key(p.o.Fleet.Key(id))
}

// HoldBack returns a plan that holds back the peels with secrets that have no key to seal them to: these peels keep
// their present settings.
func HoldBack(p *plan.Plan, fleet *fleet.Fleet) *plan.Plan {
	behind := map[target.PeelID]strictyaml.Error{}
	for id, at := range p.Secrets() {
		switch {
		case fleet.Key(id) != "":
		case fleet.PendingKey(id) != "":
			behind[id] = strictyaml.Error{
				Pos: at,
				Msg: "the key to seal its secrets to is not signed by the peel's credential; " +
					"upgrade zester-peel there, or compare the key and approve it: zester peel rekey " + string(
					id,
				),
			}
		default:
			behind[id] = strictyaml.Error{
				Pos: at,
				Msg: "the peel has sent no key to seal its secrets to; upgrade zester-peel there",
			}
		}
	}
	if len(behind) == 0 {
		return p
	}
	return p.HoldBack(behind)
}
