package reconciler

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const privateKey = "the private key of the database"

// contentSite is a site whose peels all get files/motd, and those named db-* also a secret one.
func contentSite(w *sopstest.Writer) fstest.MapFS {
	return fstest.MapFS{
		"top.yaml":          text("base:\n  '*': [all]\n  'db-*': [db]\n"),
		"settings/all.yaml": text("states:\n  /etc/motd: {file.managed: {source: files/motd}}\n"),
		"settings/db.yaml":  text("states:\n  /etc/key: {file.managed: {source: files/key}}\n"),
		"files/motd":        text("hello\n"),
		"files/key":         text(w.Encrypt("^data$", "data: "+privateKey+"\n")),
	}
}

// compiled returns what the document of a peel says about its states, opened if it is sealed.
func (b *bench) compiled(id target.PeelID, pair nkeys.KeyPair) (state.Compiled, error) {
	b.t.Helper()
	doc := b.document(id)
	if doc == nil {
		b.t.Fatalf("%s has no document", id)
	}
	raw := doc.Settings
	if doc.Sealed != nil && pair != nil {
		var err error
		if raw, err = doc.Open(pair); err != nil {
			b.t.Fatal(err)
		}
	}
	var values map[string]any
	if err := canon.Unmarshal(raw, &values); err != nil {
		b.t.Fatal(err)
	}
	return state.ReadCompiled(values)
}

// reads fails the test unless the document of a peel names a content that the bus has.
func (b *bench) reads(id target.PeelID, pair nkeys.KeyPair, path, want string) {
	b.t.Helper()
	compiled, err := b.compiled(id, pair)
	if err != nil {
		b.t.Fatal(err)
	}
	if got, err := b.term.contents.Read(b.t.Context(), compiled.Files[path]); err != nil || string(got) != want {
		b.t.Errorf("%s reads %q as %s: %v", id, got, path, err)
	}
}

func TestASecretContentIsOpenedByItsPeelsAlone(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, contentSite(w), func(b *bench) {
		b.identities = []string{w.Identities}
		pair, public := keeper(b.t)
		b.peel("db-01", nil)
		b.peel("web-01", nil)
		b.start()
		b.tellKey("db-01", public)
		b.reads("db-01", pair, "files/key", privateKey)
		b.reads("db-01", pair, "files/motd", "hello\n")
		b.reads("web-01", nil, "files/motd", "hello\n")
		if compiled, err := b.compiled("web-01", nil); err != nil || len(compiled.Files) != 1 {
			b.t.Errorf("web-01 has %v, %v", compiled.Files, err)
		}
		if compiled, err := b.compiled("db-01", nil); err == nil {
			b.t.Errorf("without the key of its peel a document names %v", compiled.Files)
		}
		js := b.bus.JetStream(b.t)
		stream, err := js.Stream(b.t.Context(), "KV_"+content.Bucket)
		if err != nil {
			b.t.Fatal(err)
		}
		last := stream.CachedInfo().State.LastSeq
		if last != 2 {
			b.t.Errorf("the bucket had %d writes for two contents", last)
		}
		for sequence := uint64(1); sequence <= last; sequence++ {
			msg, err := stream.GetMsg(b.t.Context(), sequence)
			if err != nil || bytes.Contains(msg.Data, []byte(privateKey)) || bytes.Contains(msg.Data, []byte("hello")) {
				b.t.Errorf("the bucket has a content in plain text, or %v", err)
			}
		}
	})
}

func TestAPinServesContentsWithTheRepoGone(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, contentSite(w), func(b *bench) {
		b.identities = []string{w.Identities}
		pair, public := keeper(b.t)
		b.peel("db-01", nil)
		b.start()
		b.tellKey("db-01", public)
		good := b.status().LastGood.Commit
		changed := b.commit("another text", map[string]string{"files/motd": "good bye\n"})
		if out := b.now(); out.LastGood.Commit != changed {
			b.t.Fatalf("%+v", out)
		}
		b.reads("db-01", pair, "files/motd", "good bye\n")
		b.after(time.Minute)
		b.stop()
		if err := os.RemoveAll(b.dir); err != nil {
			b.t.Fatal(err)
		}
		b.start() // on a master that has never read the repo
		b.peel("web-01", nil)
		b.after(5 * time.Second)
		b.reads("web-01", nil, "files/motd", "good bye\n")
		if out := b.told("pin", status.PinRequest{Revision: string(good)}); out.LastGood.Commit != good || !out.Is(status.Ready) {
			b.t.Errorf("%+v", out)
		}
		b.reads("web-01", nil, "files/motd", "hello\n")
		b.reads("db-01", pair, "files/motd", "hello\n")
		b.reads("db-01", pair, "files/key", privateKey)
	})
}

func TestContentsThatCannotBeStoredHoldTheRevisionBack(t *testing.T) {
	w := sopstest.New(t)
	inBubble(t, contentSite(w), func(b *bench) {
		b.identities = []string{w.Identities}
		b.peel("web-01", nil)
		b.start()
		good := b.status().LastGood.Commit
		stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "KV_"+content.Bucket)
		if err != nil {
			b.t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		limit := func(bytes int64) {
			config.MaxBytes = bytes
			if _, err := b.bus.JetStream(b.t).UpdateStream(b.t.Context(), config); err != nil {
				b.t.Fatal(err)
			}
		}
		limit(1000)
		next := b.commit("a long text", map[string]string{"files/motd": strings.Repeat("hello\n", 1000)})
		b.after(5 * time.Minute)
		out := b.status()
		if doc := b.document("web-01"); doc.Commit != good || out.Is(status.Ready) || !strings.Contains(out.Conditions[0].Message+conditionOf(out, status.Ready).Message, "files/motd") {
			b.t.Errorf("the document is of %s, %+v", doc.Commit.Short(), out.Conditions)
		}
		limit(-1)
		b.after(time.Minute)
		if out := b.status(); out.LastGood.Commit != next || b.document("web-01").Commit != next {
			b.t.Errorf("%+v", out)
		}
		b.reads("web-01", nil, "files/motd", strings.Repeat("hello\n", 1000))
	})
}
