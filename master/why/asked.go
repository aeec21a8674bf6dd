package why

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// askedAround is how far the nominal times that a peel is asked for may be from the time in question.
const askedAround = time.Hour

// An Asked is what a peel has told of its fires outside of its reports.
type Asked struct {
	Since time.Time    // it keeps all fires since
	Fires []ledger.Run // within an hour of the time in question
	Job   wire.JID     // by which it was asked
}

// isOpen reports whether the newest report is from before the end of a fire.
func (q *question) isOpen(nominal time.Time) bool {
	if nominal.IsZero() {
		return false
	}
	v := q.judge(nominal)

	return v.is == api.WhyWaiting || v.is == api.WhyRunning || v.reason == reportDue
}

// has reports whether the peel would have told a fire of a nominal time.
func (a *Asked) has(nominal time.Time) bool { return a != nil && !nominal.Before(a.Since) }

func (q *question) askedSource() string {
	if q.Asked == nil {
		return ""
	}
	return fmt.Sprintf("schedule.fires on %s, job %s", q.Peel, q.Asked.Job)
}

// ask asks the peel for the fires about the time in question if its report does not go back so far, but the peel
// itself does, and if the report is from before the end of the fire: runs that succeed are not reported at once.
func (c *Collector) ask(ctx context.Context, f *Found) error {
	q := f.prepare()
	fire, _, err := q.fire()
	at := fire.instant()
	switch {
	case c.Ask == nil, err != nil, at.IsZero(), f.Now.Sub(at) > ledger.KeptPast:
		return nil
	case q.listed == nil, q.runOf(fire.nominal).job != nil, !q.isOlder(at) && !q.isOpen(fire.nominal):
		return nil
	case !f.Presence.Online && !f.Presence.Unknown:
		return errors.New(q.presence())
	}

	spec := job.Spec{
		JID: wire.NewJID(), Function: "schedule.fires", Timeout: readWait,
		Targets: []target.PeelID{f.Peel}, TargetExpr: "L@" + string(f.Peel),
		Args: map[string]any{
			"entry": f.Entry,
			"from":  at.Add(-askedAround).UTC().Format(time.RFC3339),
			"to":    at.Add(askedAround).UTC().Format(time.RFC3339),
		},
	}
	r, err := c.Ask(ctx, spec)
	if err != nil {
		return err
	}
	f.Asked, err = readAsked(spec.JID, r)

	return err
}

// readAsked reads the return of a peel.
func readAsked(jid wire.JID, r *wire.Return) (*Asked, error) {
	if !r.Success {
		return nil, fmt.Errorf("job %s: %s", jid, oneLineFact(r.Error))
	}
	data, err := canon.Marshal(r.Data)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", jid, err)
	}
	var told ledger.Told
	if err := canon.Unmarshal(data, &told); err != nil {
		return nil, fmt.Errorf("job %s: %w", jid, err)
	}
	fires, err := told.Runs()
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", jid, err)
	}
	return &Asked{told.Since, fires, jid}, nil
}
