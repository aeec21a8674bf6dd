package auth

import "testing"

func TestAJWTNamesThePeelThatItWasSignedFor(t *testing.T) {
	keys, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, err := MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		token, err := keys.Issue(role, "web_01", key.Public(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := PeelOf(token); ok != (role == RolePeel) || ok && id != "web_01" {
			t.Errorf("a JWT of role %s is of the peel %q, %v", role, id, ok)
		}
	}
}

func FuzzPeelOf(f *testing.F) {
	f.Add("a.eyJuYW1lIjoid2ViIiwibmF0cyI6eyJ0YWdzIjpbInJvbGU6cGVlbCJdfX0.b")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if id, ok := PeelOf(token); ok && checkName(RolePeel, id) != nil {
			t.Errorf("%q is no wire ID", id)
		}
	})
}
