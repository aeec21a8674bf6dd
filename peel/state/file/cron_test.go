//go:build linux

package file

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/state"
)

func TestTheFileOfACronJob(t *testing.T) {
	for want, a := range map[string]*state.CronPresent{
		"# Written by zester for the state a.\n30 2 * * * root date +\\%F\n":          {Name: "a", Cron: "30 2 * * *", Command: "date +%F"},
		"# Written by zester for the state b.\n@daily root date '+\\%F'\n":            {Name: "b", Cron: "@daily", Command: `date '+\%F'`},
		"# Written by zester for the state d.\n@daily root printf 'a\\\\\\%d'\n":      {Name: "d", Cron: "@daily", Command: `printf 'a\\%d'`},
		"# Written by zester for the state c.\nA='\"'\nB=\" x \"\n* * * * * root c\n": {Name: "c", Cron: "* * * * *", Command: "c", Env: map[string]string{"B": " x ", "A": `"`}},
	} {
		got, err := cronContent(a, "root")
		if err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if got, err := cronContent(&state.CronPresent{Env: map[string]string{"A": `"'`}}, "root"); err == nil {
		t.Errorf("%q", got)
	}
}
