package enroll

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

func TestRequestsOfHosts(t *testing.T) {
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	prove := func(k credential.NewKey, id, public string) string {
		proof, err := k.Sign([]byte("zester enroll 1\n" + id + "\n" + public + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(proof)
	}
	good := Request{ID: "web-1", Public: key.Public(), Proof: prove(key, "web-1", key.Public())}
	for name, c := range map[string]struct {
		change func(*Request)
		err    string
	}{
		"as it is":                {func(*Request) {}, ""},
		"no ID":                   {func(q *Request) { q.ID = "" }, "ID"},
		"no key":                  {func(q *Request) { q.Public = "U" }, "not the key of a user"},
		"a proof of another ID":   {func(q *Request) { q.ID = "web-2" }, "was not signed with the key"},
		"a proof by another key":  {func(q *Request) { q.Proof = prove(other, "web-1", key.Public()) }, "was not signed with the key"},
		"another key":             {func(q *Request) { q.Public = other.Public() }, "was not signed with the key"},
		"no proof":                {func(q *Request) { q.Proof = "" }, "was not signed with the key"},
		"a proof that is no text": {func(q *Request) { q.Proof += "=" }, "the proof is not base64url"},
	} {
		q := good
		c.change(&q)
		err := q.Check()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
	}
	for text, ok := range map[string]bool{
		`{"id":"web-1","public":"U","proof":"p"}`:            true,
		`{"id":"web-1","public":"U","proof":"p","from":"x"}`: false,
		`{"id":"web-1"} {}`:                                  false,
		`{"id":`:                                             false,
		``:                                                   false,
	} {
		q, err := ParseRequest([]byte(text))
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) || ok && (q.ID != "web-1" || q.From != "") {
			t.Errorf("%s: %+v, %v", text, q, err)
		}
	}
}
