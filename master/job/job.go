// Package job stores the records of jobs: each is one function that runs on a list of peels. Call [NewStore], then
// [Store.Create] for a job to start, [Store.Update] for each change, and [Store.Archive] and [Store.Remove] when it has
// ended. [Store.Get], [Store.Rows] and [Store.List] read jobs.
//
// A record begins as claimed and ends in one of the final states; [End.Status] is the only place that decides which.
// A live job is in the bucket active, where its record does not expire. Each write there is conditional on the revision
// of the one before; a master with another revision gets [ErrConflict]. The revision of the claim is the job's first
// epoch, by which peels distinguish requests of an earlier owner from those of a later one; it only rises. A job that
// has ended is in the bucket jobs for a week, as runs of schedules are. First its live record gets a final status; then
// the record is copied ([Store.Archive]) and removed from the bucket active ([Store.Remove]). Readers look in the
// bucket active first, then in jobs, so they find every job.
//
// The earlier revisions of a live record go with it: of an ended job the bucket jobs has the last one alone. How its
// status changed is in the stream job-events, for a week.
//
// Four invariants hold for every record:
//
//   - the bucket active has no job whose end was reported, and the bucket jobs no job that has not ended;
//   - a record that says claimed was never published to any peel, so that a claim can be dispatched again;
//   - every return of a peel that a final record counts is in the bucket job-returns;
//   - a key that could not be read is an error and never an absent key: only [ErrNotFound] means absent.
//
// Records are read from the leader of the stream, because decisions depend on them.
package job

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Status is the state of a job.
type Status string

// The statuses of a job. A job ends with one of the last five.
const (
	Pending  Status = "pending"  // requested, not recorded yet
	Claimed  Status = "claimed"  // recorded, has an owner, nothing was published
	Running  Status = "running"  // requests may have been published
	Complete Status = "complete" // every target returned, all succeeded
	Partial  Status = "partial"  // some returned in time
	Timeout  Status = "timeout"  // none returned in time
	Failed   Status = "failed"   // every target returned and some failed, or the job could not be run
	Canceled Status = "canceled" // stopped by a person before all targets were done
)

// Final reports whether a job with this status has ended.
func (s Status) Final() bool {
	switch s {
	case Complete, Partial, Timeout, Failed, Canceled:
		return true
	}
	return false
}

// Known reports whether s is one of the constants.
func (s Status) Known() bool {
	switch s {
	case Pending, Claimed, Running:
		return true
	}
	return s.Final()
}

// An End has the counts of a job that waits for nothing more.
type End struct {
	Targets, Returned, Succeeded int
	Canceled                     bool   // by a person
	Stopped                      int    // returns of peels that the cancel stopped
	Reason                       string // why the job could not be run; empty if it could
	LastReturn                   uint64 // see [Job.LastReturn]
}

// Status returns the final status of a job with this end.
func (e End) Status() Status {
	switch {
	case e.Reason != "":
		return Failed
	case e.Returned >= e.Targets && e.Succeeded >= e.Targets:
		return Complete
	case e.Canceled && (e.Returned < e.Targets || e.Stopped > 0):
		return Canceled
	case e.Returned >= e.Targets:
		return Failed
	case e.Returned > 0:
		return Partial
	}
	return Timeout
}

// Keys of [Spec.Metadata] that masters write; people cannot set them.
const (
	MetaSource       = "source"        // [SourceSchedule]; absent for jobs of people
	MetaSchedule     = "schedule"      // name of the schedule entry
	MetaTrigger      = "trigger"       // why the entry ran, a [wire.Trigger]
	MetaCommit       = "commit"        // that last changed the entry
	MetaFile         = "file"          // file:line of the entry in that commit
	MetaAuthor       = "author"        // of that commit
	MetaNominal      = "nominal"       // when the entry was due, RFC 3339, as the next three
	MetaFired        = "fired"         // when its splay had passed
	MetaStarted      = "started"       // when it ran
	MetaFinished     = "finished"      // when it ended
	MetaFailedReason = "failed_reason" // why a job could not be run
)

// Keys of [Spec.Metadata] that clients write.
const (
	MetaReason = "reason" // why the job was requested
	MetaAgent  = "agent"  // the assistant's program that asked for it, as it calls itself
)

// Keys of [Spec.Metadata] that a client can ask for: masters take them from the record of the held action, or drop
// them.
const (
	MetaHeld    = "held"     // the held action that was approved
	MetaAskedBy = "asked_by" // the user in whose name the assistant asked, if another approved the job
)

// OwnMetadata returns metadata of a client without what it cannot say.
func OwnMetadata(m map[string]string) map[string]string {
	m = maps.Clone(m)
	delete(m, MetaHeld)
	delete(m, MetaAskedBy)
	return m
}

var reservedMetadata = map[string]bool{
	MetaSource: true, MetaSchedule: true, MetaTrigger: true, MetaCommit: true, MetaFile: true, MetaAuthor: true,
	MetaNominal: true, MetaFired: true, MetaStarted: true, MetaFinished: true, MetaFailedReason: true,
}

