package auth_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// FuzzAskerOf holds that there is no role but those of credentials, and no name but that of the subject.
func FuzzAskerOf(f *testing.F) {
	f.Add("zester.dispatch.ada", `{"acc":"A","host":"192.0.2.1","tags":["role:limited"]}`)
	f.Add("zester.api.job.list.eve", `{"user":"ada","tags":["role:master","role:king"]}`)
	f.Add("", `[`)
	known := []auth.Role{"", auth.RolePeel, auth.RoleOperator, auth.RoleDirect, auth.RoleLimited, auth.RoleAuditor, auth.RoleMaster}
	f.Fuzz(func(t *testing.T, subject, info string) {
		a := auth.AskerOf(subject, nats.Header{"Nats-Request-Info": {info}})
		if a.User != wire.Sender(subject) || !slices.Contains(known, a.Role) {
			t.Errorf("%q with %s is of %+v", subject, info, a)
		}
	})
}

// TestACallerOfARequestThatIsPassedOn goes through the header and back.
func TestACallerOfARequestThatIsPassedOn(t *testing.T) {
	for _, from := range []string{"192.0.2.1", "2001:db8::1", "", `"},{"`} {
		a := auth.Asker{User: "token:ci", From: from}
		if got := auth.AskerOf("zester.api.sync.pause.token:ci", a.Header()); got != a {
			t.Errorf("%+v, want %+v", got, a)
		}
	}
}
