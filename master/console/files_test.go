package console_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// entryFiles has an entry in each of some files. Their names differ in case, and one is a prefix of another.
var entryFiles = map[string]string{
	"all": "settings/all.yaml", "web": "settings/web/cron.yaml", "deep": "settings/web/old/cron.yaml",
	"secret": "settings/web/secret.yaml", "upper": "settings/Web/cron.yaml", "near": "settings/webs/cron.yaml",
}

// filesTeam lets people write below one folder but for a file, and the files of new entries.
const filesTeam = `allow:
  - {verbs: [read], target: "*"}
  - {verbs: [schedule.add, schedule.remove, schedule.enable, schedule.disable, schedule.replace, schedule.file],
     paths: [settings/web, settings/api/*, top.d/api.yaml]}
deny:
  - {verbs: [schedule.remove, schedule.enable, schedule.disable, schedule.replace, schedule.file], paths: [settings/web/secret.*]}
`

// TestRulesSayWhichFilesOfTheRepoPeopleWrite compares what each verb does with each file of the repo with what auth can
// says of the file.
func TestRulesSayWhichFilesOfTheRepoPeopleWrite(t *testing.T) {
	files := fstest.MapFS{}
	var refs []string
	for name, file := range entryFiles {
		files[file] = &fstest.MapFile{Data: []byte("schedule:\n  " + name + ":\n    module: test.ping\n    interval: 1h\n")}
		refs = append(refs, strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(file, "settings/"), ".yaml"), "/", "."))
	}
	slices.Sort(refs)
	files["top.yaml"] = &fstest.MapFile{Data: []byte("base:\n  '*': [" + strings.Join(refs, ", ") + "]\n")}
	f := newFleetOf(t, files, "web-01")
	f.bare(t)
	f.mode = propose.Direct
	f.start(t)
	f.setRole(t, "files", filesTeam)
	f.setRole(t, "no-web", "people: [deb]\ndeny: [{verbs: [schedule.remove, schedule.file], paths: [settings/web]}]\n")
	for name, q := range map[string]credential.UserRequest{
		"pat": {Role: grants.RoleMember, Roles: []string{"files"}}, "deb": {Role: grants.RoleOperator},
	} {
		q.Name = name
		creds, _, err := f.local.UserAdd(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		f.people[name] = f.connect(t, creds)
	}
	refused, done := 0, 0
	for _, name := range []string{"pat", "deb", "ann", "eve"} {
		for entry, file := range entryFiles {
			for verb, err := range changesOf(t.Context(), f.people[name], entry) {
				isRefused := api.CodeOf(err) == api.CodeForbidden || api.CodeOf(err) == api.CodeDenied
				if want := f.mayFile(t, name, verb, file); isRefused == want {
					t.Errorf("%s of %s by %s ended with %v, and the rules say %v", verb, file, name, err, want)
				}
				if isRefused {
					refused++
					if strings.Contains(err.Error(), "interval") {
						t.Errorf("%s shows the file: %v", verb, err)
					}
				} else {
					done++
				}
			}
		}
	}
	if refused < 40 || done < 40 {
		t.Errorf("%d are refused and %d are not: the cases are of one kind", refused, done)
	}
	t.Run("later steps", func(t *testing.T) { filesOfHeldActions(t, f) })
	t.Run("two persons", func(t *testing.T) { filesOfTwoPersons(t, f) })
	t.Run("links", func(t *testing.T) { filesBehindLinks(t, f) })
	t.Run("all files", func(t *testing.T) { filesOfNewEntries(t, f) })
}

