package wire

import (
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Subjects with several senders, and patterns to subscribe to. The other subjects are functions of their sender.
const (
	// MastersQueue is the queue group in which each request of a person reaches one master.
	MastersQueue = "zester.masters"

	AllFacts          = "zester.fact.*"
	AllHeartbeats     = "zester.heartbeat.*"
	AllApplied        = "zester.settings.applied.*"
	AllStateRuns      = "zester.state.*"
	AllScheduleStates = "zester.schedule.state.*"
	AllScheduled      = "zester.job.*.schedule.*"
	AllDispatches     = "zester.dispatch.*"
	AllResolves       = "zester.target.resolve.*"
	AllCancels        = "zester.job.*.cancel"
	// BranchMoved tells the master that holds the lease that the config repo may have changed.
	BranchMoved = "zester.sync.moved"
)

// The peel of the following subjects is its ID in wire form, "{{name()}}" in a permission template, or "*" to
// subscribe.

// Cmd returns the subject on which a peel receives requests of masters.
func Cmd(peel string) string { return "zester.cmd." + peel }

// Fact returns the subject on which a peel publishes its facts.
func Fact(peel string) string { return "zester.fact." + peel }

// Heartbeat returns the subject on which a peel publishes heartbeats.
func Heartbeat(peel string) string { return "zester.heartbeat." + peel }

// Settings returns the subject on which the stream of the settings bucket publishes each document that it has stored
// for a peel.
func Settings(peel string) string { return "zester.settings." + peel }

// SettingsApplied returns the subject on which a peel reports which settings it runs.
func SettingsApplied(peel string) string { return "zester.settings.applied." + peel }

// StateRunOf returns the subject on which a peel reports its newest run of all its states.
func StateRunOf(peel string) string { return "zester.state." + peel }

// ScheduleStateOf returns the subject on which a peel reports its schedule.
func ScheduleStateOf(peel string) string { return "zester.schedule.state." + peel }

// SettingsKey returns the subject under which the settings bucket stores a peel's document.
func SettingsKey(peel string) string { return KVSubject(BucketSettings, peel) }

// SettingsGet returns the subject on which a request reads the newest document of a peel from the stream.
func SettingsGet(peel string) string { return "$JS.API.DIRECT.GET.KV_settings." + SettingsKey(peel) }

// ContentGet returns the subject on which a request reads a part of a sealed content from the stream, by its key
// <blob>.<n>. "*.*" stands for every key in a permission template. In a request the server takes it as a pattern, and
// replies with the newest part of any content.
func ContentGet(key string) string { return "$JS.API.DIRECT.GET.KV_files.$KV.files." + key }

// Inbox returns the prefix of the subjects on which a peel receives replies.
func Inbox(peel string) string { return "_INBOX." + peel }

// UserInbox returns the prefix of the subjects on which a person receives replies.
func UserInbox(user string) string { return "_INBOX_USER." + user }

// AckOf returns the subject on which a peel acknowledges the request of a job. Here and below jid and peel may be "*".
func AckOf(jid JID, peel string) string { return jobSubject(jid, "ack."+peel) }

// ReturnOf returns the subject on which a peel publishes its result for a dispatched job.
func ReturnOf(jid JID, peel string) string { return jobSubject(jid, "return."+peel) }

// ScheduledOf returns the subject on which a peel reports a run of its own schedule.
func ScheduledOf(jid JID, peel string) string { return jobSubject(jid, "schedule."+peel) }

// StoredOf returns the subject on which the stream of the bucket job-returns publishes the first return of a peel once
// it is stored. Masters and clients that watch jobs may subscribe to it, peels may not.
func StoredOf(jid JID, peel string) string { return "zester.stored." + string(jid) + "." + peel }

// SaidBy returns the pattern of all subjects of jobs on which a peel publishes.
func SaidBy(peel string) string { return "zester.job.*.*." + peel }

// DispatchOf returns the subject on which a master records that a job was dispatched.
func DispatchOf(jid JID) string { return jobSubject(jid, "dispatch") }

// StatusOf returns the subject on which a master publishes a job's status when it ends.
func StatusOf(jid JID) string { return jobSubject(jid, "status") }

// CancelOf returns the subject on which a master cancels a job. All peels receive it.
func CancelOf(jid JID) string { return jobSubject(jid, "cancel") }

// AllOf returns the pattern of all subjects of a job.
func AllOf(jid JID) string { return jobSubject(jid, ">") }

func jobSubject(jid JID, rest string) string { return "zester.job." + string(jid) + "." + rest }

// Dispatch returns the subject on which a person requests a job.
func Dispatch(user string) string { return "zester.dispatch." + user }

// Resolve returns the subject on which a person requests the peels that a target expression selects.
func Resolve(user string) string { return "zester.target.resolve." + user }

// API returns the subject on which a person sends a master another request, of a noun and a verb such as "job" and
// "list".
func API(noun, verb, user string) string { return "zester.api." + noun + "." + verb + "." + user }

// Sender returns the last token of a subject, which names its sender.
func Sender(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// JobSubject returns the job and the sender of a subject zester.job.<jid>.…. It fails for any other subject; the error
// names it.
func JobSubject(subject string) (jid JID, sender string, err error) {
	rest, isJob := strings.CutPrefix(subject, "zester.job.")
	token, tail, more := strings.Cut(rest, ".")
	if !isJob || !more {
		return "", "", fmt.Errorf("cannot read %s: not a subject of a job", subject)
	}
	jid, err = ParseJID(token)
	if err != nil {
		return "", "", fmt.Errorf("cannot read %s: %w", subject, err)
	}
	return jid, Sender(tail), nil
}

// IsScheduled reports whether a subject is a [ScheduledOf] a job and a peel.
func IsScheduled(subject string) bool {
	jid, peel, err := JobSubject(subject)
	return err == nil && subject == ScheduledOf(jid, peel)
}

// StoredSubject returns the job of a subject of [StoredOf]. The JID is not checked.
func StoredSubject(subject string) (jid JID, ok bool) {
	rest, ok := strings.CutPrefix(subject, "zester.stored.")
	token, _, more := strings.Cut(rest, ".")
	return JID(token), ok && more
}

// CheckSender returns [ErrForged] unless peel is the sender of the subject.
func CheckSender(subject string, peel target.PeelID) error {
	if peel.Wire() != Sender(subject) {
		return fmt.Errorf("cannot accept %s: %w: it names %q", subject, ErrForged, peel)
	}
	return nil
}
