package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// FuzzOpen has peels answer anything where they were asked for secrets.
func FuzzOpen(f *testing.F) {
	o, err := settings.NewOpener()
	if err != nil {
		f.Fatal(err)
	}
	for _, secrets := range []any{
		settings.Sealed{To: o.To, From: o.To, Box: []byte("no box")}, settings.Sealed{From: "X"}, []byte("box"), map[string]any{"box": 1},
	} {
		data, err := canon.Marshal(map[string]any{"settings": "•••", "secrets": secrets})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	s := secretive{opener: o, key: "settings"}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.Return{Result: wire.Result{Success: true}}
		if canon.Unmarshal(data, &r.Data) != nil {
			return
		}
		before, err := canon.Marshal(r.Data)
		if err != nil {
			return
		}
		opened := s.open(&r)
		after, err := canon.Marshal(r.Data)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("the return itself was changed: %v", r.Data)
		}
		if opened != &r && opened.Success {
			t.Errorf("opened what nobody sealed: %v", opened.Data)
		}
	})
}

func TestEveryFunctionThatSealsIsOpened(t *testing.T) {
	for _, f := range catalogue.Functions() {
		seals := slices.ContainsFunc(f.Params, func(p catalogue.Param) bool { return p.Name == catalogue.SecretsTo })
		if (secretKeys[f.Name] != "") != seals {
			t.Errorf("%s seals its result: %t", f.Name, seals)
		}
	}
}
