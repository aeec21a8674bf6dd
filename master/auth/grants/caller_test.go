package grants_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// FuzzCallerOf holds that there is no role but those of credentials, and no name but that of the subject.
func FuzzCallerOf(f *testing.F) {
	f.Add("zester.dispatch.ada", `{"acc":"A","host":"192.0.2.1","tags":["role:limited"]}`)
	f.Add("zester.api.job.list.eve", `{"user":"ada","tags":["role:master","role:king"]}`)
	f.Add("", `[`)
	known := []grants.Role{"", grants.RolePeel, grants.RoleOperator, grants.RoleDirect, grants.RoleLimited, grants.RoleAuditor, grants.RoleObserver, grants.RoleMaster}
	f.Fuzz(func(t *testing.T, subject, info string) {
		a := grants.CallerOf(subject, nats.Header{"Nats-Request-Info": {info}})
		if a.User != wire.Sender(subject) || !slices.Contains(known, a.Role) {
			t.Errorf("%q with %s is of %+v", subject, info, a)
		}
	})
}

// TestACallerOfARequestThatIsPassedOn goes through the header and back.
func TestACallerOfARequestThatIsPassedOn(t *testing.T) {
	for _, from := range []string{"192.0.2.1", "2001:db8::1", "", `"},{"`} {
		a := grants.Caller{User: "token:ci", From: from}
		if got := grants.CallerOf("zester.api.sync.pause.token:ci", a.Header()); got != a {
			t.Errorf("%+v, want %+v", got, a)
		}
	}
}

func TestAJWTNamesThePeelThatItWasSignedFor(t *testing.T) {
	keys, err := keystore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range grants.Roles() {
		token, err := keys.Issue(role, "web_01", key.Public(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := grants.PeelOf(token); ok != (role == grants.RolePeel) || ok && id != "web_01" {
			t.Errorf("a JWT of role %s is of the peel %q, %v", role, id, ok)
		}
	}
}

func FuzzPeelOf(f *testing.F) {
	f.Add("a.eyJuYW1lIjoid2ViIiwibmF0cyI6eyJ0YWdzIjpbInJvbGU6cGVlbCJdfX0.b")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if id, ok := grants.PeelOf(token); ok && grants.CheckName(grants.RolePeel, id) != nil {
			t.Errorf("%q is no wire ID", id)
		}
	})
}
