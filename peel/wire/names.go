package wire

import "slices"

// ReadVerbs are the verbs of requests that change nothing, whatever their noun. Auditors may send them, clients repeat
// them when no reply comes, and the audit log does not have them.
var ReadVerbs = []string{
	"list", "show", "status", "active", "returns", "groups", "history", "peels", "states", "diff", "plan", "commit",
	"explain", "file", "resolve",
}

// Reads reports whether a request with this verb changes nothing.
func Reads(verb string) bool { return slices.Contains(ReadVerbs, verb) }

// The buckets, with their keys and values. A peel in a key is its wire ID.
const (
	BucketSettings = "settings" // peel: its newest document
	// JID: the record of a job that has not ended; targets.<jid>.<n>: its targets, if they are many
	BucketActive = "active"
	// JID: the record of a job that has ended; targets.<jid>.<n>: its targets, if they are many
	BucketJobs       = "jobs"
	BucketJobReturns = "job-returns" // <jid>.<peel>: the first return, which its stream captures from the peel
	BucketMasters    = "masters"     // master: present while it is alive
	BucketLeases     = "leases"      // task: the master that leads it
	BucketRollout    = "rollout"     // state of the reconciler
	// <blob>.<n>: a part of an encrypted file that states of peels name; <blob>.unused: since when no settings name it
	BucketFiles      = "files"
	BucketRevisions  = "revisions"  // commit: a revision that can be pinned; <commit>.<n>: a part of its files
	BucketUsers      = "users"      // name: a person, with limits and revocation
	BucketRoles      = "roles"      // all: the roles that people have written
	BucketEnroll     = "enroll"     // peel.<peel>: its enrollment; join.<token>: a join token
	BucketIdentities = "identities" // peel: its ID, and the key to which its secrets are sealed
	// last: the highest number of a schedule; key.<digest>: a request that was made with a key; removed.<commit>:
	// entries that a commit of a master removes
	BucketSchedules = "schedules"
	// alert.<hash>: an alert; silence.<id>: a silence; ping.<receiver>: the runs that it was told of
	BucketAlerts   = "alerts"
	BucketHeld     = "held"     // action.<id>: what an assistant asked for and a person decides; peels.<id>: its peels
	BucketSessions = "sessions" // session.<hash>: a login of the console; code.<user>: a one-time code for one
	BucketTokens   = "tokens"   // token of the REST API; used.<token>: the time of its last use
)

// The streams that keep messages under their own subjects.
const (
	StreamJobEvents     = "job-events"     // the steps of jobs and the reports of schedules, for a week
	StreamFacts         = "facts"          // the newest facts of each peel
	StreamApplied       = "applied"        // the newest report of each peel on its settings
	StreamStates        = "states"         // the newest report of each peel on a run of all its states
	StreamScheduleState = "schedule-state" // the newest report of each peel on its schedule
	StreamCoverage      = "coverage"       // what happened to the fires of schedules in each hour, for 35 days
	StreamAudit         = "audit"          // entries of the audit log
)

// KV returns the name of the stream that holds a bucket.
func KV(bucket string) string { return "KV_" + bucket }

// KVSubject returns the subject under which a key of a bucket, or a pattern of keys, lies in its stream.
func KVSubject(bucket, key string) string { return "$KV." + bucket + "." + key }
