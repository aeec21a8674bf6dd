package grants_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// TestMayAgreesWithTheBus holds what masters let sessions of the console do to what the server of the bus lets credentials
// do, for every request that masters serve.
func TestMayAgreesWithTheBus(t *testing.T) {
	for subject, may := range calls {
		noun, verb, ok := strings.Cut(strings.TrimPrefix(subject, "zester.api."), ".")
		if !ok {
			t.Fatalf("%s is no request", subject)
		}
		switch subject {
		case "zester.dispatch":
			noun, verb = "job", "dispatch"
		case "zester.target.resolve":
			noun, verb = "target", "resolve"
		}
		for _, r := range grants.Roles() {
			want := false
			for _, role := range may {
				want = want || role == r
			}
			if r == grants.RoleMaster || r == grants.RoleMember {
				want = true
			}
			if got := grants.May(r, noun, verb); got != want {
				t.Errorf("%s may %s.%s: %v, want %v", r, noun, verb, got, want)
			}
		}
	}
	if grants.May("", "job", "list") || grants.May("boss", "job", "list") {
		t.Error("a role that does not exist may list jobs")
	}
}
