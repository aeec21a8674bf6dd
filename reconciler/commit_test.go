package reconciler

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// changeOf asks what a revision changed.
func (b *bench) changeOf(revision string) (c status.CommitChange) {
	b.t.Helper()
	if why := b.ask("commit", status.CommitRequest{Revision: revision}, &c); why != "" {
		b.t.Fatal(why)
	}
	return c
}

// withoutTimes leaves out the next fires, as intervals begin with the request.
func withoutTimes(blocks []status.Block) []status.Block {
	for i := range blocks {
		blocks[i].Lines = slices.DeleteFunc(blocks[i].Lines, func(l string) bool { return strings.Contains(l, "next:") })
	}
	return blocks
}

// TestWhatARevisionChanged asks about each revision of the history: while the repo has them, when the bus alone has
// them, and when nothing has them.
func TestWhatARevisionChanged(t *testing.T) {
	inWaves(t, "[]", func(r *rollingBench) {
		c := r.commit("x for w", map[string]string{
			"settings/web.yaml": xForW + "web: {port: 80, password: hunter2}\n",
			"README":            "not a setting\n",
		})
		r.now()
		got := r.changeOf(string(c[:6]))
		if got.Commit != c || got.Base != r.good || got.Lacks != "" || got.Change == nil || got.Change.Peels != 4 ||
			got.Change.Added != 4 || got.Change.Removed != 4 {
			r.t.Fatalf("%+v, %+v", got, got.Change)
		}
		files := []status.FileChange{{Path: "settings/web.yaml", Added: 2, Removed: 1}}
		if !reflect.DeepEqual(got.Files, files) {
			r.t.Errorf("the files are %+v, want %+v", got.Files, files)
		}
		if got.Load == nil || got.Load.Before != 480 || got.Load.After != 576 {
			r.t.Errorf("4 peels with 5 runs an hour, then with 6: %+v", got.Load)
		}
		if len(got.Blocks) != 1 || got.Blocks[0].Count != 4 || len(got.Blocks[0].Peels) != 4 {
			r.t.Fatalf("%+v", got.Blocks)
		}
		text := strings.Join(got.Blocks[0].Lines, "\n")
		for _, line := range []string{"+ x  settings/web.yaml:2", "- w  settings/web.yaml:2", "+     interval: \"30m\"", "(secret 1)"} {
			if !strings.Contains(text, line) {
				r.t.Errorf("the change lacks %q:\n%s", line, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			r.t.Errorf("the change shows a password:\n%s", text)
		}
		if first := r.changeOf(string(r.good)); first.Base != "" || first.Change == nil || first.Change.Added != 20 {
			r.t.Errorf("the first revision: %+v", first)
		}
		for revision, want := range map[string]string{"abc": "give 4 digits", "0123456": "no revision of the history begins with 0123456"} {
			if why := r.ask("commit", status.CommitRequest{Revision: revision}, new(status.CommitChange)); !strings.Contains(why, want) {
				r.t.Errorf("%s: %q", revision, why)
			}
		}

		r.stop()
		if err := os.RemoveAll(r.dir); err != nil {
			r.t.Fatal(err)
		}
		other, err := worktree.Init(r.dir, siteFiles(), "another beginning", ada)
		if err != nil {
			r.t.Fatal(err)
		}
		r.work = other
		r.startIn(r.t.TempDir())
		stored := r.changeOf(string(c))
		stored.Blocks, got.Blocks = withoutTimes(stored.Blocks), withoutTimes(got.Blocks)
		if !reflect.DeepEqual(stored, got) {
			r.t.Errorf("from what is stored:\n%+v\nfrom the repo:\n%+v", stored, got)
		}
		r.stop()
		kv, err := r.bus.JetStream(r.t).KeyValue(r.t.Context(), archive.Bucket)
		if err == nil {
			err = kv.Purge(r.t.Context(), string(r.good))
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.startIn(r.t.TempDir())
		want := fmt.Sprintf("neither the clone of the repo nor the bus has the files of %s any more", r.good.Short())
		if lost := r.changeOf(string(c)); lost.Lacks != want || lost.Change != nil {
			r.t.Errorf("%+v, want %q", lost, want)
		}
	})
}

// TestARefusedRevisionHasNoChange says why in the words of the compiler.
func TestARefusedRevisionHasNoChange(t *testing.T) {
	inWaves(t, "[]", func(r *rollingBench) {
		bad := r.commit("broken", map[string]string{"top.yaml": "base: ["})
		r.now()
		c := r.changeOf(string(bad))
		if c.Change != nil || !strings.HasPrefix(c.Lacks, bad.Short()+" does not compile: top.yaml:1:") || len(c.Files) != 1 {
			r.t.Errorf("%+v", c)
		}
		if again := r.changeOf(string(r.good)); again.Commit != r.good || again.Base != settings.Commit("") {
			r.t.Errorf("%+v", again)
		}
	})
}
