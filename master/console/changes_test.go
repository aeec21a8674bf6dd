package console_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
)

// head returns the commit at the head of the branch.
func (f *fleet) head(t *testing.T) string {
	t.Helper()
	page, err := api.ScheduleList.Ask(t.Context(), f.local, api.ScheduleQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Commit
}

// commitsOfEntries adds, edits and removes entries: each commit is as it was shown.
func commitsOfEntries(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	before := f.head(t)
	filled := url.Values{"name": {"tidy"}, "target": {"web-*"}, "function": {"test.ping"}, "schedule": {"every blue moon"}}
	got := ann.post("/entries/new", filled)
	if got.status != http.StatusUnprocessableEntity {
		t.Errorf("a timing that nobody understands: %d\n%s", got.status, got.body)
	}
	got.has(t, `data-testid="error"`, `value="tidy"`)
	filled.Set("schedule", "every monday at 9am")
	got = ann.post("/entries/new", filled)
	if got.status != http.StatusOK || f.head(t) != before {
		t.Fatalf("the first time: %d\n%s", got.status, got.body)
	}
	got.has(t, `data-testid="diff"`, "test.ping", "made on", "Add it")
	if bad := ann.post("/entries/new", withField(filled, "seen", "other")); bad.status != http.StatusConflict {
		t.Errorf("another commit: %d", bad.status)
	}
	filled.Set("seen", got.field(t, "seen"))
	if got = ann.post("/entries/new", filled); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	added := f.head(t)
	if added == before {
		t.Error("there is no commit")
	}

	form := ann.get("/entries/tidy/edit")
	text := regexp.MustCompile(`(?s)name="text">(.*?)</textarea>`).FindStringSubmatch(form.body)
	if text == nil {
		t.Fatalf("no file to edit:\n%s", form.body)
	}
	was := html.UnescapeString(text[1])
	edited := url.Values{
		"was": {form.field(t, "was")}, "reason": {"mondays are busy"},
		"text": {strings.ReplaceAll(strings.ReplaceAll(was, "monday", "tuesday"), "\n", "\r\n")},
	}
	bad := ann.post("/entries/tidy/edit", withField(edited, "text", was+"schedule: [\n"))
	if bad.status != http.StatusUnprocessableEntity {
		t.Errorf("no YAML: %d", bad.status)
	}
	bad.has(t, "tidy", "schedule: [")
	got = ann.post("/entries/tidy/edit", edited)
	got.has(t, `data-testid="diff"`, "tuesday", "Commit it")
	edited.Set("seen", got.field(t, "seen"))
	edited.Set("reason", "mondays are too busy") // as it is sent with the second form
	if got = ann.post("/entries/tidy/edit", edited); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	if again := ann.post("/entries/tidy/edit", edited); again.status != http.StatusUnprocessableEntity {
		t.Errorf("the file has changed since: %d\n%s", again.status, again.body)
	}

	form = ann.get("/entries/tidy/remove")
	form.has(t, `data-testid="diff"`, "tuesday")
	removed := url.Values{"seen": {form.field(t, "seen")}, "typed": {"tidy"}, "reason": {"not needed"}}
	if got := ann.post("/entries/tidy/remove", removed); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	if got := ann.get("/entries/tidy/remove"); got.status != http.StatusNotFound {
		t.Errorf("the form of an entry that was removed: %d", got.status)
	}
	ann.get("/system/audit?user=ann&action=schedule").has(t, "schedule.add", "schedule.replace", "schedule.remove")
}

// withField returns the fields of a form with another value of one of them.
func withField(form url.Values, name, value string) url.Values {
	changed := url.Values{}
	maps.Copy(changed, form)
	changed.Set(name, value)
	return changed
}

// aPatch holds that a person gets the change where masters may not write to the repo.
func aPatch(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	form := ann.get("/entries/hello/remove")
	sent := url.Values{"seen": {form.field(t, "seen")}, "typed": {"hello"}}
	got := ann.post("/entries/hello/remove", sent)
	if got.status != http.StatusOK {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	got.has(t, "Nothing was committed", "git apply", `data-testid="diff"`, "-  hello:")
}