// SourceSchedule marks the record of a run that a peel started by its own schedule.
const SourceSchedule = "schedule"

// A Job is one record. Its JSON is what `job show` prints.
type Job struct {
	Spec
	// Target is what a master says about the targets: the expression of the request if it selected exactly these peels
	// when the job was recorded, else the first five of them and how many more there are.
	Target string `json:"target,omitempty"`
	// TargetCount is the number of targets. [Spec.Targets] itself is absent from listings and from answers and
	// events about a job with many targets.
	TargetCount int       `json:"target_count"`
	Deadline    time.Time `json:"deadline,omitzero"` // on the owner's clock
	Status      Status    `json:"status"`
	Created     time.Time `json:"created"`
	Updated     time.Time `json:"updated"`
	User        string    `json:"user"`            // from the credential that asked
	Owner       string    `json:"owner,omitempty"` // the master that watches it
	// Epoch grows with every change of the owner.
	Epoch uint64 `json:"epoch,omitempty"`
	Sending
	Cancel       *Cancel `json:"cancel,omitempty"`
	ReclaimCount int     `json:"reclaim_count,omitempty"` // how often another master took it over
	Totals
	V int `json:"v"`

	// TargetHeads is the first target of each chunk, in stored records whose targets are stored beside them.
	TargetHeads []target.PeelID `json:"target_heads,omitempty"`
	heads       []target.PeelID

	// Live reports whether the record is in the bucket active: the job has not ended, or its end is not reported yet.
	Live bool `json:"-"`
	// Revision is the revision of the record that was read or written last. The next write must replace it.
	Revision uint64 `json:"-"`
	// Written is when that was, on the bus's clock; known only of a record that was read.
	Written time.Time `json:"-"`
}

// Sending says in which role and how far the requests of a job were sent.
type Sending struct {
	// Role is from the credential that asked for the job. Requests that are sent later are judged by it. It is empty if
	// a master asked, and in records of earlier versions.
	Role grants.Role `json:"role,omitempty"`
	// RequestEpoch is the epoch in the requests, whichever master sends them, so that a peel runs the job once. It is
	// zero until the job runs.
	RequestEpoch uint64 `json:"request_epoch,omitempty"`
	// Published is how many of the targets, in their order, may have been sent the request. It is stored before they
	// are sent.
	Published int       `json:"published,omitempty"`
	Sent      time.Time `json:"sent,omitzero"` // when Published was stored last
}

// Totals count the returns of a job. They are set when the job ends.
type Totals struct {
	ReturnCount  int `json:"return_count"`
	SuccessCount int `json:"success_count"`
	// LastReturn is the sequence in the bucket job-returns of the newest return that counts. Later returns came after
	// the end. It is zero if none counts, and in records of earlier versions.
	LastReturn uint64 `json:"last_return,omitempty"`
}

// A Cancel is a request to stop a job.
type Cancel struct {
	By     string    `json:"by"` // the user, or "master OWNER"
	Time   time.Time `json:"time"`
	Reason string    `json:"reason,omitempty"` // empty if none was given
}

// Finish turns the record into the final one of a job that ended so, at a moment of the owner's clock.
func (j *Job) Finish(e End, now time.Time) {
	j.Status, j.Updated = e.Status(), now
	j.ReturnCount, j.SuccessCount, j.LastReturn = e.Returned, e.Succeeded, e.LastReturn
	if e.Reason != "" {
		j.Metadata = maps.Clone(j.Metadata)
		if j.Metadata == nil {
			j.Metadata = map[string]string{}
		}
		j.Metadata[MetaFailedReason] = e.Reason
	}
}

// Summary returns the job without the fields that may be large: its targets and arguments.
func (j *Job) Summary() Job {
	s := *j
	s.Targets, s.Args = nil, nil
	return s
}

// Scheduled reports whether the record is of a run that a peel started by itself.
func (j *Job) Scheduled() bool { return j.Metadata[MetaSource] == SourceSchedule }

// FromDispatch is a claim on what a person asked for: a record that has not been written yet. Its deadline is
// counted from now, the owner's clock; what the asker's clock says has no part in it.
func FromDispatch(spec Spec, user, owner string, now time.Time) *Job {
	return &Job{
		Spec: spec, Target: firstTargets(spec.Targets), TargetCount: len(spec.Targets),
		Deadline: now.Add(spec.WhenOnline + spec.Timeout), Status: Claimed,
		Created: now, Updated: now, User: user, Owner: owner, V: wire.Version,
	}
}

// shownTargets is how many peels [Job.Target] names.
const shownTargets = 5

// firstTargets returns the first IDs, and how many more there are: "db-01, web-01" or "p1, p2, p3, p4, p5 and 7 more".
func firstTargets(ids []target.PeelID) string {
	names := make([]string, 0, shownTargets)
	for _, id := range ids[:min(len(ids), shownTargets)] {
		names = append(names, string(id))
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
