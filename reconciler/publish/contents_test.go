package publish

import (
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/settings"
)

// files gives each peel a file with a content of its own: two of its own, and two another.
func (b *bench) files(content string) *plan.Plan {
	b.t.Helper()
	state := func(source string) []byte {
		return []byte("states:\n  motd:\n    file.managed: {path: /etc/motd, source: files/" + source + "}\n")
	}
	p, err := b.compiler.Compile(fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  'a or b': [a]\n  'not (a or b)': [all]\n")},
		"settings/a.yaml":   {Data: state("a.txt")},
		"settings/all.yaml": {Data: state("all.txt")},
		"files/a.txt":       {Data: []byte(content)},
		"files/all.txt":     {Data: []byte("for all")},
	}, b.fleet.Index())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// Contents that a stored document names are kept, also if its settings are in no plan that is known.
func TestContentsThatStoredDocumentsName(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := b.load(nil)
		p.o.Blamer = blame.New(blame.History{
			Parents: func(settings.Commit) ([]settings.Commit, error) { return nil, nil },
			Author:  func(settings.Commit) (string, time.Time, error) { return "Ada", time.Time{}, nil },
		})
		one, two := b.files("one"), b.files("two")
		blobsOf := func(plans ...*plan.Plan) []string {
			t.Helper()
			blobs, err := p.Blobs(t.Context(), plans...)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Sorted(maps.Keys(blobs))
		}
		named := func(p *plan.Plan) []string {
			blobs := map[string]bool{}
			for e := range p.Effectives() {
				for _, f := range e.Compiled.Files {
					blobs[f.Blob] = true
				}
			}
			return slices.Sorted(maps.Keys(blobs))
		}
		if got := blobsOf(one); len(got) != 0 {
			t.Errorf("nothing is stored, and documents name %q", got)
		}
		b.write(p, one, 1)
		if got := blobsOf(one); !slices.Equal(got, named(one)) || len(got) != 2 {
			t.Errorf("by the plan: %q, want %q", got, named(one))
		}
		if got := blobsOf(); !slices.Equal(got, named(one)) {
			t.Errorf("by the documents: %q, want %q", got, named(one))
		}
		b.write(p, two, 2)
		for _, plans := range [][]*plan.Plan{nil, {one}, {two}, {one, two}} {
			if got := blobsOf(plans...); !slices.Equal(got, named(two)) {
				t.Errorf("with %d plans: %q, want %q", len(plans), got, named(two))
			}
		}
	})
}

// The differences of a plan are made with the settings that are stored.
func TestSettingsThatAreStored(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p, wanted := b.load(nil), b.plan(1, 2)
		b.write(p, wanted, 1)
		base := p.Base(t.Context())
		if len(base.Digests) != 4 || base.Digests["a"] != wanted.Peels["a"].Digest || base.Plan != wanted {
			t.Errorf("%+v", base)
		}
		for _, id := range []string{"a", "b"} {
			e := wanted.Peels["a"]
			if id == "b" {
				e = wanted.Peels["b"]
			}
			if got, err := base.Settings(e.Digest); err != nil || string(got) != string(e.Settings) {
				t.Errorf("%s: %s, %v", id, got, err)
			}
		}
		if err := settings.NewStore(b.js).Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got, err := base.Settings(wanted.Peels["a"].Digest); err == nil {
			t.Errorf("the document is gone, and its settings are %s", got)
		}
	})
}

// A removed document is no longer one that a plan need not write.
func TestARemovedDocumentIsDueAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p, wanted := b.load(nil), b.plan(1, 2)
		b.write(p, wanted, 1)
		if err := p.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := b.stored(); len(got) != 3 || got["a"] != 0 {
			t.Errorf("%v", got)
		}
		if n := b.write(p, wanted, 2); n != 1 || b.stored()["a"] != 2 {
			t.Errorf("%d documents are written: %v", n, b.stored())
		}
	})
}
