package peel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/prompt"
	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A revision identifies the document that a value was read from. Its commit need not have changed the value.
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

// A settingsResult is the data of settings.get and settings.items.
type settingsResult struct {
	revision
	Settings any              `json:"settings"`
	Secrets  *settings.Sealed `json:"secrets,omitempty"` // the same with its secrets, sealed to the key in the request
}

func (p *Peel) settingsItems(context.Context, module.Call) (any, error) {
	now := p.current.Load()
	values := map[string]any{}
	if now.values != nil {
		values = now.values.Any().(map[string]any)
		delete(values, state.CompiledKey) // has the keys of contents
	}
	return settingsResult{revision: now.revision(), Settings: values}, nil
}

// settingsGet returns one value. A missing key is a failure, so that it cannot be taken for an empty value. The bus
// keeps the result with the job, and everybody who may see jobs can read it. So the result has secrets only if the
// request has a key, and only sealed to that key. Before a master sends such a request it checks that the user may see
// secrets.
func (p *Peel) settingsGet(_ context.Context, call module.Call) (any, error) {
	now := p.current.Load()
	key, _ := call.Args["key"].(string)
	value := now.values
	for step := range strings.SplitSeq(key, ":") {
		value = value.Get(step)
	}
	if value == nil || strings.Split(key, ":")[0] == state.CompiledKey {
		return nil, fmt.Errorf("no setting %q at commit %q", key, now.revision().Commit.Short())
	}
	r := settingsResult{revision: now.revision(), Settings: value.Any()}
	var err error
	r.Secrets, err = p.seal(call, key, value.Reveal)
	return r, err
}

// seal seals a value to the key in a request, and logs what was shown to whom. Without a key it returns nil.
func (p *Peel) seal(call module.Call, what string, value func() any) (*settings.Sealed, error) {
	to, isAsked := call.Args[catalogue.SecretsTo].(string)
	if !isAsked {
		return nil, nil
	}
	if call.User == "" {
		return nil, errors.New("a schedule cannot ask for secrets")
	}
	key, err := settings.ParseKey(to)
	if err != nil {
		return nil, err
	}
	sealed, err := settings.SealValue(value(), key, p.key.pair)
	if err != nil {
		return nil, err
	}
	p.log.Info("secrets shown", "key", what, "user", call.User)
	return sealed, nil
}

// hostRoot is the root directory of the host. Tests replace it.
var hostRoot = "/"

// cronTables is cron.tables. A table may have secrets, and everybody who may see jobs can read the result. So the texts
// are only in what is sealed to the key in the request. The secrets of settings are masked there too, because whoever
// moves in writes the texts into a repo.
func (p *Peel) cronTables(_ context.Context, call module.Call) (any, error) {
	found := survey.ReadCron(hostRoot)
	shown := found.Plain()
	var err error
	shown.Sealed, err = p.seal(call, "tables of cron", func() any {
		now := p.current.Load()
		for i := range found.Tables {
			found.Tables[i].Text = now.mask.Text(found.Tables[i].Text)
		}
		return found.Tables
	})
	return shown, err
}

func (p *Peel) factsItems(context.Context, module.Call) (any, error) {
	return *p.newest.facts.Load(), nil
}

func (p *Peel) factsGet(_ context.Context, call module.Call) (any, error) {
	key, _ := call.Args["key"].(string)
	var value any = map[string]any(*p.newest.facts.Load())
	for step := range strings.SplitSeq(key, ":") {
		m, _ := value.(map[string]any)
		var ok bool
		if value, ok = m[step]; !ok {
			return nil, fmt.Errorf("no fact %q", key)
		}
	}
	return value, nil
}

// addPrompt registers prompt.run if there is a model, and adds the fact that says so.
func (p *Peel) addPrompt() error {
	if p.o.Prompt == nil {
		return nil
	}
	asker, err := prompt.New(prompt.Options{
		Config: *p.o.Prompt, File: p.path("prompts"),
		Read: func(ctx context.Context, function string, args map[string]any, secrets *mask.Mask) wire.Result {
			return p.call(ctx, function, module.Call{Args: args}, secrets)
		},
	})
	if err != nil {
		return err
	}
	p.registry.Add(catalogue.Prompt, asker.Run)
	var models []any
	for _, name := range p.o.Prompt.Allowed() {
		models = append(models, name)
	}
	p.o.Facts = maps.Clone(p.o.Facts)
	if p.o.Facts == nil {
		p.o.Facts = target.Facts{}
	}
	p.o.Facts[catalogue.PromptModels] = models
	return nil
}

// addFunctions registers the functions that read or change the peel itself.
func (p *Peel) addFunctions() {
	for name, do := range map[string]func(context.Context, module.Call) (any, error){
		catalogue.Wipe:     p.wipe,
		"settings.items":   p.settingsItems,
		"settings.get":     p.settingsGet,
		"facts.items":      p.factsItems,
		"facts.get":        p.factsGet,
		"cron.tables":      p.cronTables,
		"file.read":        p.fileRead,
		"schedule.list":    p.scheduleList,
		"schedule.next":    withArgs(p.scheduleNext),
		"schedule.fires":   withArgs(p.scheduleFires),
		"schedule.history": p.scheduleHistory,
		"schedule.breaker": p.scheduleBreaker,
		"schedule.run":     withArgs(p.scheduleRun),
		"schedule.pause":   withArgs(p.schedulePause),
		"schedule.resume":  withArgs(p.scheduleResume),
		"schedule.skip":    withArgs(p.scheduleSkip),
	} {
		p.registry.Add(name, func(ctx context.Context, call module.Call) wire.Result {
			data, err := do(ctx, call)
			if err == nil {
				data, err = canon.Normalize(data)
			}
			if err != nil {
				return failure("%v", err)
			}
			return wire.Result{Success: true, Data: data}
		})
	}
}
