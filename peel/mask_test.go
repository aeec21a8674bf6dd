package peel

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// The settings in force do not know the secret of the run's arguments, and those that come during the run have another.
func TestARunHidesTheSecretsOfItsArgumentsAndOfSettingsThatCameDuringIt(t *testing.T) {
	doc := func(key string) map[string]any {
		return map[string]any{"e": map[string]any{"module": "facts.get", "interval": "1h", "args": map[string]any{"key": key}}}
	}
	entry, ok := strictyaml.FromSecret("settings", doc("<own>"), doc("own-secret"))
	if !ok {
		t.Fatal("not alike")
	}
	set, err := schedule.ParseSet(entry)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peel{registry: module.New()}
	if p.receipts, err = openReceipts(filepath.Join(t.TempDir(), "receipts"), nil, nil); err != nil {
		t.Fatal(err)
	}
	p.current.Store(&inForce{})
	p.registry.Add("facts.get", func(_ context.Context, call module.Call) wire.Result {
		p.current.Store(&inForce{mask: mask.New([]module.Secret{{Plain: "new-secret", Shown: "<new>"}})})
		return wire.Result{Success: true, Data: call.Args["key"].(string) + " new-secret"}
	})
	if r := p.runEntry(t.Context(), scheduler.Fire{Entry: set["e"]}); r.Data != "<own> <new>" {
		t.Errorf("%+v", r)
	}
}
