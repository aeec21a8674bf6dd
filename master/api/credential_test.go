package api_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

// FuzzCredentialEnds reads files that people were given.
func FuzzCredentialEnds(f *testing.F) {
	keys, err := keystore.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	creds, err := keys.Creds(grants.RoleOperator, "ada", 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(creds)
	f.Add(creds[:len(creds)/2])
	f.Add([]byte("-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, creds []byte) {
		if user, _, err := api.CredentialEnds(creds); err == nil && user == "" {
			t.Error("a credential of nobody is accepted")
		}
	})
}
