package wire

import (
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Subjects that more than one sender uses, and patterns to listen on. All others are functions of their sender.
const (
	// MastersQueue is the queue group in which each request of a person reaches one master.
	MastersQueue = "zester.masters"

	AllFacts      = "zester.fact.*"
	AllHeartbeats = "zester.heartbeat.*"
	AllApplied    = "zester.settings.applied.*"
	AllScheduled  = "zester.job.*.schedule.*"
	AllDispatches = "zester.dispatch.*"
	AllResolves   = "zester.target.resolve.*"
	AllCancels    = "zester.job.*.cancel"
	// BranchMoved is where a master passes on that the repo may have changed, for whichever holds the lease.
	BranchMoved = "zester.sync.moved"
)

// Each of these is given the wire form of a peel's ID, or "{{name()}}" for a permission template, or "*" to listen.

// Cmd is where a peel hears requests.
func Cmd(peel string) string { return "zester.cmd." + peel }

// Fact is where a peel publishes its facts.
func Fact(peel string) string { return "zester.fact." + peel }

// Heartbeat is where a peel shows that it lives.
func Heartbeat(peel string) string { return "zester.heartbeat." + peel }

// Settings is where the stream of the settings bucket re-publishes the documents that it stored for a peel.
func Settings(peel string) string { return "zester.settings." + peel }

// SettingsApplied is where a peel reports which settings it runs.
func SettingsApplied(peel string) string { return "zester.settings.applied." + peel }

// SettingsKey is the subject under which the settings bucket stores a peel's document.
func SettingsKey(peel string) string { return "$KV.settings." + peel }

// SettingsGet is the request that reads the newest document of a peel from the stream itself.
func SettingsGet(peel string) string { return "$JS.API.DIRECT.GET.KV_settings." + SettingsKey(peel) }

// Inbox is the prefix of the subjects on which a peel gets its answers.
func Inbox(peel string) string { return "_INBOX." + peel }

// UserInbox is the prefix of the subjects on which a person gets answers.
func UserInbox(user string) string { return "_INBOX_USER." + user }

// AckOf, ReturnOf and ScheduledOf are where a peel speaks about a job; jid may be "*".
func AckOf(jid JID, peel string) string { return jobSubject(jid, "ack."+peel) }

// ReturnOf is where a peel publishes its result for a dispatched job.
func ReturnOf(jid JID, peel string) string { return jobSubject(jid, "return."+peel) }

// ScheduledOf is where a peel reports a run of its own schedule.
func ScheduledOf(jid JID, peel string) string { return jobSubject(jid, "schedule."+peel) }

// StoredOf is where the stream of the bucket job-returns re-publishes the first return of a peel, once it is stored. Masters
// and followers of jobs hear it, peels do not.
func StoredOf(jid JID, peel string) string { return "zester.stored." + string(jid) + "." + peel }

// SaidBy is all that a peel says about jobs.
func SaidBy(peel string) string { return "zester.job.*.*." + peel }

// DispatchOf and StatusOf are where masters record the life of a job.
func DispatchOf(jid JID) string { return jobSubject(jid, "dispatch") }

// StatusOf is where a master publishes a job's status when it ends.
func StatusOf(jid JID) string { return jobSubject(jid, "status") }

// CancelOf is where masters tell peels to stop a job.
func CancelOf(jid JID) string { return jobSubject(jid, "cancel") }

// AllOf is all that is said about a job.
func AllOf(jid JID) string { return jobSubject(jid, ">") }

func jobSubject(jid JID, rest string) string { return "zester.job." + string(jid) + "." + rest }

// Dispatch is where a person asks for a job.
func Dispatch(user string) string { return "zester.dispatch." + user }

// Resolve is where a person asks which peels a target expression selects.
func Resolve(user string) string { return "zester.target.resolve." + user }

// API is where a person asks a master about a noun, such as "job" and "list".
func API(noun, verb, user string) string { return "zester.api." + noun + "." + verb + "." + user }

// Sender returns the last token of a subject: who published it.
func Sender(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// JobSubject takes a subject zester.job.<jid>.… apart. The error names the subject and is of a forged or foreign message.
func JobSubject(subject string) (jid JID, sender string, err error) {
	rest, ours := strings.CutPrefix(subject, "zester.job.")
	token, said, more := strings.Cut(rest, ".")
	if !ours || !more {
		return "", "", fmt.Errorf("cannot read %s: not a subject of a job", subject)
	}
	jid, err = ParseJID(token)
	if err != nil {
		return "", "", fmt.Errorf("cannot read %s: %w", subject, err)
	}
	return jid, Sender(said), nil
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
		return fmt.Errorf("cannot accept %s: %w: it speaks for %q", subject, ErrForged, peel)
	}
	return nil
}
