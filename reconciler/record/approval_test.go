package record

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings"
)

func TestWhatMayBeApproved(t *testing.T) {
	waits := Record{Blocked: &Blocked{Commit: "aaaa1111", Hash: strings.Repeat("f", 64)}}
	for _, c := range []struct {
		name   string
		r      Record
		digits string
		head   settings.Commit
		want   string // empty: it may
	}{
		{"all digits", waits, waits.Blocked.Hash, "aaaa1111", ""},
		{"some digits", waits, "ffffffff", "aaaa1111", ""},
		{"too few digits", waits, "fffffff", "aaaa1111", "8 digits"},
		{"no digits", waits, "", "aaaa1111", "8 digits"},
		{"another plan", waits, "ffffffff0", "aaaa1111", waits.Blocked.Hash},
		{"nothing waits", Record{}, "ffffffff", "aaaa1111", "no revision waits"},
		{"the branch is elsewhere", waits, "ffffffff", "bbbb2222", "moved from aaaa1111 to bbbb2222"},
		{"the branch was not read", waits, "ffffffff", "", "not read the branch"},
	} {
		err := c.r.CheckApproval(c.digits, c.head)
		_, refused := errors.AsType[*Refusal](err)
		if (err == nil) != (c.want == "") || err != nil && (!refused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestWhatHoldsARevisionBack(t *testing.T) {
	approved := func(commit settings.Commit, hash string) Record {
		return Record{Approved: &Approval{Commit: commit, Hash: hash}}
	}
	waits := Record{Blocked: &Blocked{Commit: "head", Hash: "before", Reason: "large then", Kind: "Kind"}}
	large := Judgement{Hash: "h", Exceeded: "large"}
	all := Judgement{Hash: "h", Exceeded: "all", RemovesAll: true}
	rewritten := func(j Judgement) Judgement { j.Rewritten = "moved"; return j }
	allowed := func(j Judgement) Judgement { j.Allowed = true; return j }
	for _, c := range []struct {
		name string
		r    Record
		j    Judgement
		want string // the reason; empty: it goes out
		kind string
	}{
		{"small", Record{}, Judgement{Hash: "h"}, "", ""},
		{"large", Record{}, large, "large", "TooManyChanges"},
		{"large and says so", Record{}, allowed(large), "", ""},
		{"all and says so", Record{}, allowed(all), "all", "TooManyChanges"},
		{"approved", approved("head", "h"), all, "", ""},
		{"another plan approved", approved("head", "other"), all, "all", "TooManyChanges"},
		{"another revision approved", approved("other", "h"), all, "all", "TooManyChanges"},
		{"approved without a revision", approved("", "h"), all, "all", "TooManyChanges"},
		{"rewritten", Record{}, rewritten(Judgement{Hash: "h"}), "moved", "HistoryRewritten"},
		{"rewritten and says so", Record{}, rewritten(allowed(large)), "moved; large", "HistoryRewritten"},
		{"rewritten and all", Record{}, rewritten(all), "moved; all", "HistoryRewritten"},
		{"rewritten and approved", approved("head", "h"), rewritten(all), "", ""},
		{"small by now", waits, Judgement{Hash: "h"}, "large then", "Kind"},
		{"waited and says so", waits, allowed(large), "large", "TooManyChanges"},
		{"after an adoption", Record{Generation: 7}, Judgement{Hash: "h"}, "it is the first revision after the fleet was adopted", "Adopted"},
		{"large after an adoption and says so", Record{Generation: 7}, allowed(large), "it is the first revision after the fleet was adopted; large", "Adopted"},
		{"approved after an adoption", Record{Generation: 7, Approved: &Approval{Commit: "head", Hash: "h"}}, all, "", ""},
		{"weaker rules", Record{Commit: "in force"}, Judgement{Hash: "h", Weakened: "weaker"}, "weaker", "SafetyWeakened"},
		{"weaker rules, and a large change that says so", Record{}, Judgement{Hash: "h", Weakened: "weaker", Exceeded: "large", Allowed: true}, "weaker; large", "SafetyWeakened"},
		{"nothing to go back to", Record{}, Judgement{Hash: "h", Unreadable: "unreadable"}, "unreadable", "BaseUnreadable"},
		{"small by now, after a rollout", Record{Commit: "c", Blocked: waits.Blocked}, Judgement{Hash: "h"}, "", ""},
		{"another waited", Record{Blocked: &Blocked{Commit: "other"}}, Judgement{Hash: "h"}, "", ""},
	} {
		got := c.r.Judge("head", c.j)
		if c.want == "" && got == nil {
			continue
		}
		if want := (Blocked{Commit: "head", Hash: "h", Reason: c.want, Kind: c.kind, Sent: string(c.r.Commit)}); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

func TestAnApprovalEndsWithItsRevision(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Record
		want bool
	}{
		{"nothing waits", Record{}, false},
		{"the head waits", Record{Blocked: &Blocked{Commit: "head"}}, false},
		{"the head is approved", Record{Approved: &Approval{Commit: "head"}}, false},
		{"another waits", Record{Blocked: &Blocked{Commit: "old"}}, true},
		{"another is approved", Record{Approved: &Approval{Commit: "old"}}, true},
	} {
		if got := c.r.IsOutdated("head"); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if without := c.r.WithoutApproval(); without.IsOutdated("head") {
			t.Errorf("%s: %+v", c.name, without)
		}
	}
}

func TestWhatMayBeRetried(t *testing.T) {
	r := Record{Skipped: []Skipped{{Commit: "aaaa1"}, {Commit: "aabb2"}, {Commit: "aaaa1"}}}
	pinned, paused := r, r
	pinned.Pinned = &Pin{Commit: "cccc", By: "ada"}
	paused.Suspended = &Approval{By: "eve"}
	for _, c := range []struct {
		name   string
		r      Record
		digits string
		head   settings.Commit
		want   string // the revision, or part of the refusal
		ok     bool
	}{
		{"the newest", r, "", "aaaa1", "aaaa1", true},
		{"by its digits", r, "aabb", "aabb2", "aabb2", true},
		{"rolled back twice", r, "aaaa", "aaaa1", "aaaa1", true},
		{"too few digits", r, "aaa", "aaaa1", "4 digits", false},
		{"two begin with the digits", Record{Skipped: []Skipped{{Commit: "aaaa1"}, {Commit: "aaaa2"}}}, "aaaa", "aaaa1", "2 revisions", false},
		{"none was", Record{}, "", "aaaa1", "no revision was rolled back", false},
		{"that one was not", r, "dddd", "aaaa1", "no such revision", false},
		{"the branch was not read", r, "", "", "not read the branch", false},
		{"the branch is elsewhere", r, "", "bbbb2", "moved to bbbb2", false},
		{"pinned", pinned, "", "aaaa1", "ada has pinned", false},
		{"paused", paused, "", "aaaa1", "eve has paused", false},
	} {
		got, err := c.r.CheckRetry(c.digits, c.head)
		if c.ok && (err != nil || string(got) != c.want) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
		if _, refused := errors.AsType[*Refusal](err); !c.ok && (!refused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if left := r.WithoutSkipped("aaaa1"); len(left.Skipped) != 1 || len(r.Skipped) != 3 {
		t.Errorf("%+v of %+v", left.Skipped, r.Skipped)
	}
}
