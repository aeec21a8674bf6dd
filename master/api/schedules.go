// File schedules.go has the requests and replies about the schedule entries of a config repo: zester.api.schedule.list,
// add, remove, enable, disable, file and replace. Package propose serves them; the Ask method of the client in
// master/api sends them. [NewScheduleAdd] makes the request for an entry from the fields that the REST API and the
// command line take.

package api

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Bounds of requests.
const (
	ScheduleMaxRequest = 256 << 10 // bytes of an encoded request
	ScheduleMaxName    = 200       // bytes
	ScheduleMaxKey     = 200       // bytes of an idempotency key
	ScheduleMaxText    = 128 << 10 // bytes of a file that is replaced
)

// A ScheduleAddRequest adds an entry.
type ScheduleAddRequest struct {
	Name   string         `json:"name"`             // for people; the entry's name is made from it
	Target string         `json:"target,omitempty"` // empty: the default of the master
	Fields map[string]any `json:"fields"`           // of the entry, as in a settings file
	// Key makes the request idempotent: the same user, key and request within 7 days make one commit.
	Key     string `json:"key,omitempty"`
	Propose bool   `json:"propose,omitempty"` // open a pull request, also where the master pushes to the branch
	// Dry checks the change and returns its patch, and the commit on which it was made. Nothing is committed.
	Dry bool `json:"dry,omitempty"`
}

// A ScheduleChange removes, enables or disables an entry.
type ScheduleChange struct {
	Ref string `json:"ref"` // number or entry name
	// By removes, in place of Ref, all entries that requests of these people and tokens ("token:NAME") made, in one
	// commit.
	By      []string `json:"by,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Propose bool     `json:"propose,omitempty"`
	Dry     bool     `json:"dry,omitempty"` // as in [ScheduleAddRequest]
}

// A ScheduleFileQuery asks for the settings file of an entry.
type ScheduleFileQuery struct {
	Ref string `json:"ref"` // number or entry name
}

// A ScheduleText is the settings file of an entry at the head of the branch.
type ScheduleText struct {
	Entry  string `json:"entry"`
	File   string `json:"file"`
	Commit string `json:"commit"`
	Text   string `json:"text"`
	Digest string `json:"digest"` // of Text, for a [ScheduleReplaceRequest]
}

// A ScheduleReplaceRequest replaces the settings file of an entry. Only its entries may differ.
type ScheduleReplaceRequest struct {
	Ref string `json:"ref"` // number or entry name
	// Was is the digest of the text that was edited. If the file has another one by now, the request is refused.
	Was     string `json:"was"`
	Text    string `json:"text"`
	Reason  string `json:"reason,omitempty"`
	Propose bool   `json:"propose,omitempty"`
	Dry     bool   `json:"dry,omitempty"` // as in [ScheduleAddRequest]
}

// ScheduleDigest returns the digest of a file's text.
func ScheduleDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ScheduleChanged says what was changed.
type ScheduleChanged struct {
	ID     int    `json:"id,omitempty"`
	Entry  string `json:"entry"`
	File   string `json:"file"`
	Commit string `json:"commit"`
	Branch string `json:"branch"` // that has the commit
	// Proposed: the branch is not the one that the fleet follows, so the change waits for a merge.
	Proposed bool   `json:"proposed,omitempty"`
	URL      string `json:"url,omitempty"` // of the pull request; empty if the master knows no forge
	// Patch is the change, if the master may not write to the repo or the request was dry. There is no commit of it
	// then: git apply applies it.
	Patch   string    `json:"patch,omitempty"`
	Dry     bool      `json:"dry,omitempty"` // nothing was committed, as requested; Commit is the head of the branch
	Next    time.Time `json:"next_run,omitzero"`
	Removed []string  `json:"removed,omitempty"` // the entries that a [ScheduleChange] of several people removed
	// Repeated: there was nothing to commit, as the repo has the change. Mostly an earlier request with the same key
	// made it.
	Repeated bool `json:"repeated,omitempty"`
}

// A ScheduleQuery asks for entries.
type ScheduleQuery struct {
	Ref    string `json:"ref,omitempty"` // number or entry name; empty: all
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"` // entries; 0: 200
	// Offset leaves out as many entries; for clients that number pages.
	Offset int `json:"offset,omitempty"`
}

// A Schedule is an entry of the config repo.
type Schedule struct {
	Key       string    `json:"key"` // its place in lists
	ID        int       `json:"id,omitempty"`
	Entry     string    `json:"entry"`
	Name      string    `json:"name"` // as requested; else the entry's name
	Module    string    `json:"module"`
	Prompt    string    `json:"prompt,omitempty"`
	Model     string    `json:"model,omitempty"`
	Enabled   bool      `json:"enabled"`
	Type      string    `json:"schedule_type"` // cron, every, at, after or needs
	Cron      string    `json:"cron_expr,omitempty"`
	Interval  int64     `json:"interval_ms,omitempty"`
	At        time.Time `json:"at,omitzero"`
	Meaning   string    `json:"meaning"`           // the timing in English
	Next      time.Time `json:"next_run,omitzero"` // by the timing alone
	Created   time.Time `json:"created_at,omitzero"`
	By        string    `json:"by,omitempty"`
	Origin    string    `json:"origin"` // file:line@commit
	ManagedBy string    `json:"managed_by"`
	Delete    bool      `json:"delete_after_run,omitempty"`
}

// The values of [Schedule.ManagedBy].
const (
	ManagedByAPI = "api"
	ManagedByGit = "git"
)

// A SchedulePage is a page of entries by key: those that requests made by number, then the others by name.
type SchedulePage struct {
	Commit    string     `json:"commit"` // head of the branch
	Schedules []Schedule `json:"schedules"`
	Total     int        `json:"total"`
	Next      string     `json:"next,omitempty"` // the cursor of the next page; empty on the last
}
