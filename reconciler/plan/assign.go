package plan

import (
	"maps"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// An assignment holds the signature of each peel, for the rules of a revision and the facts of a fleet. It is
// immutable. Plans share it as long as neither changes, so that the cost of a change of some files does not grow with
// the fleet.
type assignment struct {
	rules   *top.File
	fleet   *peelindex.Index
	version uint64 // Fleet.Version when it was made

	signatures []top.Signature
	warnings   []Warning // about rules that select no peel
}

// assign returns the assignment of the last plan if it is still valid, else a new one.
func (p *pass) assign() *assignment {
	// before reading the fleet, so that a change meanwhile makes the assignment invalid
	rules, version := p.rules.top, p.fleet.Version()
	if p.last != nil {
		if a := p.last.assigned; a.rules == rules && a.fleet == p.fleet && a.version == version {
			return a
		}
	}
	a := &assignment{rules: rules, fleet: p.fleet, version: version}
	var selects []bool
	a.signatures, selects = rules.Assign(p.fleet)
	for i, rule := range rules.Rules {
		if !selects[i] {
			a.warnings = append(a.warnings, warningf(rule.Pos, "%s matches no peel", rule.Expr))
			continue
		}
		for _, id := range rule.Expr.Lists() {
			if _, ok := p.fleet.Get(id); !ok {
				a.warnings = append(a.warnings,
					warningf(rule.Pos, "%s names %s, which is no peel of the fleet", rule.Expr, id))
			}
		}
	}
	return a
}

// give sets Peels and Behind of the plan: the peels of a signature get its result, or are behind for its mistake.
func (p *pass) give(a *assignment, results []*Effective, mistakes []strictyaml.Error) {
	before := make([]*Effective, len(results))
	if p.last != nil && p.last.assigned == a {
		p.plan.Peels, before = maps.Clone(p.last.Peels), p.last.results
	} else {
		p.plan.Peels = make(map[target.PeelID]*Effective, p.fleet.Len())
	}
	for i, s := range a.signatures {
		if results[i] == before[i] && results[i] != nil {
			continue
		}
		for _, peel := range s.Peels {
			if results[i] != nil {
				p.plan.Peels[peel] = results[i]
				continue
			}
			delete(p.plan.Peels, peel)
			p.behind(peel, mistakes[i])
		}
	}
	p.plan.assigned, p.plan.results = a, results
}

// A SignatureChange holds the settings of one signature's peels in two plans. An Effective is nil if a mistake holds
// them back.
type SignatureChange struct {
	Before, After *Effective
	Peels         []target.PeelID
}

// BySignature returns the settings of each signature's peels in an earlier plan and in p. ok is false unless both plans
// have the same rules and the same fleet; then compare peel by peel.
func (p *Plan) BySignature(earlier *Plan) (all []SignatureChange, ok bool) {
	if p == nil || earlier == nil || p.assigned == nil || p.assigned != earlier.assigned {
		return nil, false
	}
	for i, s := range p.assigned.signatures {
		all = append(all, SignatureChange{earlier.results[i], p.results[i], s.Peels})
	}
	return all, true
}

// Since returns the peels of p that have other settings than in an earlier plan, in no order; peels that were held back
// are among them. ok is false if it is in [Plan.BySignature].
func (p *Plan) Since(earlier *Plan) (peels []target.PeelID, ok bool) {
	all, ok := p.BySignature(earlier)
	for _, s := range all {
		if s.After != nil && s.After != s.Before {
			peels = append(peels, s.Peels...)
		}
	}
	return peels, ok
}

// Secrets returns the peels whose settings hold secrets, with the position of one of these.
func (p *Plan) Secrets() map[target.PeelID]strictyaml.Pos {
	secrets := map[target.PeelID]strictyaml.Pos{}
	if p.assigned == nil {
		for id, e := range p.Peels {
			if at, secret := e.Secret(); secret {
				secrets[id] = at
			}
		}
		return secrets
	}
	for i, s := range p.assigned.signatures {
		if e := p.results[i]; e != nil && e.secret != nil {
			for _, id := range s.Peels {
				secrets[id] = e.secret.Pos
			}
		}
	}
	return secrets
}

// HoldBack returns p with more peels that keep their present settings.
func (p *Plan) HoldBack(more map[target.PeelID]strictyaml.Error) *Plan {
	held := *p
	held.assigned, held.results = nil, nil
	held.Peels, held.Behind = maps.Clone(p.Peels), maps.Clone(p.Behind)
	if held.Behind == nil {
		held.Behind = map[target.PeelID]strictyaml.Error{}
	}
	for id, mistake := range more {
		delete(held.Peels, id)
		held.Behind[id] = mistake
	}
	return &held
}
