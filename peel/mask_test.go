package peel

import (
	"context"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/entryyaml"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestMasksOfSeveralSettingsTogetherHideSecretsThatArePartOfEachOther(t *testing.T) {
	args := func(text string) map[string]any {
		return map[string]any{"list": []any{int64(1), map[string]any{"text": text}}}
	}
	long, short := maskOfArgs(args("<1>"), args("hunter2-hunter3")), maskOfArgs(args("<2>"), args("r2-hun"))
	if none := maskOfArgs(args("same"), args("same")); none != nil {
		t.Errorf("a mask of arguments without secrets: %v", none)
	}
	for _, m := range []*mask{long.with(short), short.with(long), long.with(short).with(long), short.with(nil).with(long)} {
		if got := m.value("a hunter2-hunter3, an r2-hun"); got != "a <1>, an <2>" {
			t.Errorf("%q", got)
		}
	}
}

// The settings in force do not know the secret of the run's arguments, and those that come during the run have another.
func TestARunHidesTheSecretsOfItsArgumentsAndOfSettingsThatCameDuringIt(t *testing.T) {
	doc := func(key string) map[string]any {
		return map[string]any{"e": map[string]any{"module": "facts.get", "interval": "1h", "args": map[string]any{"key": key}}}
	}
	entry, ok := strictyaml.FromSecret("settings", doc("<own>"), doc("own-secret"))
	if !ok {
		t.Fatal("not alike")
	}
	set, err := entryyaml.ParseSet(entry)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peel{registry: module.New()}
	p.current.Store(&inForce{})
	p.registry.Add("facts.get", func(_ context.Context, call module.Call) wire.Result {
		p.current.Store(&inForce{mask: newMask([]module.Secret{{Plain: "new-secret", Shown: "<new>"}})})
		return wire.Result{Success: true, Data: call.Args["key"].(string) + " new-secret"}
	})
	if r := p.runEntry(t.Context(), scheduler.Fire{Entry: set["e"]}); r.Data != "<own> <new>" {
		t.Errorf("%+v", r)
	}
}
