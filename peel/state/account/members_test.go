//go:build linux

package account

import (
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

func TestStepsOfMembersOfAGroup(t *testing.T) {
	w := planned()
	w.SetGroup(host.Group{Exists: true, Name: "zt-g", GID: ztGID + 1, Members: []string{"other"}})
	a := &state.GroupPresent{Name: "zt-g", Members: []string{"other", "zt-u"}}
	steps, err := GroupPresent(t.Context(), w, a)
	if got := words(w, steps); got != "add member zt-g:  to zt-u" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if steps, err = GroupPresent(t.Context(), w, a); len(steps) > 0 || err != nil {
		t.Errorf("the second plan: %s, %v", words(w, steps), err)
	}
	a.Members = []string{"zt-new"}
	if _, err = GroupPresent(t.Context(), w, a); err == nil || err.Error() != `there is no user "zt-new" on this host` {
		t.Error(err)
	}
	a = &state.GroupPresent{Name: "zt-new", GID: new(uint32(64400)), Members: []string{"zt-u"}}
	steps, err = GroupPresent(t.Context(), w, a)
	if got := words(w, steps); got != "create group zt-new:  to gid 64400; add member zt-new:  to zt-u" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if steps, err = GroupPresent(t.Context(), w, a); len(steps) > 0 || err != nil {
		t.Errorf("the second plan of a new group: %s, %v", words(w, steps), err)
	}
}
