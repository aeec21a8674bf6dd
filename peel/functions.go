package peel

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// revision says which document an answer was read from.
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
	Settings any `json:"settings"`
}

func (p *Peel) settingsItems(context.Context, module.Call) wire.Result {
	now := p.current.Load()
	values := now.values
	if values == nil {
		values = map[string]any{}
	}
	return answer(settingsAnswer{now.revision(), values})
}

// settingsGet looks a key up; a key that is absent is a failure, so that it cannot be taken for an empty value.
func (p *Peel) settingsGet(_ context.Context, call module.Call) wire.Result {
	now := p.current.Load()
	key, _ := call.Args["key"].(string)
	value, ok := lookup(now.values, key)
	if !ok {
		return refusal("no setting %q at commit %q", key, now.revision().Commit.Short())
	}
	return answer(settingsAnswer{now.revision(), value})
}

func (p *Peel) factsItems(context.Context, module.Call) wire.Result { return answer(p.facts) }

func (p *Peel) factsGet(_ context.Context, call module.Call) wire.Result {
	key, _ := call.Args["key"].(string)
	value, ok := lookup(p.facts, key)
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

// listed is one entry as schedule.list shows it.
type listed struct {
	scheduler.EntryState
	Source string `json:"source"` // "settings" or "peel.yaml"
	Commit string `json:"commit,omitempty"`
	Origin string `json:"origin,omitempty"` // file:line
	Author string `json:"author,omitempty"`
}

func (p *Peel) scheduleList(ctx context.Context, _ module.Call) wire.Result {
	states, err := p.sched.State(ctx)
	if err != nil {
		return refusal("%v", err)
	}
	fromSettings, _ := p.current.Load().values["schedule"].(map[string]any)
	entries := map[string]listed{}
	for _, s := range states {
		entry := listed{EntryState: s, Source: "peel.yaml"}
		if _, ok := fromSettings[s.Name]; ok {
			o := p.originOf(s.Name)
			entry.Source, entry.Commit, entry.Author = "settings", string(o.Commit), o.Author
			entry.Origin = fmt.Sprintf("%s:%d", o.File, o.Line)
		}
		entries[s.Name] = entry
	}
	return answer(entries)
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
}
