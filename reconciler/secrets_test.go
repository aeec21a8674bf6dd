package reconciler

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// keeper makes the key of a peel and its public half.
func keeper(t *testing.T) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

func (b *bench) tellKey(id target.PeelID, key string) {
	b.t.Helper()
	b.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Key: key, V: wire.Version})
	b.after(12 * time.Second) // a change of one peel is taken every 10 s
}

// password opens the document of a peel; empty if it holds no secret.
func (b *bench) password(id target.PeelID, pair nkeys.KeyPair) string {
	b.t.Helper()
	doc := b.document(id)
	if doc == nil || doc.Sealed == nil {
		return ""
	}
	raw, err := doc.Open(pair)
	if err != nil {
		b.t.Fatal(err)
	}
	var values map[string]any
	if err := canon.Unmarshal(raw, &values); err != nil {
		b.t.Fatal(err)
	}
	password, _ := values["password"].(string)
	return password
}

func secretSite(w *sopstest.Writer, password string) fstest.MapFS {
	return fstest.MapFS{
		"top.yaml":             text("base:\n  'db-*': [secret]\n  '*': [open]\n"),
		"settings/secret.yaml": text(secretSettings(w, password)),
		"settings/open.yaml":   text("schedule:\n  a: {module: test.ping, interval: 1h}\n"),
	}
}

func secretSettings(w *sopstest.Writer, password string) string {
	return w.Encrypt("^password$", "password: "+password+"\n")
}

func TestSecretsAreSealedToPeelsWithAKey(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, secretSite(w, "correct-horse"), func(b *bench) {
		b.identities = []string{w.Identities}
		pair, public := keeper(b.t)
		b.peel("db-01", nil)
		b.peel("web-01", nil)
		b.start()
		if b.document("db-01") != nil {
			b.t.Fatal("a peel without a key was given secrets")
		}
		var page status.SyncPeelsPage
		b.ask("peels", status.PeelsRequest{}, &page)
		if p := page.Peels[0]; p.Peel != "db-01" || p.State != status.Failed || !strings.Contains(strings.Join(p.Errors, " "), "settings/secret.yaml:1:11: the peel has sent no key") {
			b.t.Errorf("%+v", p)
		}
		if doc := b.document("web-01"); doc == nil || doc.Sealed != nil || doc.V != settings.OpenVersion {
			b.t.Errorf("the document without secrets: %+v", doc)
		}

		b.tellKey("db-01", public)
		if got := b.password("db-01", pair); got != "correct-horse" {
			b.t.Fatalf("the password is %q", got)
		}
		data, err := b.document("db-01").Encode()
		if err != nil || bytes.Contains(data, []byte("correct-horse")) {
			b.t.Errorf("the secret is told, or %v", err)
		}
		b.ask("peels", status.PeelsRequest{}, &page)
		if p := page.Peels[0]; p.State != status.Applied {
			b.t.Errorf("%+v", p)
		}
		writes := b.writes()
		b.after(time.Hour)
		if b.writes() != writes {
			b.t.Error("documents are written again though nothing has changed")
		}
	})
}

func TestAPeelWithANewKeyIsGivenItsSecretsAgainOnceAPersonAgrees(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, secretSite(w, "correct-horse"), func(b *bench) {
		b.identities = []string{w.Identities}
		_, public := keeper(b.t)
		b.peel("db-01", nil)
		b.peel("db-02", nil)
		b.start()
		b.tellKey("db-01", public)
		b.tellKey("db-02", public)
		before, other := b.document("db-01"), b.document("db-02")

		pair, public := keeper(b.t)
		b.tellKey("db-01", public)
		if b.document("db-01").Generation != before.Generation || b.document("db-01").Sealed.To != before.Sealed.To {
			b.t.Error("secrets are sealed to a key that nobody has approved")
		}
		if err := b.term.fleet.ApproveKey(b.t.Context(), "db-01", public, "ann"); err != nil {
			b.t.Fatal(err)
		}
		b.after(3 * time.Second)
		after := b.document("db-01")
		if b.password("db-01", pair) != "correct-horse" || after.Generation <= before.Generation || after.Digest != before.Digest {
			b.t.Errorf("%+v\nthen %+v", before, after)
		}
		if b.document("db-02").Generation != other.Generation {
			b.t.Error("a peel was written to whose key has not changed")
		}
		// What a term knows of keys it knows from the bucket.
		writes := b.writes()
		b.stop()
		b.start()
		b.after(time.Minute)
		if b.writes() != writes {
			b.t.Error("the next term writes documents again")
		}
	})
}

func TestAChangedSecretIsAChangeOfThePeelsThatHaveIt(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, secretSite(w, "correct-horse"), func(b *bench) {
		b.identities = []string{w.Identities}
		pair, public := keeper(b.t)
		b.peel("db-01", nil)
		b.peel("web-01", nil)
		b.start()
		b.tellKey("db-01", public)
		before, web := b.document("db-01"), b.document("web-01")
		b.commit("another password", map[string]string{"settings/secret.yaml": secretSettings(w, "battery-staple")})
		if out := b.now(); out.Writes != 1 {
			b.t.Errorf("%+v", out)
		}
		if b.password("db-01", pair) != "battery-staple" || b.document("db-01").Digest == before.Digest {
			b.t.Error("the peel has the old password")
		}
		if b.document("web-01").Generation != web.Generation {
			b.t.Error("a peel without the secret was written to")
		}
	})
}

func TestIdentitiesAreReadAgain(t *testing.T) {
	old, next := sopstest.New(t), sopstest.New(t)
	inBubble(t, secretSite(old, "correct-horse"), func(b *bench) {
		file := b.t.TempDir() + "/identities"
		install := func(from ...string) {
			var all []byte
			for _, name := range from {
				data, err := os.ReadFile(name)
				if err != nil {
					b.t.Fatal(err)
				}
				all = append(all, data...)
			}
			if err := os.WriteFile(file, all, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		install(old.Identities)
		b.identities = []string{file}
		pair, public := keeper(b.t)
		b.peel("db-01", nil)
		b.start()
		b.tellKey("db-01", public)

		bad := b.commit("to the next identity", map[string]string{"settings/secret.yaml": secretSettings(next, "battery-staple")})
		out := b.now()
		c := condition(out, status.CompileFailed)
		if !c.Status || c.Reason != "Undecryptable" || c.ObservedRevision != bad || !strings.HasPrefix(c.Where, "settings/secret.yaml:") {
			b.t.Errorf("%+v", c)
		}
		if b.password("db-01", pair) != "correct-horse" {
			b.t.Error("the last good revision does not stay in force")
		}
		install(old.Identities, next.Identities)
		if out = b.now(); out.LastGood.Commit != bad || b.password("db-01", pair) != "battery-staple" {
			b.t.Errorf("%+v", out)
		}
		// A file that is away for a moment takes no key away.
		if err := os.Remove(file); err != nil {
			b.t.Fatal(err)
		}
		b.commit("again", map[string]string{"settings/secret.yaml": secretSettings(next, "third")})
		if b.now(); b.password("db-01", pair) != "third" {
			b.t.Error("the identities of before were given up")
		}
	})
}
