package sopstest_test

import (
	"reflect"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestAnEncryptedFileCanBeDecrypted(t *testing.T) {
	w := sopstest.New(t)
	const text = "open: [a, b]\ndb:\n  password: hunter2\n  list: [c, {password: [d]}]\n"
	doc, err := strictyaml.Parse("f", []byte(w.Encrypt("^password$", text)))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sops.ReadRing(w.Identities)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sops.Decrypt(doc, ring)
	if err != nil {
		t.Fatal(err)
	}
	want, err := strictyaml.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Reveal(), want.Any()) || reflect.DeepEqual(got.Any(), want.Any()) {
		t.Errorf("%v", got.Reveal())
	}
}
