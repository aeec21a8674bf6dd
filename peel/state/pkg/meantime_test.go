//go:build linux

package pkg

import (
	"context"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// ending is apt on a host where another run of apt ends after the first look at the packages.
type ending struct {
	apt
	looks *int
}

func (e ending) inventory(context.Context) (*inventory, error) {
	*e.looks++
	i := &inventory{versions: map[string]string{}}
	if *e.looks > 1 {
		i.versions["vim"] = "1.0"
	}
	return i, nil
}

func (ending) simulate(context.Context, transaction) ([]effect, error) { return nil, nil }

func TestAPackageThatIsInstalledInTheMeantime(t *testing.T) {
	no := false
	for name, fails := range map[string]bool{"vim": false, "other": true} {
		m := New(host.New(), false)
		m.tool = ending{looks: new(int)}
		steps, err := m.Plan(t.Context(), &state.PkgInstalled{Name: name, Refresh: &no})
		if len(steps) > 0 || (err != nil) != fails {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
}
