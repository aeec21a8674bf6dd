package peel

import "testing"

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
