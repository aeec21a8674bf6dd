package mask_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestMasksOfSeveralSettingsTogetherHideSecretsThatArePartOfEachOther(t *testing.T) {
	args := func(text string) map[string]any {
		return map[string]any{"list": []any{int64(1), map[string]any{"text": text}}}
	}
	long, short := mask.OfArgs(args("<1>"), args("hunter2-hunter3")), mask.OfArgs(args("<2>"), args("r2-hun"))
	if none := mask.OfArgs(args("same"), args("same")); none != nil {
		t.Errorf("a mask of arguments without secrets: %v", none)
	}
	for _, m := range []*mask.Mask{long.With(short), short.With(long), long.With(short).With(long), short.With(nil).With(long)} {
		if got := m.Result(wire.Result{Data: "a hunter2-hunter3, an r2-hun"}).Data; got != "a <1>, an <2>" {
			t.Errorf("%q", got)
		}
	}
}
