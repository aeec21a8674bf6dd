package peel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/state"
	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/private"
)

// features are the parts of settings that this build understands beside the schedule.
var features = []string{wire.FeatureStates}

// addStates registers the functions that run states.
func (p *Peel) addStates() {
	functions := state.NewFunctions(state.FunctionsOptions{
		Own:      p.own(),
		Dir:      p.path("states"),
		Lock:     p.statesLock(),
		Registry: p.registry,
		Document: p.statesDocument,
		Files:    p.files,
		Log:      p.log,
		Report: func(r *state.Result, whole bool) {
			if whole {
				p.reportStateRun(r)
			}
		},
	})
	for name, f := range functions.All() {
		p.registry.Add(name, f)
	}
}

// own returns the paths that states neither remove nor give to another owner: the peel would end with them.
func (p *Peel) own() (paths []string) {
	program, _ := os.Executable()
	for _, name := range append([]string{p.o.DataDir, program, p.o.CA}, p.o.Own...) {
		if at, err := filepath.Abs(name); err == nil && name != "" {
			paths = append(paths, at)
		}
	}
	return paths
}

// runDirectory has the lock that all peels of a host share. Tests replace it.
var runDirectory = "/run/zester"

// statesLock returns the file that a run of states locks: one for the host if the peel is root, else one for the peel.
func (p *Peel) statesLock() string {
	if os.Geteuid() == 0 {
		return filepath.Join(runDirectory, "states.lock")
	}
	return p.path("states.lock")
}

// statesDocument returns the document in force for a run of states.
func (p *Peel) statesDocument() state.Document {
	now := p.current.Load()
	return state.Document{
		Settings: now.doc, Values: now.values, Mask: now.mask,
		Data: map[string]any{"facts": map[string]any(*p.newest.facts.Load()), "peel": string(p.o.ID)},
	}
}

// reportStateRun stores the report on a run of all states; announce sends it.
func (p *Peel) reportStateRun(r *state.Result) {
	last, err := p.stateRun.Last()
	if err != nil {
		p.log.Error("report on the last run of states cannot be read: its failed states count as new", "err", err)
	}
	data, err := canon.Marshal(report.StateRunOf(p.o.ID, r, last))
	if err == nil {
		err = p.stateRun.Store(data)
	}
	if err != nil {
		p.log.Error("run of states not reported", "err", err)
		return
	}
	p.due.stateRun.raise()
}

// A fileResult is the data of file.read.
type fileResult struct {
	file.Description
	Suspect string           `json:"suspect,omitempty"` // why the content looks as if it had a secret
	Sealed  *settings.Sealed `json:"secrets,omitempty"` // the content, for the key in the request
}

// fileRead is file.read. The peel may be root, and whoever may see jobs can read results. So the content is only for a
// person who may see secrets, sealed to the key in the request.
func (p *Peel) fileRead(_ context.Context, call module.Call) (any, error) {
	name, _ := call.Args["path"].(string)
	if !catalogue.AsksForSecrets(call.Args) {
		d, err := file.Describe(name)
		return fileResult{Description: d}, err
	}
	d, content, err := file.Read(name, append([]string{p.o.DataDir}, p.o.Own...))
	if err != nil {
		return nil, err
	}
	if kind := private.Credential(string(content)); kind != "" {
		return nil, fmt.Errorf("%s is not read: it has %s, with which its owner acts in a fleet", name, kind)
	}
	why := survey.Secret(name, content)
	if p.current.Load().mask.Has(content) {
		why = "it has a secret of the settings"
	}
	if isWanted, _ := call.Args["secret"].(bool); why != "" && !isWanted {
		return nil, fmt.Errorf("%s looks as if it had a secret: %s; secret=true reads it all the same", name, why)
	}
	sealed, err := p.seal(call, name, func() any { return content })
	return fileResult{d, why, sealed}, err
}
