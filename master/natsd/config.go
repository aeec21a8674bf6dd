package natsd

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// rollout returns the configuration of the bucket that also says what the bus keeps.
func rollout() jetstream.StreamConfig { return keyValue(wire.BucketRollout, 10, 0) }

func configs() []jetstream.StreamConfig {
	settings := keyValue(wire.BucketSettings, 1, 0)
	settings.AllowDirect = true
	settings.RePublish = &jetstream.RePublish{
		Source:      wire.SettingsKey("*"),
		Destination: wire.Settings("{{wildcard(1)}}"),
	}
	// without a limit in bytes: masters count the bytes before they write, see package content
	files := keyValue(wire.BucketFiles, 1, 0)
	files.AllowDirect = true // what a key names never changes
	jobs := keyValue(wire.BucketJobs, 10, jobRetention)
	bound(&jobs, 1<<30)
	events := jobEvents()
	bound(&events, 2<<30)
	return []jetstream.StreamConfig{
		settings,
		files,
		keyValue(wire.BucketActive, 10, 0),
		jobs,
		jobReturns(),
		keyValue(wire.BucketMasters, 1, liveness),
		keyValue(wire.BucketLeases, 1, liveness),
		rollout(),
		keyValue(wire.BucketRevisions, 1, 0),
		keyValue(wire.BucketUsers, 1, 0),
		keyValue(wire.BucketRoles, 1, 0),
		keyValue(wire.BucketEnroll, 1, 0),
		keyValue(wire.BucketIdentities, 1, 0),
		keyValue(wire.BucketTokens, 1, 0),
		keyValue(wire.BucketSessions, 1, sessionRetention),
		keyValue(wire.BucketSchedules, 1, 0),
		keyValue(wire.BucketAlerts, 1, 0),
		keyValue(wire.BucketHeld, 1, jobRetention),
		events,
		lastPerSubject(wire.StreamFacts, wire.AllFacts),
		lastPerSubject(wire.StreamApplied, wire.AllApplied),
		lastPerSubject(wire.StreamStates, wire.AllStateRuns),
		lastPerSubject(wire.StreamScheduleState, wire.AllScheduleStates),
		coverageHours(),
	}
}

// keyValue returns the configuration of a KV bucket as the client library would make it, except that reads go to the
// leader of the stream: on a cluster a direct get may be served by a copy that lags, and masters decide by these values
// who owns a job. Values may have a lifetime of their own. In a bucket in which all values expire, the server sends
// watchers a marker when a key expires.
func keyValue(name string, history int64, ttl time.Duration) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:              "KV_" + name,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: history,
		MaxAge:            ttl,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		DenyDelete:        true,
		Duplicates:        duplicates,
		AllowMsgTTL:       true,
	}
	if ttl == liveness {
		c.Duplicates = liveness
		c.SubjectDeleteMarkerTTL = liveness
	}
	return c
}

// maxPerSubject is the number of copies of a peel's report on one scheduled run that are kept: a peel sends a report
// again if it was not acknowledged.
const maxPerSubject = 16

// maxMessages bounds the number of messages in a stream of jobs: each takes about 350 bytes of memory.
const maxMessages = 4_000_000

// bound limits a stream on disk and in memory. A full stream removes its oldest messages; otherwise it would refuse new
// ones, and so every new job.
func bound(c *jetstream.StreamConfig, bytes int64) {
	c.MaxBytes, c.MaxMsgs, c.Discard = bytes, maxMessages, jetstream.DiscardOld
}

// maxReturnMessage bounds a message of the bucket job-returns: a return with its headers.
const maxReturnMessage = wire.MaxReturn + 4<<10

// jobReturns captures the first return of each peel for a job, from the peel itself, and re-publishes it once it is
// stored. It refuses later ones. A return that could remove others, or give itself a lifetime, would break that:
// rollups and TTLs are not allowed, so nothing is ever put into or deleted from this bucket.
//
// A peel may put any token in place of a JID. The server keeps no index of subjects with the character DEL: it would
// neither refuse a second such message, nor count or purge those of a peel. So a DEL is replaced: the token becomes
// several, which are the subject of no job.
func jobReturns() jetstream.StreamConfig {
	c := keyValue(wire.BucketJobReturns, 1, jobRetention)
	published, stored := wire.ReturnOf("*", "*"), "$KV."+wire.BucketJobReturns+".{{split(1,\x7f)}}.{{wildcard(2)}}"
	c.Subjects = append(c.Subjects, published)
	c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: published, Destination: stored}
	c.RePublish = &jetstream.RePublish{
		Source:      "$KV." + wire.BucketJobReturns + ".*.*",
		Destination: wire.StoredOf("{{wildcard(1)}}", "{{wildcard(2)}}"),
	}
	c.AllowDirect, c.AllowRollup, c.AllowMsgTTL = true, false, false
	c.DiscardNewPerSubject = true
	c.MaxMsgSize = maxReturnMessage
	c.MaxBytes, c.MaxMsgs = 4<<30, maxMessages
	return c
}

// jobEvents returns the configuration of the stream of the steps of jobs, and the queue of scheduled results.
func jobEvents() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:       wire.StreamJobEvents,
		Subjects:   []string{wire.DispatchOf("*"), wire.StatusOf("*"), wire.CancelOf("*"), wire.ScheduledOf("*", "*")},
		MaxAge:     jobRetention,
		Storage:    jetstream.FileStorage,
		Duplicates: duplicates,
		// A repeated report removes only earlier copies of itself.
		MaxMsgsPerSubject: maxPerSubject,
		AllowDirect:       true,
	}
}

// lastPerSubject returns the configuration of a stream that keeps the newest message of each peel without an age.
func lastPerSubject(name, subject string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Subjects:          []string{subject},
		MaxMsgsPerSubject: 1,
		Storage:           jetstream.FileStorage,
		Duplicates:        duplicates,
		AllowDirect:       true,
	}
}

// CoverageSubject begins the subject of an hour in the stream coverage; its number since the Unix epoch follows.
const CoverageSubject = "zester.coverage."

const (
	coverageRetention = 35 * 24 * time.Hour
	coverageHoursKept = int64(coverageRetention/time.Hour) + 1
)

// coverageHours returns the configuration of the stream with what happened in each hour. Masters replace an hour until
// all is known. It is bounded by its hours, each in one message: 840 MiB at most, and 14 MiB for 10,000 peels with 10
// entries. A limit in bytes would reserve that much of a small disk.
func coverageHours() jetstream.StreamConfig {
	c := lastPerSubject(wire.StreamCoverage, CoverageSubject+"*")
	c.MaxAge = coverageRetention
	c.MaxMsgs = coverageHoursKept
	c.MaxMsgSize = wire.MaxMessage
	c.Discard = jetstream.DiscardOld
	return c
}

// auditBytes bounds the audit log on disk: some four million entries.
const auditBytes = 1 << 30

// auditLog returns the configuration of a stream from which nobody can remove an entry. The server refuses to change
// that.
func auditLog(retention time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:       wire.StreamAudit,
		Subjects:   []string{"zester.audit.>"},
		MaxAge:     retention,
		MaxBytes:   auditBytes,
		Storage:    jetstream.FileStorage,
		Discard:    jetstream.DiscardOld,
		Duplicates: duplicates,
		DenyDelete: true,
		DenyPurge:  true,
	}
}