// mayFile reports what the rules say about a request on a file.
func (f *fleet) mayFile(t *testing.T, name, verb, file string) bool {
	t.Helper()
	a, err := api.UserExplain.Ask(t.Context(), f.local, api.AccessRequest{Name: name, Verb: verb, Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return a.Allowed
}

// changesOf tries each change of an entry, which changes nothing, and returns how each ended.
func changesOf(ctx context.Context, by *api.Client, entry string) map[string]error {
	change := api.ScheduleChange{Ref: entry, Dry: true}
	ended := map[string]error{}
	_, ended["schedule.remove"] = api.ScheduleRemove.Ask(ctx, by, change)
	_, ended["schedule.disable"] = api.ScheduleDisable.Ask(ctx, by, change)
	_, ended["schedule.enable"] = api.ScheduleEnable.Ask(ctx, by, change) // it is enabled, so there is nothing to change
	_, ended["schedule.file"] = api.ScheduleFile.Ask(ctx, by, api.ScheduleFileQuery{Ref: entry})
	_, ended["schedule.replace"] = api.ScheduleReplace.Ask(ctx, by, api.ScheduleReplaceRequest{
		Ref: entry, Was: "a guess", Text: "schedule: {}\n", Dry: true,
	})
	return ended
}

// filesOfHeldActions holds that both persons have to be allowed the file, when the request is carried out.
func filesOfHeldActions(t *testing.T, f *fleet) {
	f.setRole(t, "four-eyes", "two_persons: [{verbs: [schedule.remove]}]\n")
	f.until(t, "the rules about two persons", func(ctx context.Context) bool {
		_, err := api.ScheduleRemove.Ask(ctx, f.people["ann"], api.ScheduleChange{Ref: "nothing"})
		_, waits := api.HeldAs(err)
		return waits
	})
	for _, c := range []struct{ first, second, entry, text string }{
		{"pat", "ann", "secret", "denies schedule.remove of settings/web/secret.yaml"},
		{"ann", "pat", "secret", ""}, // pat approves nothing
		{"deb", "ann", "web", "denies schedule.remove of settings/web/cron.yaml"},
		{"ann", "deb", "web", "denies schedule.remove of settings/web/cron.yaml"},
		{"pat", "ann", "all", "settings/all.yaml is none of"},
		{"pat", "ann", "deep", "done"},
	} {
		_, err := api.ScheduleRemove.Ask(t.Context(), f.people[c.first], api.ScheduleChange{Ref: c.entry})
		id, waits := api.HeldAs(err)
		if !waits {
			t.Errorf("%s removes %s: %v", c.first, c.entry, err)
			continue
		}
		_, err = api.HoldApprove.Ask(t.Context(), f.people[c.second], api.HoldRequest{ID: id})
		if (c.text == "done") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s approves that %s removes %s: %v", c.second, c.first, c.entry, err)
		}
	}
	if _, err := api.RoleRemove.Ask(t.Context(), f.local, api.RoleName{Name: "four-eyes"}); err != nil {
		t.Fatal(err)
	}
	text, err := f.git("show", "main:settings/web/old/cron.yaml")
	if err == nil && strings.Contains(text, "deep:") {
		t.Errorf("what both may do was not done: %s", text)
	}
	for _, file := range []string{"settings/web/secret.yaml", "settings/web/cron.yaml", "settings/all.yaml"} {
		if _, err := f.git("show", "main:"+file); err != nil {
			t.Errorf("%s was changed: %v", file, err)
		}
	}
}

// filesOfNewEntries holds that a change of several files needs each of them, and that a changed rule holds at once.
func filesOfNewEntries(t *testing.T, f *fleet) {
	add := func(ctx context.Context, name string, isDry bool) error {
		q, err := api.NewScheduleAdd(map[string]any{"name": name, "function": "test.ping", "every": "1h", "target": "web-01"})
		if err != nil {
			t.Fatal(err)
		}
		q.Dry = isDry
		_, err = api.ScheduleAdd.Ask(ctx, f.people["pat"], q)
		return err
	}
	f.until(t, "an entry", func(ctx context.Context) bool { return add(ctx, "../../top", false) == nil })
	if _, err := f.git("show", "main:settings/api/top.yaml"); err != nil {
		t.Errorf("the entry is elsewhere: %v", err)
	}
	f.setRole(t, "files", strings.Replace(filesTeam, ", top.d/api.yaml", "", 1))
	f.until(t, "the new rule", func(ctx context.Context) bool {
		err := add(ctx, "another", true)
		return err != nil && strings.Contains(err.Error(), "top.d/api.yaml is none of")
	})
	q := api.ScheduleChange{By: []string{"pat"}}
	if _, err := api.ScheduleRemove.Ask(t.Context(), f.people["pat"], q); err == nil || !strings.Contains(err.Error(), "top.d/api.yaml") {
		t.Errorf("pat removes all entries that pat made: %v", err)
	}
}

// filesOfTwoPersons holds that changes of some files need two persons, as auth can says, and changes of others do not.
func filesOfTwoPersons(t *testing.T, f *fleet) {
	f.madeBy(t, f.local, "bob")
	f.setRole(t, "four-eyes", "two_persons:\n  - {verbs: [schedule.disable, schedule.add], paths: [settings/web, top.d/*]}\n"+
		"  - {verbs: [schedule.enable]}\n")
	f.until(t, "the rules", func(ctx context.Context) bool {
		_, err := api.ScheduleEnable.Ask(ctx, f.people["ann"], api.ScheduleChange{Ref: "nowhere"})
		_, waits := api.HeldAs(err)
		return waits
	})
	q := api.ScheduleChange{Ref: "web", Dry: true}
	if _, err := api.ScheduleDisable.Ask(t.Context(), f.people["ann"], q); err != nil {
		t.Errorf("what is only checked waits: %v", err)
	}
	for _, entry := range []string{"near", "web"} {
		file := entryFiles[entry]
		a, err := api.UserExplain.Ask(t.Context(), f.local, api.AccessRequest{Name: "ann", Verb: "schedule.disable", Path: file})
		if err != nil {
			t.Fatal(err)
		}
		var id api.HoldID
		waits := false
		f.until(t, "a change of "+file, func(ctx context.Context) bool { // an earlier commit may not be in force yet
			_, err = api.ScheduleDisable.Ask(ctx, f.people["ann"], api.ScheduleChange{Ref: entry})
			id, waits = api.HeldAs(err)
			return waits || err == nil
		})
		if waits != (a.Second != "") || waits != (entry == "web") {
			t.Errorf("a change of %s ended with %v, and auth can says %+v", file, err, a)
		}
		isDone := func() bool {
			text, err := f.git("show", "main:"+file)
			return err == nil && strings.Contains(text, "enabled: false")
		}
		if isDone() == waits {
			t.Errorf("%s was changed: %v, and the change waits: %v", file, isDone(), waits)
		}
		if !waits {
			continue
		}
		f.once(t, id, map[string]string{"ann": "they are the same", "pat": ""}, "bob")
		if !isDone() {
			t.Errorf("%s is as it was after two persons", file)
		}
	}
	add, err := api.NewScheduleAdd(map[string]any{"name": "extra", "function": "test.ping", "every": "1h", "target": "web-01"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.ScheduleAdd.Ask(t.Context(), f.people["ann"], add); api.CodeOf(err) != api.CodeWaits {
		t.Errorf("a change of several files, one of which needs two persons: %v", err)
	}
	if _, err := api.RoleRemove.Ask(t.Context(), f.local, api.RoleName{Name: "four-eyes"}); err != nil {
		t.Fatal(err)
	}
}

// filesBehindLinks holds that a change never goes through a symbolic link, neither of a file nor of a folder.
func filesBehindLinks(t *testing.T, f *fleet) {
	dir := filepath.Join(t.TempDir(), "work")
	in := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-C", dir}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for what, link := range map[string][3]string{
		"a file":   {"../all.yaml", "settings/api/linked.yaml", "the name is taken: there is a file settings/api/linked.yaml"},
		"a folder": {"web", "settings/api", "api.linked has no file: settings/api is not a directory"},
	} {
		dir = filepath.Join(t.TempDir(), "work")
		if out, err := exec.Command("git", "clone", "-q", f.repo, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		before, err := f.git("rev-parse", "main")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, link[1])), 0o755), os.Symlink(link[0], filepath.Join(dir, link[1]))); err != nil {
			t.Fatal(err)
		}
		in("add", "-A")
		in("commit", "-q", "-m", "A link")
		in("push", "-q", "origin", "HEAD:main")
		linked, err := f.git("rev-parse", "main")
		if err != nil {
			t.Fatal(err)
		}
		add, err := api.NewScheduleAdd(map[string]any{"name": "linked", "function": "test.ping", "every": "1h", "target": "web-01"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pat", "ann"} {
			f.until(t, "the end of a role", func(ctx context.Context) bool { // it may hold for a moment yet
				_, err = api.ScheduleAdd.Ask(ctx, f.people[name], add)
				return api.CodeOf(err) != api.CodeWaits
			})
			if err == nil || !strings.Contains(err.Error(), link[2]) {
				t.Errorf("%s as a link: %s gets %q %v", what, name, api.CodeOf(err), err)
			}
		}
		if now, err := f.git("rev-parse", "main"); err != nil || now != linked {
			t.Errorf("%s as a link: the branch is at %s: %v", what, now, err)
		}
		in("push", "-q", "-f", "origin", strings.TrimSpace(before)+":main")
	}
}
