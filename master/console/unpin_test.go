package console_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// TestTheEndOfAPinNamesWhatGoesOut: the form names the commit, and is asked again if the branch has moved since.
func TestTheEndOfAPinNamesWhatGoesOut(t *testing.T) {
	f := theFleet(t)
	first := f.inForce(t)
	ann := f.login(t, "ann")
	if got := ann.get("/sync/unpin"); got.status != http.StatusConflict {
		t.Errorf("a form without a pin: %d", got.status)
	}
	if _, err := api.SyncPin.Ask(t.Context(), f.people["ann"], status.PinRequest{Revision: first}); err != nil {
		t.Fatal(err)
	}
	form := ann.get("/sync/unpin")
	form.has(t, "to "+first[:8]+" by ann", "nothing new: it is the newest commit of the branch")
	old := url.Values{"seen": {form.field(t, "seen")}, "typed": {first[:8]}}

	next, err := f.work.Commit("Say hello louder", map[string][]byte{
		"settings/all.yaml":   repo["settings/all.yaml"].Data,
		"settings/other.yaml": []byte("schedule: {}\n"),
	}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the branch read", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && string(s.Observed) == next.String()
	})
	if got := ann.post("/sync/unpin", old); got.status != http.StatusConflict {
		t.Errorf("a form that names another commit: %d", got.status)
	}
	form = ann.get("/sync/unpin")
	form.has(t, "<dt>goes out</dt><dd>"+next.String()[:8], "not tried yet")
	sent := url.Values{"seen": {form.field(t, "seen")}, "typed": {first[:8]}}
	if got := ann.post("/sync/unpin", sent); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another text to confirm: %d", got.status)
	}
	sent.Set("typed", next.String()[:8])
	if got := ann.post("/sync/unpin", sent); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	f.until(t, "the commit in force", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.Pinned == nil && string(s.LastGood.Commit) == next.String()
	})
}
