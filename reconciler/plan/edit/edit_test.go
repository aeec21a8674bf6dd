package edit_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/reconciler/plan/plantest"
)

var at = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func repo(t testing.TB, pairs ...string) (fstest.MapFS, *edit.Repo) {
	t.Helper()
	m, top := fstest.MapFS{}, "base: {}\n"
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		if name, ok := strings.CutPrefix(pairs[i], "settings/"); ok && !strings.Contains(name, "/") {
			top = "base:\n  '*': [" + strings.TrimSuffix(name, ".yaml") + "]\n"
		}
	}
	m["top.yaml"] = &fstest.MapFile{Data: []byte(top)}
	r, err := edit.Read(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// apply returns the files after a change.
func apply(m fstest.MapFS, files map[string][]byte) fstest.MapFS {
	out := maps.Clone(m)
	for name, content := range files {
		if content == nil {
			delete(out, name)
		} else {
			out[name] = &fstest.MapFile{Data: content}
		}
	}
	return out
}

func TestAnAddedEntryHasAFileAndAReference(t *testing.T) {
	m, r := repo(t)
	name, files, err := r.Add(edit.New{
		Name: "Daily health check", Target: "web-*", ID: 42, By: "ann", At: at,
		Fields: map[string]any{"prompt": "Check: all\nof it", "cron": "0 9 * * *", "return_job": true},
	})
	if err != nil || name != "daily-health-check" {
		t.Fatal(name, err)
	}
	want := map[string]string{
		"settings/api/daily-health-check.yaml": `# Added by ann on 2026-11-23. Edit or move it as any other file.
schedule:
  daily-health-check:
    api:
      at: "2026-11-23T09:00:00Z"
      by: ann
      id: 42
      name: Daily health check
    prompt: |-
      Check: all
      of it
    cron: 0 9 * * *
    return_job: true
`,
		"top.d/api.yaml": `# Written by zester for the entries in settings/api. People may edit it; targets and references are sorted.
base:
  web-*:
    - api.daily-health-check
`,
	}
	for file, text := range want {
		if got := string(files[file]); got != text {
			t.Errorf("%s:\n%s", file, got)
		}
	}
	if with, err := edit.Read(r.With(files)); err != nil || len(with.ByID(42)) != 1 {
		t.Errorf("the revision with the change has no such entry: %v", err)
	}
	m = apply(m, files)
	r, err = edit.Read(m)
	if err != nil {
		t.Fatal(err)
	}
	e := r.ByID(42)[0]
	if e == nil || e.Entry.API.Name != "Daily health check" || e.Entry.API.By != "ann" || !e.Entry.API.At.Equal(at) {
		t.Fatalf("the entry is not found by its number: %+v", e)
	}
	if n, last := r.Made(); n != 1 || last != 42 {
		t.Error(n, last)
	}
	if _, _, err := r.Add(edit.New{Name: "daily Health-check", Target: "*", ID: 43, By: "bob", At: at, Fields: map[string]any{}}); !errors.Is(err, edit.ErrExists) {
		t.Error(err)
	}
	files, err = r.Remove(e)
	if err != nil {
		t.Fatal(err)
	}
	m = apply(m, files)
	if len(m) != 1 {
		t.Errorf("after the removal there are %d files, want top.yaml alone", len(m))
	}
}

func TestPeopleMayEditTheTopFile(t *testing.T) {
	_, r := repo(t, "top.d/api.yaml", "base:\n  'db-*':\n    - api.x # of the database team\n  '*': [api.x]\n", "settings/api/x.yaml", "schedule: {}\n")
	_, files, err := r.Add(edit.New{Name: "a", Target: "db-*", ID: 1, By: "ann", At: at, Fields: map[string]any{"module": "test.ping", "interval": "1h"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(files["top.d/api.yaml"]); !strings.HasSuffix(got, "base:\n  '*':\n    - api.x\n  db-*:\n    - api.a\n    - api.x # of the database team\n") {
		t.Error(got)
	}
}

const shared = `# of the web team
a: 1
schedule:
  first: {module: test.ping, interval: 1h}

  # the second
  second:   # really
    module: cmd.run
    args:
      command: |
        echo a
        # no comment
        echo b
    interval: 2h

    api: {id: 7, name: second}
  # the third
  third:
    module: test.ping
    enabled: false # for now
    interval: 3h
b: 2
`

func TestAnEntryThatPeopleMovedIsChangedInItsPlace(t *testing.T) {
	m, r := repo(t, "settings/web.yaml", shared)
	files, err := r.Remove(r.ByID(7)[0])
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(shared, shared[strings.Index(shared, "  # the second"):strings.Index(shared, "  # the third")], "", 1)
	if got := string(files["settings/web.yaml"]); got != want {
		t.Errorf("%s", got)
	}
	if files, err = r.SetEnabled(r.ByID(7)[0], false, "ann: too #loud"); err != nil || !strings.Contains(string(files["settings/web.yaml"]), "really\n    enabled: false # ann: too #loud\n") {
		t.Errorf("%v\n%s", err, files["settings/web.yaml"])
	}
	files, err = r.SetEnabled(r.ByID(7)[0], false, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(files["settings/web.yaml"]), strings.Replace(shared, "really\n", "really\n    enabled: false\n", 1); got != want {
		t.Errorf("%s", got)
	}
	third := r.ByName("third")[0]
	if files, err = r.SetEnabled(third, true, ""); err != nil {
		t.Fatal(err)
	}
	if got := string(files["settings/web.yaml"]); !strings.Contains(got, "    enabled: true\n    interval: 3h\nb: 2") {
		t.Errorf("%s", got)
	}
	if files, err = r.Remove(third); err != nil || !strings.HasSuffix(string(files["settings/web.yaml"]), "api: {id: 7, name: second}\nb: 2\n") {
		t.Errorf("%v\n%s", err, files["settings/web.yaml"])
	}
	if _, err := r.Remove(r.ByName("first")[0]); !errors.Is(err, edit.ErrByHand) {
		t.Errorf("an entry in flow style: %v", err)
	}
	if _, err := fs.Stat(m, "settings/web.yaml"); err != nil {
		t.Error(err)
	}
}

// TestAChangeOfOneEntryLeavesTheOthers changes entries of generated files.
func TestAChangeOfOneEntryLeavesTheOthers(t *testing.T) {
	for n := range 40 {
		var b strings.Builder
		b.WriteString("schedule:\n")
		for i := range 1 + n%5 {
			if (n>>i)&1 == 1 {
				fmt.Fprintf(&b, "  # comment %d\n\n", i)
			}
			fmt.Fprintf(&b, "  e%d:\n      module: test.ping\n      interval: %dh\n", i, i+1)
			if n%3 == 0 {
				b.WriteString("      retry:\n        attempts: 2\n        backoff: 1s\n\n")
			}
		}
		m, r := repo(t, "settings/x.yaml", b.String())
		for i, e := range r.Entries {
			for _, change := range []func() (map[string][]byte, error){
				func() (map[string][]byte, error) { return r.Remove(e) },
				func() (map[string][]byte, error) { return r.SetEnabled(e, false, "noise: 3 # a day") },
			} {
				files, err := change()
				if err != nil {
					t.Fatalf("%d: %v\n%s", i, err, b.String())
				}
				after, err := edit.Read(apply(m, files))
				if err != nil {
					t.Fatal(err)
				}
				for j, o := range r.Entries {
					now := after.ByName(o.Entry.Name)
					if j != i && (len(now) != 1 || now[0].Entry.Hash() != o.Entry.Hash()) {
						t.Fatalf("the change of %d changed %d\n%s", i, j, files["settings/x.yaml"])
					}
				}
			}
		}
	}
}

func TestTheNameOfAnEntry(t *testing.T) {
	for name, want := range map[string]string{
		"Daily health check": "daily-health-check", "  a--B_c.d ": "a-b_c-d", "é": "", "../../x": "x", strings.Repeat("a", 300): strings.Repeat("a", 100),
	} {
		if got := edit.EntryName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzAdd(f *testing.F) {
	f.Add("Daily check", "web-*", "ann", "true: [x\n- ")
	f.Add("a\nb", "G@os:x and not 'y'", "a#b\n", "${{x}}")
	f.Fuzz(func(t *testing.T, name, expr, by, text string) {
		m, r := repo(t)
		entry, files, err := r.Add(edit.New{Name: name, Target: expr, ID: 1, By: by, At: at, Fields: map[string]any{"module": "cmd.run", "args": map[string]any{"command": text}, "interval": "1h"}})
		if err != nil {
			return
		}
		for file := range files {
			if file != "top.d/api.yaml" && file != "settings/api/"+entry+".yaml" || !fs.ValidPath(file) {
				t.Errorf("the file %q is written", file)
			}
		}
		after, err := edit.Read(apply(m, files))
		if err != nil {
			return // refused by the check of the result
		}
		if len(after.Entries) != 1 || after.Entries[0].Entry.Name != entry {
			t.Errorf("%d entries", len(after.Entries))
		}
	})
}

// Masters look each minute for entries that are to be removed. What they compiled before they do not read again.
func TestARevisionIsCompiledFromWhatWasReadBefore(t *testing.T) {
	tree := plantest.WithHashes(fstest.MapFS{
		"top.yaml":               {Data: []byte("base: {'*': [api.once]}\n")},
		"settings/api/once.yaml": {Data: []byte("schedule:\n  once: {module: test.ping, at: 2026-11-23T09:00:00Z, delete_after_run: true, api: {id: 1}}\n")},
	})
	repo, err := edit.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	c, fleet := plan.NewCompiler(), plantest.Fleet("web-01")
	var first *plan.Plan
	for range 2 {
		*tree.Reads = 0
		p, err := c.Compile(repo.With(nil), fleet)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = p
		} else if *tree.Reads != 0 || p.Peels["web-01"] != first.Peels["web-01"] {
			t.Errorf("%d files are read again", *tree.Reads)
		}
	}
}
