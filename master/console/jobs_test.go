package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// aLongResult holds that a page has 500 lines of results, and that the others are reached from it.
func aLongResult(t *testing.T, f *fleet) {
	var text strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&text, "line %d;\n", i+1)
	}
	jid := wire.NewJID()
	_, err := api.JobDispatch.Ask(t.Context(), f.local, job.Spec{
		JID: jid, Function: "test.echo", Args: map[string]any{"text": text.String()}, TargetExpr: "web-*",
		Targets: []target.PeelID{"web-01", "web-02"}, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.ends(t, jid, job.Complete)
	eve := f.login(t, "eve")
	link := regexp.MustCompile(`href="([^"]*)" data-testid="lines-after"`)
	at := "/jobs/" + string(jid)
	for _, want := range []struct{ first, last int }{{1, 500}, {501, 1000}, {1001, 1200}} {
		got := eve.get(at)
		got.has(t, "2 peels ok", fmt.Sprintf("</span>line %d;", want.first), fmt.Sprintf("</span>line %d;", want.last))
		if n := strings.Count(got.body, "</span>line "); n != want.last-want.first+1 {
			t.Errorf("%s has %d lines", at, n)
		}
		next := link.FindStringSubmatch(got.body)
		if last := want.last == 1200; last != (next == nil) {
			t.Fatalf("after line %d: %q", want.last, next)
		} else if last {
			got.has(t, `data-testid="lines-before"`)
			continue
		}
		at = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	if got := eve.get("/jobs/" + string(jid) + "?from=x"); got.status != http.StatusBadRequest {
		t.Errorf("from=x: %d", got.status)
	}
}
