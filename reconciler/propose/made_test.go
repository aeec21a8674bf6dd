package propose_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestWhatARevokedUserMadeIsRemovedByOneCommit(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	for user, names := range map[string][]string{"eve": {"door", "hatch"}, "ann": {"mine"}} {
		for _, name := range names {
			if _, err := s.client(user).ScheduleAdd(t.Context(), ping(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := len(s.log("%s"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ann := s.client("ann")
	for why, q := range map[string]api.ScheduleChange{
		"exclude each other":   {Ref: "door", By: []string{"eve"}},
		"names of one line":    {By: []string{"eve\nZester-Allow: remove"}},
		"no request of nobody": {By: []string{"nobody"}},
	} {
		if _, err := ask[api.ScheduleChanged](ctx, ann, "remove", q); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	out, err := ask[api.ScheduleChanged](ctx, ann, "remove", api.ScheduleChange{By: []string{"eve", "token:eves"}, Reason: "eve was revoked"})
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(out.Removed)), []string{"door", "hatch"}) {
		t.Fatalf("%+v, %v", out, err)
	}
	if log := s.log("%an: %s/%b"); !slices.Contains(log, "ann: schedules: remove entries by their authors/Made by eve, token:eves.") || !slices.Contains(log, "Reason: eve was revoked") {
		t.Errorf("%q", log)
	}
	if log := s.log("%s"); len(log) != before+1 {
		t.Errorf("%q", log)
	}
	page, err := ann.Schedules(t.Context(), api.ScheduleQuery{})
	if err != nil || len(page.Schedules) != 2 || page.Schedules[0].Entry != "mine" || page.Schedules[1].Entry != "by-hand" {
		t.Errorf("%+v, %v", page, err)
	}
}
