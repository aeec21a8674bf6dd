package settings_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestDocumentProvesTheClaimsOfItsOrigins(t *testing.T) {
	key := settings.ProofKey{1}
	shared := map[string]settings.Origin{
		"short": {File: "a.yaml", Line: 3, Commit: "c", Author: "Ada <ada@example.org>"},
		"long":  {File: strings.Repeat("ü", 600), Line: 3, Commit: "c", Author: strings.Repeat("x", 600)},
		"zero":  {},
	}
	d := settings.Document{Peel: "web-01", Origins: shared}
	ran := map[string]string{"short": settings.Ran("cmd.run", map[string]any{"command": "df"})}
	d.ProveOrigins(&key, ran)
	for entry, o := range d.Origins {
		c := o.Claim()
		c.Ran = ran[entry]
		if !key.Proves(o.Proof, "web-01", entry, c) || key.Proves(o.Proof, "web-02", entry, c) {
			t.Errorf("%s: %+v", entry, o)
		}
		if len(c.File) > settings.MaxClaim || len(c.Author) > settings.MaxClaim {
			t.Errorf("%s: a text of the claim has more than %d bytes", entry, settings.MaxClaim)
		}
		if shared[entry].Proof != "" {
			t.Errorf("%s: the map that peels share was changed", entry)
		}
	}
	proof := key.Prove("web-01", "ab", settings.Claim{Commit: "cd", File: "e"})
	for entry, c := range map[string]settings.Claim{"a": {Commit: "bcd", File: "e"}, "ab": {Commit: "c", File: "de"}} {
		if key.Proves(proof, "web-01", entry, c) {
			t.Errorf("a proof is also one of %s and %+v, where its texts begin elsewhere", entry, c)
		}
	}
	if other := (settings.ProofKey{2}); d.ProvenBy != key.ID() || d.ProvenBy == other.ID() {
		t.Errorf("proven by %q", d.ProvenBy)
	}
}

func TestTheProofKeyIsMadeOnce(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		rollout, err := b.JetStream(t).KeyValue(t.Context(), "rollout")
		if err != nil {
			t.Fatal(err)
		}
		first, err := settings.LoadProofKey(t.Context(), rollout)
		if err != nil || first == (settings.ProofKey{}) {
			t.Fatal(err)
		}
		if again, err := settings.LoadProofKey(t.Context(), rollout); err != nil || again != first {
			t.Errorf("another key, %v", err)
		}
		if _, err := rollout.Put(t.Context(), "origin.key", []byte("short")); err != nil {
			t.Fatal(err)
		}
		if _, err := settings.LoadProofKey(t.Context(), rollout); err == nil {
			t.Error("a damaged key is taken")
		}
	})
}

func TestAClaimIsAboutOneCall(t *testing.T) {
	raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{
		"disk": map[string]any{"module": "cmd.run", "args": map[string]any{"command": "df", "n": 1}, "every": "1h"}, "bad": map[string]any{"every": 7},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ran, err := settings.RanBy(raw)
	if err != nil || len(ran) != 1 {
		t.Fatal(ran, err)
	}
	c := settings.Claim{Ran: ran["disk"]}
	for what, is := range map[string]bool{
		"the call":               c.Runs("cmd.run", map[string]any{"command": "df", "n": 1}),
		"arguments not known":    c.Runs("cmd.run", nil),
		"another function":       !c.Runs("test.ping", nil),
		"other arguments":        !c.Runs("cmd.run", map[string]any{"command": "df", "n": 2}),
		"more arguments":         !c.Runs("cmd.run", map[string]any{"command": "df", "n": 1, "shell": true}),
		"a claim about no call":  !(&settings.Claim{}).Runs("", nil),
		"a call without any":     (&settings.Claim{Ran: settings.Ran("test.ping", nil)}).Runs("test.ping", map[string]any{}),
		"one that was given any": !(&settings.Claim{Ran: settings.Ran("test.ping", nil)}).Runs("test.ping", map[string]any{"a": 1}),
	} {
		if !is {
			t.Error(what)
		}
	}
}
