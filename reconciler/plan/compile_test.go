package plan_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var update = flag.Bool("update", false, "rewrite the expected messages in testdata")

const badArchive = "testdata/bad.txtar"

// badRevision is one case of the archive.
type badRevision struct {
	name, reason string
	files        fstest.MapFS
	want         *txtar.File // of the archive, to be rewritten
}

func badRevisions(t testing.TB) []badRevision {
	t.Helper()
	archive, err := txtar.ParseFile(badArchive)
	if err != nil {
		t.Fatal(err)
	}
	var all []badRevision
	for i := range archive.Files {
		f := &archive.Files[i]
		name, file, below := strings.Cut(f.Name, "/")
		if !below {
			all = append(all, badRevision{name: name, reason: strings.TrimSpace(string(f.Data)), files: fstest.MapFS{}})
			continue
		}
		last := &all[len(all)-1]
		if file == "want" {
			last.want = f
		} else {
			last.files[file] = &fstest.MapFile{Data: f.Data}
		}
	}
	if *update {
		t.Cleanup(func() {
			if err := os.WriteFile(badArchive, txtar.Format(archive), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

func TestBadRevisionIsRefusedWithAllItsErrors(t *testing.T) {
	for _, bad := range badRevisions(t) {
		t.Run(bad.name, func(t *testing.T) {
			_, err := plan.NewCompiler().Compile(bad.files, fleet("web-01", "db-01"))
			refused, ok := errors.AsType[*plan.Error](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			if string(refused.Reason) != bad.reason {
				t.Errorf("reason %s, want %s", refused.Reason, bad.reason)
			}
			if *update {
				bad.want.Data = []byte(err.Error() + "\n")
			}
			if got := err.Error() + "\n"; got != string(bad.want.Data) {
				t.Errorf("got\n%swant\n%s", got, bad.want.Data)
			}
		})
	}
}

// refused compiles a tree that has to be refused.
func refused(t *testing.T, m fs.FS) *plan.Error {
	t.Helper()
	_, err := plan.NewCompiler().Compile(m, fleet("web-01", "web-02"))
	e, ok := errors.AsType[*plan.Error](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	return e
}

func TestFilesThatAreNotFilesAreNamed(t *testing.T) {
	good := tree("-- top.yaml --\nbase: {'*': [a, b.c]}\n-- settings/a.yaml --\na: 1\n-- settings/b/c.yaml --\nc: 1\n")
	link := &fstest.MapFile{Data: []byte("../../etc/passwd"), Mode: fs.ModeSymlink | 0o777}
	module := &fstest.MapFile{Mode: fs.ModeIrregular}
	for _, c := range []struct {
		name   string
		change func(fstest.MapFS)
		reason plan.Reason
		want   string
	}{
		{"top is a link", func(m fstest.MapFS) { m["top.yaml"] = link }, plan.TopIsSymlink, "top.yaml: the top file is a symbolic link"},
		{"policy is a link", func(m fstest.MapFS) { m["zester.yaml"] = link }, plan.Invalid, "zester.yaml: it is a symbolic link"},
		{"drop-in is a link", func(m fstest.MapFS) { m["top.d/x.yaml"] = link }, plan.Invalid, "top.d/x.yaml: it is a symbolic link"},
		{"settings file is a link", func(m fstest.MapFS) { m["settings/a.yaml"] = link }, plan.Invalid, "top.yaml:1:14: cannot use a: settings/a.yaml is a symbolic link"},
		{"settings file is a submodule", func(m fstest.MapFS) { m["settings/a.yaml"] = module }, plan.Invalid, "top.yaml:1:14: cannot use a: settings/a.yaml is a submodule"},
		{"settings file is a directory", func(m fstest.MapFS) {
			delete(m, "settings/a.yaml")
			m["settings/a.yaml/x.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
		}, plan.Invalid, "top.yaml:1:14: a has no file: there is no settings/a.yaml"},
		{"directory is a submodule", func(m fstest.MapFS) {
			delete(m, "settings/b/c.yaml")
			m["settings/b"] = module
		}, plan.Invalid, "top.yaml:1:17: b.c has no file: settings/b is not a directory"},
	} {
		m := maps.Clone(good)
		c.change(m)
		if e := refused(t, m); e.Reason != c.reason || !strings.HasPrefix(e.Error(), c.want) {
			t.Errorf("%s: %s: %v", c.name, e.Reason, e)
		}
	}
}

// What nothing uses is left alone, and told.
func TestFilesThatAreOddAreWarnedOf(t *testing.T) {
	m := tree("-- top.yaml --\nbase: {'*': [a]}\n-- settings/a.yaml --\na: 1\n-- settings/A.yaml --\na: 2\n-- settings/b c.yaml --\nb: 1\n-- settings/notes.txt --\nx\n")
	m["settings/link.yaml"] = &fstest.MapFile{Data: []byte("../../etc/passwd"), Mode: fs.ModeSymlink | 0o777}
	m["settings/shared"] = &fstest.MapFile{Data: []byte("../../shared"), Mode: fs.ModeSymlink | 0o777}
	m["settings/module"] = &fstest.MapFile{Mode: fs.ModeIrregular}
	m["settings/caf\xe9.yaml"] = &fstest.MapFile{Data: []byte("c: 1\n")}
	var got []string
	for _, w := range compile(t, plan.NewCompiler(), m, fleet("web-01")).Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"settings/A.yaml: no target uses this file: top.yaml names it as A",
		"settings/a.yaml: its path differs from settings/A.yaml only in case",
		"settings/b c.yaml: no reference can name this file: its path holds other characters than letters, digits, - and _",
		"settings/caf\uFFFD.yaml: it has a name that is not UTF-8, which no reference can hold",
		"settings/link.yaml: it is a symbolic link, which is not followed",
		"settings/module: it is a submodule or of an unknown mode, which is not looked into",
		"settings/shared: it is a symbolic link, which is not followed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestNothingThatLooksLikeConfigurationIsIgnored has the same verdict of zester lint, which checks, and of a master, which
// compiles.
func TestNothingThatLooksLikeConfigurationIsIgnored(t *testing.T) {
	link := &fstest.MapFile{Data: []byte("elsewhere"), Mode: fs.ModeSymlink | 0o777}
	for name, c := range map[string]struct {
		file *fstest.MapFile
		want string // of the error, empty if there is none
	}{
		"zester.yml":            {nil, "zester.yml: it is not read: its name has to be zester.yaml"},
		"Zester.yaml":           {nil, "Zester.yaml: it is not read: its name has to be zester.yaml"},
		"ZESTER.YML":            {nil, "ZESTER.YML: it is not read: its name has to be zester.yaml"},
		"zester.yaml\r":         {nil, "zester.yaml\uFFFD: \"zester.yaml\\r\" is not read: its name has to be zester.yaml"},
		"zester.yaml ":          {nil, "zester.yaml : it is not read: its name has to be zester.yaml"},
		"zester\u200b.yaml":     {nil, "zester\uFFFD.yaml: \"zester\\u200b.yaml\" is not read: its name has to be zester.yaml"},
		"top.yml":               {nil, "top.yml: it is not read: its name has to be top.yaml"},
		"Top.d/x.yaml":          {nil, "Top.d: it is not read: its name has to be top.d"},
		"Settings/x.yaml":       {nil, "Settings: it is not read: its name has to be settings"},
		"top.d":                 {nil, "top.d: it is not read: it has to be a directory"},
		"top.d/":                {link, "top.d: it is not read: it has to be a directory"},
		"top.d/x.yaml":          {link, "top.d/x.yaml: it is a symbolic link"},
		"top.d/x.yml":           {nil, "top.d/x.yml: settings end in .yaml"},
		"top.d/team/x.yaml":     {nil, "top.d/team/x.yaml: it is not read: the files of top.d have to be in it"},
		"top.d/team/README":     {nil, ""},
		"settings/x.yml":        {nil, "settings/x.yml: settings end in .yaml"},
		"settings/d/x.YAML":     {nil, "settings/d/x.YAML: settings end in .yaml"},
		`settings/a\b.yaml`:     {nil, `settings/a\b.yaml: the name "a\\b.yaml" has a backslash`},
		"settings/Icon\r":       {nil, "settings/Icon\uFFFD: the name \"Icon\\r\" has a control character"},
		"settings/a\nb/x.yaml":  {nil, "settings/a\uFFFDb: the name \"a\\nb\" has a control character"},
		"docs/Icon\r":           {nil, ""},
		`docs/a\b`:              {nil, ""},
		"docs/zester.yml":       {nil, ""},
		"stop.yaml":             {nil, ""},
		"settings/unused.yaml":  {nil, ""},
		"settings/unused/x.txt": {nil, ""},
	} {
		m := tree("-- top.yaml --\nbase: {'*': [a]}\n-- settings/a.yaml --\na: 1\n")
		if c.file == nil {
			c.file = &fstest.MapFile{Data: []byte("{}\n")}
		}
		m[strings.TrimSuffix(name, "/")] = c.file
		_, compiled := plan.NewCompiler().Compile(m, fleet("web-01"))
		checked, err := plan.NewCompiler().Check(m)
		if fmt.Sprint(compiled) != fmt.Sprint(err) {
			t.Errorf("%q: a master says %v, lint %v", name, compiled, err)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", name, err, c.want)
		}
		if name == "settings/unused.yaml" && (len(checked.Warnings) != 1 || checked.Warnings[0].String() != name+": no target uses this file: top.yaml names it as unused") {
			t.Errorf("%q: %v", name, checked.Warnings)
		}
	}
}

func TestLimitsApplyToTheEncodedDocument(t *testing.T) {
	top := "-- top.yaml --\nbase: {'*': [a, b]}\n-- settings/a.yaml --\na: 1\n"
	big := func(n int) fstest.MapFS {
		m := tree(top)
		m["settings/b.yaml"] = &fstest.MapFile{Data: []byte("b: " + strings.Repeat("x", n) + "\n")}
		return m
	}
	if e := refused(t, big(1<<20)); e.Reason != plan.TooLarge || e.Error() != "settings/b.yaml: 1048580 bytes, the limit is 1048576" {
		t.Errorf("%s: %v", e.Reason, e)
	}
	full := tree(top)
	full["settings/a.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n" + strings.Repeat("#", 1<<20-len("a: 1\n")-1) + "\n")}
	full["settings/b.yaml"] = &fstest.MapFile{Data: []byte("b: 1\n")}
	compile(t, plan.NewCompiler(), full, fleet("web-01"))
	e := refused(t, big(790_000))
	if want := "top.yaml:1:17: settings of web-01 take 790197 bytes, the limit is 786432; they come from settings/a.yaml, settings/b.yaml"; e.Reason != plan.TooLarge || e.Error() != want {
		t.Errorf("%s: %v", e.Reason, e)
	}

	nested := func(n int) fstest.MapFS {
		m := tree(top)
		m["settings/b.yaml"] = &fstest.MapFile{Data: []byte("b: " + strings.Repeat("[", n-1) + "1" + strings.Repeat("]", n-1) + "\n")}
		return m
	}
	p := compile(t, plan.NewCompiler(), nested(canon.MaxDepth-4), fleet("web-01"))
	data, err := canon.Marshal(map[string]any{"result": p.Peels["web-01"].Document("web-01", "c", 1, nil)})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := canon.Unmarshal(data, &v); err != nil {
		t.Errorf("the deepest settings that compile cannot travel: %v", err)
	}
	if e := refused(t, nested(canon.MaxDepth-3)); e.Error() != "settings/b.yaml:1:1: nested 61 levels deep, the limit is 60" {
		t.Error(e)
	}
}

func TestFiftyErrorsAreListedAndTheRestCounted(t *testing.T) {
	m := tree("-- top.yaml --\nbase: {'*': [a]}\n-- settings/a.yaml --\na: 1\n")
	for i := range 70 {
		m[fmt.Sprintf("settings/bad%02d.yaml", i)] = &fstest.MapFile{Data: []byte("a: 010\n")}
	}
	e := refused(t, m)
	errs, ok := errors.AsType[strictyaml.Errors](error(e))
	if !ok || len(errs) != 50 || e.More != 20 || errs[0].Pos.File != "settings/bad00.yaml" || errs[49].Pos.File != "settings/bad49.yaml" {
		t.Errorf("%d errors and %d more", len(errs), e.More)
	}
	if !strings.HasSuffix(e.Error(), "\nand 20 more") {
		t.Error(e)
	}
}

func TestErrorOfReadingIsNotAnErrorOfTheRevision(t *testing.T) {
	m := tree("-- top.yaml --\nbase: {'*': [a]}\n-- settings/a.yaml --\na: 1\n")
	_, err := plan.NewCompiler().Compile(failing{m, "settings/a.yaml"}, fleet("web-01"))
	if _, refused := errors.AsType[*plan.Error](err); refused || !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

var errDamaged = errors.New("damaged")

type failing struct {
	fstest.MapFS
	name string
}

func (f failing) ReadFile(name string) ([]byte, error) {
	if name == f.name {
		return nil, errDamaged
	}
	return f.MapFS.ReadFile(name)
}

const layered = `
-- zester.yaml --
nodegroups: {web: web-*}
-- top.yaml --
prod:
  '*': [common.base]
base:
  'N@web and G@os:ubuntu': [os, web]
  'web-02': [common.base, last]
-- top.d/20.yaml --
base: {'web-*': [b]}
-- top.d/10.yaml --
base: {'web-*': [a]}
-- top.d/README --
not read
-- settings/README.md --
- not: read
-- settings/common/base.yaml --
level: base
list: [1, 2]
gone: {a: 1}
map: {a: 1, b: {c: 2, d: null}}
nulls: [null, {x: null}]
schedule:
  check: {module: test.ping, interval: 1h}
  clean: {module: cmd.run, cron: '@daily'}
-- settings/os.yaml --
-- settings/web.yaml --
level: web
list: [3]
gone: null
map: {b: {c: null, e: 5}}
schedule:
  # now at fixed times
  check: {interval: null, cron: '0 * * * *'}
  clean: null
-- settings/last.yaml --
level: {deep: [last]}
-- settings/a.yaml --
order: a
-- settings/b.yaml --
order: b
`

// A label keeps no peels apart, which "prod" seems to say. Other labels are names like any other.
func TestALabelThatLooksLikeAFleetIsAWarning(t *testing.T) {
	m := tree("-- top.yaml --\nbase: {'*': [a]}\nweb: {'*': [a]}\nprod: {'*': [a]}\n-- top.d/x.yaml --\nStaging:\n-- settings/a.yaml --\na: 1\n")
	c := plan.NewCompiler()
	for range 2 { // the second time from memory
		p := compile(t, c, m, fleet("web-01"))
		var at []string
		for _, w := range p.Warnings {
			if strings.Contains(w.Msg, "is only a label: its targets select from all peels of this master") && strings.Contains(w.Msg, "by branch or by folder") {
				at = append(at, w.Pos.String())
			}
		}
		if got := strings.Join(at, " "); got != "top.d/x.yaml:1:1 top.yaml:3:1" || len(p.Warnings) != 2 {
			t.Errorf("the warnings are %v", p.Warnings)
		}
	}
}

func TestFilesAreMergedInTheOrderOfTheTopFiles(t *testing.T) {
	p := compile(t, plan.NewCompiler(), tree(layered), fleet("db-01", "web-01 os=Ubuntu", "web-02 os=ubuntu", "web-03"))
	for peel, want := range map[target.PeelID]string{
		"db-01":  "map[gone:map[a:1] level:base list:[1 2] map:map[a:1 b:map[c:2]] nulls:[<nil> map[x:<nil>]] schedule:map[check:map[interval:1h module:test.ping] clean:map[cron:@daily module:cmd.run]]]",
		"web-01": "map[level:web list:[3] map:map[a:1 b:map[e:5]] nulls:[<nil> map[x:<nil>]] order:b schedule:map[check:map[cron:0 * * * * module:test.ping]]]",
		"web-02": "map[level:map[deep:[last]] list:[3] map:map[a:1 b:map[e:5]] nulls:[<nil> map[x:<nil>]] order:b schedule:map[check:map[cron:0 * * * * module:test.ping]]]",
	} {
		if got := values(t, p, peel); got != want {
			t.Errorf("%s: %s\nwant %s", peel, got, want)
		}
	}
	if refs := p.Peels["web-02"].Refs; !slices.Equal(refs, []string{"common.base", "os", "web", "last", "a", "b"}) {
		t.Error(refs)
	}
	web := p.Peels["web-01"]
	if pos := web.Entries["check"].String(); pos != "settings/web.yaml:7:3" || len(web.Entries) != 1 || len(web.Schedule) != 1 {
		t.Errorf("%s of %v", pos, web.Entries)
	}
	if web.Schedule["check"].Clock.Interval.Duration != 0 {
		t.Error("the interval of the first layer is still there")
	}
}

func TestPeelThatNothingMatchesGetsEmptySettings(t *testing.T) {
	m := tree("-- top.yaml --\nbase: {'web-*': [a]}\n-- settings/a.yaml --\na: 1\n")
	p := compile(t, plan.NewCompiler(), m, fleet("web-01", "db-01"))
	e := p.Peels["db-01"]
	if e == nil || !bytes.Equal(e.Settings, []byte{0x80}) || len(e.Refs) != 0 {
		t.Fatalf("%+v", e)
	}
	data, err := e.Document("db-01", "c", 1, nil).Encode()
	if err != nil || len(data) == 0 {
		t.Error(err)
	}
}

func TestEqualSettingsHaveEqualBytes(t *testing.T) {
	m := tree(layered)
	peels := fleet("db-01", "web-01 os=ubuntu", "web-02 os=ubuntu", "web-03", "web-04")
	first := compile(t, plan.NewCompiler(), m, peels)
	second := compile(t, plan.NewCompiler(), edit(m, `
-- settings/web.yaml --
# another comment
schedule:
  clean: null
  check:
    cron: "0 * * * *"
    interval:
map:
  b: {e: 5, c: null}
gone: null
list:
- 3
level: 'web'
`), peels)
	for peel, e := range first.Peels {
		if o := second.Peels[peel]; !bytes.Equal(e.Settings, o.Settings) || e.Digest != o.Digest {
			t.Errorf("%s: %x\n%x", peel, e.Settings, o.Settings)
		}
	}
	if first.Peels["web-03"] != first.Peels["web-04"] {
		t.Error("peels of one signature do not share")
	}
}

func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	c := plan.NewCompiler()
	m := tree(layered)
	peels := fleet("db-01", "web-01 os=ubuntu")
	one := withHashes(m)
	first := compile(t, c, one, peels)
	if *one.Reads != 10 {
		t.Errorf("read %d files", *one.Reads)
	}
	again := withHashes(m)
	if p := compile(t, c, again, peels); *again.Reads != 0 || p.Peels["web-01"] != first.Peels["web-01"] {
		t.Errorf("read %d files again", *again.Reads)
	}
	changed := withHashes(edit(m, "-- settings/web.yaml --\nlevel: changed\n"))
	p := compile(t, c, changed, peels)
	if *changed.Reads != 1 || p.Peels["db-01"] != first.Peels["db-01"] || p.Peels["web-01"] == first.Peels["web-01"] {
		t.Errorf("read %d files for one that changed", *changed.Reads)
	}
	back := withHashes(m)
	if p := compile(t, c, back, peels); *back.Reads != 0 || p.Peels["web-01"] != first.Peels["web-01"] {
		t.Errorf("read %d files to go back", *back.Reads)
	}
	peels.Put("db-01", target.Facts{"os": "ubuntu"})
	peels.Put("web-09", target.Facts{"os": "ubuntu"})
	if p := compile(t, c, back, peels); *back.Reads != 0 || p.Peels["web-09"] != first.Peels["web-01"] {
		t.Error("a peel with the same files does not share")
	}
}

func TestFilesThatWereReadAheadAreNotReadAgain(t *testing.T) {
	c := plan.NewCompiler()
	m, peels := withHashes(tree(layered)), fleet("db-01", "web-01 os=ubuntu")
	if err := c.Read(m); err != nil {
		t.Fatal(err)
	}
	read := *m.Reads
	p, want := compile(t, c, m, peels), compile(t, plan.NewCompiler(), tree(layered), peels)
	if read != 10 || *m.Reads != read || p.Peels["web-01"].Digest != want.Peels["web-01"].Digest {
		t.Errorf("read %d files ahead and %d later", read, *m.Reads-read)
	}
	if err := c.Read(tree("-- top.yaml --\nbase: [\n")); err != nil {
		t.Errorf("a mistake is told before anybody compiles: %v", err)
	}
}

func TestBadRevisionLeavesTheCompilerUsable(t *testing.T) {
	c := plan.NewCompiler()
	m, peels := tree(layered), fleet("db-01", "web-01 os=ubuntu")
	first := compile(t, c, withHashes(m), peels)
	for _, bad := range []string{
		"-- settings/web.yaml --\nschedule: {x: {modul: y}}\n",
		"-- settings/web.yaml --\nschedule: {x: {splay: 1m}}\n",
		"-- top.yaml --\nbase: {'*': [nothing]}\n",
		"-- top.yaml --\n-- settings/a.yaml --\nfoo",
	} {
		broken := withHashes(edit(m, bad))
		_, err := c.Compile(broken, peels)
		_, again := c.Compile(broken, peels)
		if err == nil || again == nil || err.Error() != again.Error() {
			t.Errorf("first %v\nthen %v", err, again)
		}
		if p := compile(t, c, withHashes(m), peels); !reflect.DeepEqual(p.Peels, first.Peels) || !slices.Equal(p.Warnings, first.Warnings) {
			t.Errorf("after %v another plan", err)
		}
	}
}

func TestWarningsNameSettingsThatAreProbablyNotIntended(t *testing.T) {
	m := tree(`
-- top.yaml --
base:
  'nobody-*': [a]
  'L@web-01,web-09': [a]
-- settings/a.yaml --
-- settings/a.b.yaml --
`)
	p := compile(t, plan.NewCompiler(), m, fleet("web-01"))
	var got []string
	for _, w := range p.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"settings/a.b.yaml: no reference can name this file: its path holds other characters than letters, digits, - and _",
		"top.yaml:2:3: nobody-* matches no peel",
		"top.yaml:3:3: L@web-01,web-09 names web-09, which is no peel of the fleet",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

func TestEmptyTopFileAndEmptyTreeArePlansForTheGuard(t *testing.T) {
	for name, m := range map[string]fstest.MapFS{
		"empty top file":            tree("-- top.yaml --\n"),
		"top file without targets":  tree("-- top.yaml --\nbase: {}\n"),
		"empty tree":                {},
		"top file of comments only": tree("-- top.yaml --\n# base:\n"),
	} {
		p := compile(t, plan.NewCompiler(), m, fleet("web-01"))
		if !p.TopEmpty || !bytes.Equal(p.Peels["web-01"].Settings, []byte{0x80}) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// naiveMerge is the rule of merging on plain values, without sharing anything.
func naiveMerge(base, over any) any {
	o, ok := over.(map[string]any)
	if !ok {
		return over
	}
	out := map[string]any{}
	if b, ok := base.(map[string]any); ok {
		maps.Copy(out, b)
	}
	for k, v := range o {
		if v = naiveMerge(out[k], v); v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[string(rune('a'+r.IntN(4)))] = randomValue(r, depth-1)
		}
		return m
	case n == 3:
		return nil
	case n == 4:
		return []any{int64(r.IntN(3)), nil}
	default:
		return int64(r.IntN(3))
	}
}

func TestCompilingEqualsMergingForEachPeel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		m := fstest.MapFS{}
		files := map[string]map[string]any{}
		for i := range 6 {
			v := map[string]any{}
			for range 4 {
				v[string(rune('a'+r.IntN(4)))] = randomValue(r, 3)
			}
			name := fmt.Sprint("f", i)
			files[name] = v
			m["settings/"+name+".yaml"] = &fstest.MapFile{Data: yamlOf(t, v)}
		}
		var rules strings.Builder
		rules.WriteString("base:\n")
		type rule struct{ prefix, refs string }
		var all []rule
		for i := range 5 {
			one := rule{fmt.Sprintf("%s*", "abc"[:r.IntN(2)]), fmt.Sprintf("f%d f%d", r.IntN(6), r.IntN(6))}
			fmt.Fprintf(&rules, "  '%s and not zz%d': [%s]\n", one.prefix, i, strings.ReplaceAll(one.refs, " ", ", "))
			all = append(all, one)
		}
		m["top.yaml"] = &fstest.MapFile{Data: []byte(rules.String())}
		p := compile(t, plan.NewCompiler(), m, fleet("a1", "a2", "b1"))
		for _, peel := range []target.PeelID{"a1", "a2", "b1"} {
			var merged any = map[string]any{}
			seen := map[string]bool{}
			for _, one := range all {
				if !strings.HasPrefix(string(peel), strings.TrimSuffix(one.prefix, "*")) {
					continue
				}
				for ref := range strings.FieldsSeq(one.refs) {
					if !seen[ref] {
						seen[ref] = true
						merged = naiveMerge(merged, files[ref])
					}
				}
			}
			want, err := canon.Marshal(merged)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, p.Peels[peel].Settings) {
				t.Fatalf("round %d, %s: %s\nwant %v\n%s", round, peel, values(t, p, peel), merged, rules.String())
			}
		}
	}
}

// yamlOf writes plain values in flow style.
func yamlOf(t *testing.T, v any) []byte {
	t.Helper()
	var write func(v any) string
	write = func(v any) string {
		switch v := v.(type) {
		case map[string]any:
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(v)) {
				parts = append(parts, k+": "+write(v[k]))
			}
			return "{" + strings.Join(parts, ", ") + "}"
		case []any:
			var parts []string
			for _, e := range v {
				parts = append(parts, write(e))
			}
			return "[" + strings.Join(parts, ", ") + "]"
		case nil:
			return "null"
		default:
			return fmt.Sprint(v)
		}
	}
	return []byte(write(v) + "\n")
}

func FuzzCompile(f *testing.F) {
	paths := []string{"zester.yaml", "top.yaml", "settings/a.yaml", "settings/b.yaml"}
	add := func(m fstest.MapFS) {
		var texts [4]string
		for i, name := range paths {
			if f := m[name]; f != nil {
				texts[i] = string(f.Data)
			}
		}
		f.Add(texts[0], texts[1], texts[2], texts[3])
	}
	add(tree("-- zester.yaml --\nnodegroups: {web: web-*}\n-- top.yaml --\nbase: {'N@web and G@os:ubuntu': [a, b], '*': [b]}\n" +
		"-- settings/a.yaml --\nschedule: {x: {module: cmd.run, cron: '@daily'}}\n-- settings/b.yaml --\nschedule: {x: {cron: null, interval: 1h}}\n"))
	for _, m := range badRevisions(f) {
		add(m.files)
	}
	ix := fleet("web-01 os=ubuntu", "web-02", "db-01")
	f.Fuzz(func(t *testing.T, policy, top, a, b string) {
		m := fstest.MapFS{}
		for i, text := range []string{policy, top, a, b} {
			m[paths[i]] = &fstest.MapFile{Data: []byte(text)}
		}
		p, err := plan.NewCompiler().Compile(m, ix)
		if err != nil {
			return
		}
		if len(p.Peels) != ix.Len() {
			t.Fatalf("%d of %d peels", len(p.Peels), ix.Len())
		}
		for peel, e := range p.Peels {
			if _, err := e.Document(peel, "c", 1, nil).Values(); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := diff.Make(diff.Of(p), p); err != nil || d.Writes() != 0 {
			t.Fatal("a plan differs from itself", err)
		}
	})
}

const calendars = `
-- zester.yaml --
calendars: {freeze: [2026-12-24/2027-01-06, sat]}
-- top.yaml --
base: {'*': [a, b]}
-- settings/a.yaml --
schedule:
  careful: {module: test.ping, interval: 1h, blackout: freeze}
-- settings/b.yaml --
schedule:
  after: {module: test.ping, needs: {entry: careful}}
`

func TestCalendarsOfTheRepoAreWrittenOut(t *testing.T) {
	c := plan.NewCompiler()
	files := tree(calendars)
	before := compile(t, c, files, fleet("web-01")).Peels["web-01"]
	if !bytes.Contains(before.Settings, []byte("2026-12-24/2027-01-06")) || bytes.Contains(before.Settings, []byte("freeze")) {
		t.Errorf("the peel gets %q", before.Settings)
	}
	files["zester.yaml"] = &fstest.MapFile{Data: []byte("calendars: {freeze: [sun]}")}
	if after := compile(t, c, files, fleet("web-01")).Peels["web-01"]; after.Digest == before.Digest {
		t.Error("another calendar changes nothing")
	}
	files["zester.yaml"] = &fstest.MapFile{Data: []byte("calendars: {other: [sun]}")}
	if _, err := c.Compile(files, fleet("web-01")); err == nil || !strings.Contains(err.Error(), "settings/a.yaml:2:") || !strings.Contains(err.Error(), "freeze") {
		t.Errorf("a calendar that is not there: %v", err)
	}
}

func TestNeedsAreCheckedOverAllFilesOfAPeel(t *testing.T) {
	files := tree(calendars)
	files["top.yaml"] = &fstest.MapFile{Data: []byte("base: {'*': [b]}")}
	if _, err := plan.NewCompiler().Compile(files, fleet("web-01")); err == nil || !strings.Contains(err.Error(), "schedule.after.needs") {
		t.Errorf("an entry of a file that the peel does not get: %v", err)
	}
}
