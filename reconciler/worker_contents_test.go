package reconciler_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const motdStates = "states:\n  /etc/motd: {file.managed: {source: files/motd}}\n"

// motd commits a state with a content, and returns the commit and the content as the bus has it.
func (x *fixture) motd(text string) (settings.Commit, content.File) {
	x.t.Helper()
	h, err := x.work.Commit("motd", map[string][]byte{"settings/all.yaml": []byte(motdStates), "files/motd": []byte(text)}, workerAuthor)
	must(x.t, err)
	f, _ := content.Seal([]byte(text), nil)
	f.Mode = "0644"
	return settings.Commit(h.String()), f
}

// hasContent reports whether the bus has a content.
func (x *fixture) hasContent(f content.File) bool {
	x.t.Helper()
	if _, err := x.contents.Read(x.t.Context(), f); err != nil {
		return false
	}
	return true
}

// namedBy returns the content that the document of a peel names.
func (x *fixture) namedBy(id target.PeelID) content.File {
	x.t.Helper()
	doc, _, err := x.store.Get(x.t.Context(), id)
	must(x.t, err)
	var values map[string]any
	must(x.t, canon.Unmarshal(doc.Settings, &values))
	compiled, err := state.ReadCompiled(values)
	must(x.t, err)
	return compiled.Files["files/motd"]
}

// sweep looks for unused contents, and again after a day.
func (x *fixture) sweep(want int) {
	x.t.Helper()
	_, err := x.SweepContents(x.t.Context())
	must(x.t, err)
	time.Sleep(24*time.Hour + time.Second)
	if removed, err := x.SweepContents(x.t.Context()); err != nil || removed != want {
		x.t.Errorf("%d contents were removed, want %d: %v", removed, want, err)
	}
}

// clearArchive removes all stored revisions, of which commit was the last to be stored.
func (x *fixture) clearArchive(commit settings.Commit) {
	x.t.Helper()
	if _, err := x.archive.Find(x.t.Context(), string(commit)); err != nil { // waits until it is stored
		x.t.Fatal(err)
	}
	must(x.t, x.archive.Clear(x.t.Context()))
}

func TestContentsAreStoredBeforeTheDocumentsThatNameThem(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		commit, f := x.motd("hello\n")
		r := record.Record{Commit: commit, Generation: 1}
		prepared := x.do(decide.DoPrepare, "", r)
		must(t, prepared.Err)
		if !x.hasContent(f) || x.commitOf("web-01") != "" {
			t.Errorf("the bus has the content: %v; the document is of %q", x.hasContent(f), x.commitOf("web-01"))
		}
		x.clearArchive(commit)
		x.sweep(0) // the documents are still to be written
		must(t, x.publish(t.Context(), r, r).Err)
		if named := x.namedBy("web-01"); named != f {
			t.Errorf("the document names %+v, want %+v", named, f)
		}
	})
}

func TestWithoutItsContentsNoDocumentIsWritten(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		commit, _ := x.motd("hello\n")
		r := record.Record{Commit: commit, Generation: 1}
		js := x.bus.JetStream(t)
		stream, err := js.Stream(t.Context(), "KV_"+content.Bucket)
		must(t, err)
		full := stream.CachedInfo().Config
		full.MaxBytes = 1
		_, err = js.UpdateStream(t.Context(), full)
		must(t, err)
		if out := x.do(decide.DoPrepare, "", r); out.Err == nil || out.Prepared != nil {
			t.Errorf("prepared with a full bucket: %v", out.Err)
		}
		full.MaxBytes = -1
		_, err = js.UpdateStream(t.Context(), full)
		must(t, err)
		must(t, x.publish(t.Context(), r, r).Err)
	})
}

func TestContentsStayAsLongAsADocumentNamesThem(t *testing.T) {
	if testing.Short() {
		t.Skip("days of a bus in fake time")
	}
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		first, old := x.motd("old\n")
		r := record.Record{Commit: first, Generation: 1}
		must(t, x.publish(t.Context(), r, r).Err)
		next, recent := x.motd("new\n")
		r.Generation = 2
		r.Rollout = &record.Rollout{Commit: next, Members: record.NewMarks([]record.Mark{record.MarkPeel("web-02")})}
		must(t, x.publish(t.Context(), r, r).Err)
		x.sweep(0)
		r = record.Record{Commit: next, Generation: 3}
		must(t, x.do(decide.DoPrepare, "", r).Err) // web-01 has the old document still
		x.clearArchive(next)
		x.sweep(0)
		if !x.hasContent(old) || !x.hasContent(recent) || x.namedBy("web-01") != old {
			t.Errorf("the old content is there: %v; the new one: %v", x.hasContent(old), x.hasContent(recent))
		}
		must(t, x.publish(t.Context(), r, r).Err)
		x.sweep(1)
		if x.hasContent(old) || !x.hasContent(recent) {
			t.Errorf("a day after its last use the old content is there: %v; the new one: %v", x.hasContent(old), x.hasContent(recent))
		}
	})
}

func TestContentsThatTheBusHasLostAreStoredAgain(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		commit, f := x.motd("hello\n")
		r := record.Record{Commit: commit, Generation: 1}
		must(t, x.publish(t.Context(), r, r).Err)
		stream, err := x.bus.JetStream(t).Stream(t.Context(), "KV_"+content.Bucket)
		must(t, err)
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(">")))
		_, err = x.SweepContents(t.Context())
		must(t, err)
		if !x.hasContent(f) {
			t.Error("the content is not there")
		}
	})
}

func TestContentsOfStoredRevisionsStayAndAreReadFromTheBus(t *testing.T) {
	withWorker(t, reconciler.WorkerOptions{}, func(t *testing.T, x *fixture) {
		first, old := x.motd("old\n")
		r := record.Record{Commit: first, Generation: 1}
		must(t, x.publish(t.Context(), r, r).Err)
		stored, err := x.archive.Find(t.Context(), string(first))
		if err != nil || len(stored) != 1 {
			t.Fatal(stored, err)
		}
		next, _ := x.motd("new\n")
		r = record.Record{Commit: next, Generation: 2}
		must(t, x.publish(t.Context(), r, r).Err)
		x.sweep(0)
		revision, err := x.archive.Load(t.Context(), first)
		must(t, err)
		data, err := revision.Tree.(interface {
			ReadFile(name string) ([]byte, error)
		}).ReadFile("files/motd")
		if err != nil || string(data) != "old\n" || revision.Contents["files/motd"] != old {
			t.Errorf("%q, %v, %v", data, revision.Contents, err)
		}
	})
}
