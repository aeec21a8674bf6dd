package blame_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

const (
	secretFile = `db:
  password: correct-horse
schedule:
  backup:
    module: cmd.run
    interval: 1h
    args: {command: backup, env: {TOKEN: s3cr3t-token}}
  other: {module: test.ping, interval: 2h}
`
	secretKeys = "^(password|TOKEN)$"
)

func withSecrets(text string) string {
	return "-- top.yaml --\nbase:\n  '*': [all]\n-- settings/all.yaml --\n" + text
}

func TestTheOriginOfAnEntryWithASecretIsTheCommitThatChangedIt(t *testing.T) {
	w := sopstest.New(t)
	p := newPast(t)
	ring, err := sops.ReadRing(w.Identities)
	if err != nil {
		t.Fatal(err)
	}
	p.c.UseRing(ring)
	change := func(old, text string) string { return strings.Replace(secretFile, old, text, 1) }
	p.commit("first", withSecrets(w.Encrypt(secretKeys, secretFile)))
	p.commit("password", withSecrets(w.Encrypt(secretKeys, change("correct-horse", "battery"))), "first")
	p.commit("ping", withSecrets(w.Encrypt(secretKeys, strings.Replace(change("correct-horse", "battery"), "2h", "3h", 1))), "password")
	e := compile(t, p.c, p.trees["ping"].MapFS, fleet("web-01")).Peels["web-01"]
	origins, err := blame.New(p.history()).Blame(t.Context(), "ping", e)
	if err != nil {
		t.Fatal(err)
	}
	if got := origins[e]; got["backup"].Commit != "first" || got["other"].Commit != "ping" {
		t.Errorf("%+v", got)
	}
	p.commit("token", withSecrets(w.Encrypt(secretKeys, change("s3cr3t-token", "another"))), "ping")
	e = compile(t, p.c, p.trees["token"].MapFS, fleet("web-01")).Peels["web-01"]
	if origins, err = blame.New(p.history()).Blame(t.Context(), "token", e); err != nil || origins[e]["backup"].Commit != "token" {
		t.Errorf("%+v, %v", origins[e], err)
	}
}
