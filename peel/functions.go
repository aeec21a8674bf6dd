package peel

import (
	"context"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A revision identifies the peel's document that an answer was read from. Its commit need not have changed the value.
type revision struct {
	Commit     settings.Commit `json:"commit,omitempty"`
	Generation uint64          `json:"generation"`
	Stale      bool            `json:"stale,omitempty"`
}

func (now *inForce) revision() revision {
	r := revision{Stale: now.stale}
	if now.doc != nil {
		r.Commit, r.Generation = now.doc.Commit, now.doc.Generation
	}
	return r
}

type settingsAnswer struct {
	revision
	Settings any              `json:"settings"`
	Secrets  *settings.Sealed `json:"secrets,omitempty"` // the same with its secrets, for who asked for them
}

func (p *Peel) settingsItems(context.Context, module.Call) wire.Result {
	now := p.current.Load()
	values := map[string]any{}
	if now.values != nil {
		values = now.values.Any().(map[string]any)
	}
	return answer(settingsAnswer{revision: now.revision(), Settings: values})
}

// settingsGet looks a key up; a key that is absent is a failure, so that it cannot be taken for an empty value.
// What it returns is kept on the bus with the job, for all who may see jobs, so secrets are in it only sealed to the key of
// who asked for them: a person, by a master, which has looked whether he may.
func (p *Peel) settingsGet(_ context.Context, call module.Call) wire.Result {
	now := p.current.Load()
	key, _ := call.Args["key"].(string)
	value := now.lookup(key)
	if value == nil {
		return refusal("no setting %q at commit %q", key, now.revision().Commit.Short())
	}
	a := settingsAnswer{revision: now.revision(), Settings: value.Any()}
	if to, asks := call.Args[catalogue.SecretsTo].(string); asks {
		if call.User == "" {
			return refusal("a schedule is shown no secrets")
		}
		k, err := settings.ParseKey(to)
		if err == nil {
			a.Secrets, err = settings.SealValue(value.Reveal(), k, p.key.pair)
		}
		if err != nil {
			return refusal("%v", err)
		}
		p.log.Info("secrets shown", "key", key, "user", call.User)
	}
	return answer(a)
}

// lookup follows a path of map keys that ":" separates. It returns nil if nothing is there.
func (now *inForce) lookup(path string) *strictyaml.Node {
	value := now.values
	for key := range strings.SplitSeq(path, ":") {
		value = value.Get(key)
	}
	return value
}

func (p *Peel) factsItems(context.Context, module.Call) wire.Result { return answer(*p.facts.Load()) }

func (p *Peel) factsGet(_ context.Context, call module.Call) wire.Result {
	key, _ := call.Args["key"].(string)
	value, ok := lookup(*p.facts.Load(), key)
	if !ok {
		return refusal("no fact %q", key)
	}
	return answer(value)
}

// lookup follows a path of map keys that ":" separates, as targets do.
func lookup(values map[string]any, path string) (any, bool) {
	var value any = values
	for key := range strings.SplitSeq(path, ":") {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = m[key]; !ok {
			return nil, false
		}
	}
	return value, true
}

// answer is a success with v in the plain form that travels.
func answer(v any) wire.Result {
	data, err := canon.Normalize(v)
	if err != nil {
		return refusal("%v", err)
	}
	return wire.Result{Success: true, Data: data}
}

// addFunctions registers the functions that look into the peel itself.
func (p *Peel) addFunctions() {
	p.registry.Add("settings.items", p.settingsItems)
	p.registry.Add("settings.get", p.settingsGet)
	p.registry.Add("facts.items", p.factsItems)
	p.registry.Add("facts.get", p.factsGet)
	p.registry.Add("schedule.list", p.scheduleList)
	p.registry.Add("schedule.next", onEntry(p.scheduleNext))
	p.registry.Add("schedule.history", p.scheduleHistory)
	p.registry.Add("schedule.breaker", p.scheduleBreaker)
	p.registry.Add("schedule.run", onEntry(p.scheduleRun))
	p.registry.Add("schedule.pause", onEntry(p.schedulePause))
	p.registry.Add("schedule.resume", onEntry(p.scheduleResume))
	p.registry.Add("schedule.skip", onEntry(p.scheduleSkip))
}
