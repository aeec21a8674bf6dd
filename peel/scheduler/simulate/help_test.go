package simulate_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// parse reads entries as a settings file has them under the key schedule.
func parse(t testing.TB, text string) schedule.Set {
	t.Helper()
	n, err := strictyaml.Parse("schedule.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
