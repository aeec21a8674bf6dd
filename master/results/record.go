package results

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// reason says in a word why a report is refused.
type reason string

const (
	undecodable reason = "undecodable"
	foreign     reason = "foreign"
	future      reason = "future"
	surplus     reason = "surplus"
)

// refusalError is the error of a report that would fail at every further try.
type refusalError struct {
	reason reason
	err    error
}

func (e *refusalError) Error() string { return fmt.Sprintf("%s: %v", e.reason, e.err) }

func (e *refusalError) Unwrap() error { return e.err }

// maxText bounds the words of a report that become part of its record, in bytes.
const maxText = 512

// Read makes the job of a report and its return. An error says that the report cannot be used. now is the master's
// clock. Commit, file and author are in the job only if key proves them.
func Read(m jetstream.Msg, now time.Time, key *settings.ProofKey) (job.Ended, error) {
	r, err := decode(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}, now)
	if err != nil {
		return job.Ended{}, err
	}
	data, err := canon.Marshal(r.Return())
	if err != nil {
		return job.Ended{}, &refusalError{undecodable, err}
	}
	return job.Ended{Job: record(&r, now, key), Return: data}, nil
}

// decode reads a report; its errors are refusals.
func decode(msg *nats.Msg, now time.Time) (wire.ScheduledResult, error) {
	if len(msg.Data) > job.MaxReturn {
		return wire.ScheduledResult{}, &refusalError{
			undecodable, fmt.Errorf("%d bytes, the limit is %d", len(msg.Data), job.MaxReturn),
		}
	}
	r, err := wire.DecodeScheduled(msg)
	if err != nil {
		return r, &refusalError{undecodable, err}
	}
	for _, word := range [...]struct{ name, text string }{
		{"entry", r.Entry},
		{"function", r.Function},
		{"trigger", string(r.Trigger)},
		{"commit", r.Commit},
		{"origin", r.Origin},
		{"author", r.Author},
		{"ran", r.Ran},
		{"proof", r.Proof},
	} {
		if len(word.text) > maxText {
			return r, &refusalError{
				undecodable, fmt.Errorf("its %s takes %d bytes, the limit is %d", word.name, len(word.text), maxText),
			}
		}
	}
	if r.Entry == "" || r.Function == "" {
		return r, &refusalError{undecodable, fmt.Errorf("it names no entry or no function")}
	}
	for _, at := range [...]time.Time{r.JID.Time(), r.Nominal, r.Fired, r.Started, r.Finished} {
		if at.Sub(now) > job.MaxAhead {
			return r, &refusalError{future, fmt.Errorf("it tells of %s", at.UTC().Format(time.RFC3339))}
		}
	}
	return r, nil
}

const (
	localUser    = "peel.yaml"  // the user of what an entry of the peel's own configuration did
	unprovenUser = "(unproven)" // the user where a report names an origin without a proof of it
)

// userOf returns the user of a report's job: the author of the entry. It clears the commit, file and author of the
// report unless its proof says that the document of its peel had them for what the peel ran.
func userOf(r *wire.ScheduledResult, key *settings.ProofKey) string {
	claim := settings.Claim{Commit: r.Commit, File: r.Origin, Author: r.Author, Ran: r.Ran}
	proven := key.Proves(r.Proof, r.Peel, r.Entry, claim) && claim.Runs(r.Function, r.Args)
	if !proven {
		r.Commit, r.Origin, r.Author = "", "", ""
	}
	switch {
	case !proven && claim != settings.Claim{}:
		return unprovenUser
	case r.Author == "":
		return localUser
	// an author in Git has an address; this name may be the user of a credential
	case !strings.Contains(r.Author, " <"):
		return r.Author + " <>"
	}
	return r.Author
}

// record returns the job of a report.
func record(r *wire.ScheduledResult, now time.Time, key *settings.ProofKey) *job.Job {
	user := userOf(r, key)
	metadata := make(map[string]string, 10)
	metadata[job.MetaSource], metadata[job.MetaSchedule] = job.SourceSchedule, r.Entry
	j := &job.Job{
		Spec: job.Spec{
			JID:        r.JID,
			Function:   r.Function,
			Args:       r.Args,
			Targets:    []target.PeelID{r.Peel},
			TargetExpr: string(r.Peel),
			Metadata:   metadata,
		},
		Target:      string(r.Peel),
		TargetCount: 1,
		Created:     r.Started,
		User:        user,
		Totals:      job.Totals{ReturnCount: 1},
		V:           wire.Version,
	}
	if j.Created.IsZero() {
		j.Created = now
	}
	end := job.End{Targets: 1, Returned: 1}
	if r.Success {
		end.Succeeded = 1
	}
	j.Finish(end, now)
	for _, pair := range [...]struct{ key, text string }{
		{job.MetaTrigger, string(r.Trigger)},
		{job.MetaCommit, r.Commit},
		{job.MetaFile, r.Origin},
		{job.MetaAuthor, r.Author},
		{job.MetaNominal, stamp(r.Nominal)},
		{job.MetaFired, stamp(r.Fired)},
		{job.MetaStarted, stamp(r.Started)},
		{job.MetaFinished, stamp(r.Finished)},
	} {
		if pair.text != "" {
			metadata[pair.key] = pair.text
		}
	}
	return j
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
