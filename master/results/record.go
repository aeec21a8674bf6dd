package results

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// reason says in a word why a report is refused.
type reason string

const (
	undecodable reason = "undecodable"
	foreign     reason = "foreign"
	future      reason = "future"
)

// refusalError is of a report that no second try would make good.
type refusalError struct {
	reason reason
	err    error
}

func (e *refusalError) Error() string { return fmt.Sprintf("%s: %v", e.reason, e.err) }

func (e *refusalError) Unwrap() error { return e.err }

// maxText bounds the words of a report that become part of its record, in bytes.
const maxText = 512

// decode reads a report; its errors are refusals. Now is the master's clock.
func decode(msg *nats.Msg, now time.Time) (wire.ScheduledResult, error) {
	if len(msg.Data) > job.MaxReturn {
		return wire.ScheduledResult{}, &refusalError{undecodable, fmt.Errorf("%d bytes, the limit is %d", len(msg.Data), job.MaxReturn)}
	}
	r, err := wire.DecodeScheduled(msg)
	if err != nil {
		return r, &refusalError{undecodable, err}
	}
	for what, text := range map[string]string{
		"entry": r.Entry, "function": r.Function, "trigger": string(r.Trigger), "commit": r.Commit, "origin": r.Origin, "author": r.Author,
	} {
		if len(text) > maxText {
			return r, &refusalError{undecodable, fmt.Errorf("its %s takes %d bytes, the limit is %d", what, len(text), maxText)}
		}
	}
	if r.Entry == "" || r.Function == "" {
		return r, &refusalError{undecodable, fmt.Errorf("it names no entry or no function")}
	}
	for _, at := range []time.Time{r.JID.Time(), r.Nominal, r.Fired, r.Started, r.Finished} {
		if at.Sub(now) > job.MaxAhead {
			return r, &refusalError{future, fmt.Errorf("it tells of %s", at.UTC().Format(time.RFC3339))}
		}
	}
	return r, nil
}

// localUser is the user of what an entry of the peel's own configuration did.
const localUser = "peel.yaml"

// record is the job that a report stands for. Who wrote the entry is its user.
func record(r *wire.ScheduledResult, now time.Time) (*job.Job, error) {
	j := &job.Job{
		Spec: job.Spec{
			JID: r.JID, Function: r.Function, Args: r.Args, Targets: []target.PeelID{r.Peel}, TargetExpr: string(r.Peel),
			Metadata: map[string]string{job.MetaSource: job.SourceSchedule, job.MetaSchedule: r.Entry},
		},
		TargetCount: 1, Created: r.Started, User: r.Author, ReturnCount: 1, V: wire.Version,
	}
	if j.Created.IsZero() {
		j.Created = now
	}
	if j.User == "" {
		j.User = localUser
	}
	end := job.End{Targets: 1, Returned: 1}
	if r.Success {
		end.Succeeded = 1
	}
	j.Finish(end, now)
	for key, text := range map[string]string{
		job.MetaTrigger: string(r.Trigger), job.MetaCommit: r.Commit, job.MetaFile: r.Origin, job.MetaAuthor: r.Author,
		job.MetaNominal: stamp(r.Nominal), job.MetaFired: stamp(r.Fired), job.MetaStarted: stamp(r.Started), job.MetaFinished: stamp(r.Finished),
	} {
		if text != "" {
			j.Metadata[key] = text
		}
	}
	data, err := canon.Marshal(j)
	if err == nil && len(data) > job.MaxReturn {
		err = fmt.Errorf("its record takes %d bytes, the limit is %d", len(data), job.MaxReturn)
	}
	if err != nil {
		return nil, &refusalError{undecodable, err}
	}
	return j, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// returned is the return of a report, in the form in which peels return what was dispatched to them.
func returned(r *wire.ScheduledResult) ([]byte, error) {
	data, err := canon.Marshal(wire.Return{JID: r.JID, Peel: r.Peel, Result: r.Result, Finished: r.Finished, V: r.V})
	if err != nil {
		return nil, &refusalError{undecodable, err}
	}
	return data, nil
}
