//go:build linux

package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/content"
	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// templateSettings returns the settings as templates read them.
func templateSettings(values *strictyaml.Node) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	all := values.RevealAs(mustache.MarkSecret).(map[string]any)
	delete(all, state.CompiledKey)
	return all
}

// contents returns the contents of the config repo that a document names. They stay those of this document when a newer
// one comes.
func (f *Functions) contents(d Document) file.Inputs {
	var compiled state.Compiled
	var err error
	if added := d.Values.Get(state.CompiledKey); added != nil {
		compiled, err = state.ReadCompiled(map[string]any{state.CompiledKey: added.Reveal()})
	}
	data := maps.Clone(d.Data)
	if data == nil {
		data = map[string]any{}
	}
	data["settings"] = templateSettings(d.Values)
	budget := &content.Budget{}
	return file.Inputs{
		Data: data,
		Source: func(ctx context.Context, name string) (file.Content, error) {
			at, ok := compiled.Files[name]
			switch {
			case err != nil:
				return file.Content{}, err
			case !ok:
				return file.Content{}, fmt.Errorf(
					"the settings of this peel have no content of %s: only states of the config repo can name one",
					name,
				)
			}
			data, err := f.o.Files.Read(ctx, budget, name, at)
			key := d.Values.Get(state.CompiledKey).Get("files").Get(name).Get("key")
			return file.Content{Data: data, Executable: at.Mode == "0755", Secret: key.Secret != nil}, err
		},
		Tree: func(dir string) (names []string, _ error) {
			for name := range compiled.Files {
				if below, ok := strings.CutPrefix(name, dir+"/"); ok {
					names = append(names, below)
				}
			}
			if err == nil && len(names) == 0 {
				return nil, fmt.Errorf(
					"the settings of this peel have no content below %s: only states of the config repo can name one",
					dir,
				)
			}
			slices.Sort(names)
			return names, err
		},
	}
}
