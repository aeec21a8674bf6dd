package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// NewJob is the request to run a job.
type NewJob struct {
	JID        wire.JID          `json:"jid,omitempty" minLength:"27" maxLength:"27" doc:"ID of the job, made by the caller (a KSUID). The same request under the same ID returns the job of the first, whose target is not resolved again; a different request is refused with 409."`
	Target     string            `json:"target" minLength:"1" maxLength:"65536" example:"web-* and G@os:debian" doc:"Expression that selects the peels."`
	Function   string            `json:"function" minLength:"3" maxLength:"300" example:"cmd.run"`
	Args       Arguments         `json:"args,omitempty" doc:"Arguments by name."`
	StateID    string            `json:"state_id,omitempty" maxLength:"4096" doc:"The job's ID argument."`
	Timeout    string            `json:"timeout,omitempty" maxLength:"32" example:"90s" doc:"How long returns are waited for: 90s, 5m, 1h30m. Default: 60s, or 10m for functions that run states."`
	WhenOnline string            `json:"when_online,omitempty" maxLength:"32" example:"1h" doc:"For how long peels that are away get the request when they come back."`
	Batch      *job.Batch        `json:"batch,omitempty" doc:"Absent: all targets at once."`
	Expect     int               `json:"expect,omitempty" minimum:"0" doc:"Nothing is run unless the target selects exactly so many peels; 0 or absent: any number."`
	Metadata   map[string]string `json:"metadata,omitempty" doc:"Kept in the record."`
}

// Arguments are the arguments of a function. Numbers without a fraction or an exponent are integers, as on the command
// line.
type Arguments map[string]any

// UnmarshalJSON refuses arguments that nest deeper than a message of the bus may.
func (a *Arguments) UnmarshalJSON(data []byte) error {
	m, err := decodeObject(data, canon.MaxDepth-4) // the message around them takes four levels
	*a = m
	return err
}

type dispatchInput struct{ Body NewJob }

type dispatchOutput struct {
	Location string `header:"Location" doc:"Where the job is."`
	Body     job.Job
}

// dispatchJob replies when the job is published, not when it has ended.
func (r *routes) dispatchJob(ctx context.Context, in *dispatchInput) (*dispatchOutput, error) {
	t := tokenOf(ctx)
	spec, err := in.Body.spec()
	if err != nil {
		err = huma.Error400BadRequest(sentence(err))
		return nil, r.refusedJob(ctx, &spec, err)
	}
	if in.Body.JID != "" {
		if j, err := r.repeated(ctx, &spec); err != nil {
			return nil, r.refusedJob(ctx, &spec, err)
		} else if j != nil {
			return accepted(j), nil
		}
	}
	if len(spec.Targets) == 0 {
		if err := r.selectTargets(ctx, &in.Body, &spec); err != nil {
			return nil, r.refusedJob(ctx, &spec, err)
		}
	}
	if err := r.allow(ctx, t, &spec); err != nil {
		return nil, err
	}
	j, err := r.Dispatcher.Submit(ctx, spec, t.User())
	r.record(ctx, dispatch.EntryOf(&spec, err))
	if err != nil {
		return nil, dispatchError(err)
	}
	r.s.log.Info("job accepted over REST", "jid", j.JID, "user", j.User, "function", j.Function,
		"targets", j.TargetCount, "request", requestOf(ctx))
	return accepted(j), nil
}

// refusedJob writes an entry about a request that ends with err before it is dispatched, and returns err.
func (r *routes) refusedJob(ctx context.Context, spec *job.Spec, err error) error {
	problem, ok := errors.AsType[huma.StatusError](err)
	r.record(ctx, audit.Dispatch(spec, err, ok && problem.GetStatus() < 500))
	return err
}

func accepted(j *job.Job) *dispatchOutput {
	return &dispatchOutput{Location: base + "/jobs/" + string(j.JID), Body: j.Summary()}
}

// selectTargets resolves the target of a new job.
func (r *routes) selectTargets(ctx context.Context, n *NewJob, spec *job.Spec) (err error) {
	if spec.Targets, err = r.Questions.SelectFor(ctx, callerOf(ctx), n.Target); err != nil {
		return answerError(err)
	}
	switch found := len(spec.Targets); {
	case found == 0:
		return huma.Error400BadRequest("the target matches no peel")
	case n.Expect != 0 && found != n.Expect:
		return huma.Error409Conflict(fmt.Sprintf("the target selects %d peels, %d were expected", found, n.Expect))
	}
	return nil
}

// repeated returns the job of an earlier request with the same ID. It does not resolve the target again, because the
// fleet may have changed. The job is nil if it does not exist or was never dispatched; spec then gets the targets of
// the earlier request. A different request under the ID, or one of another user, is a conflict.
func (r *routes) repeated(ctx context.Context, spec *job.Spec) (*job.Job, error) {
	j, err := r.Store.Get(ctx, spec.JID)
	if errors.Is(err, job.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	same := *spec
	same.Targets = j.Targets
	if err := same.Normalize(time.Now()); err != nil {
		return nil, huma.Error400BadRequest(sentence(err))
	}
	if j.User != tokenOf(ctx).User() || !j.SameIntent(&same) {
		return nil, dispatchError(fmt.Errorf("cannot run job %s: %w", spec.JID, dispatch.ErrTaken))
	}
	if j.Status != job.Claimed {
		return j, nil
	}
	spec.Targets = j.Targets
	return nil, nil
}

// spec returns the job of the request, without its targets.
func (n *NewJob) spec() (job.Spec, error) {
	spec := job.Spec{
		JID:        n.JID,
		Function:   n.Function,
		Args:       n.Args,
		StateID:    n.StateID,
		TargetExpr: n.Target,
		Batch:      n.Batch,
		Metadata:   job.OwnMetadata(n.Metadata),
	}
	if spec.JID == "" {
		spec.JID = wire.NewJID()
	}
	for _, d := range []struct {
		text string
		into *time.Duration
	}{{n.Timeout, &spec.Timeout}, {n.WhenOnline, &spec.WhenOnline}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = strictyaml.ParseDuration(d.text); err != nil {
			return spec, err
		}
		if *d.into <= 0 {
			return spec, fmt.Errorf("cannot wait for %q: leave the field out, or give it more than 0", d.text)
		}
	}
	return spec, nil
}

// allow checks a dispatch against the limits of the token and the rules about those who made it.
func (r *routes) allow(ctx context.Context, t *credential.Token, spec *job.Spec) error {
	switch err := r.Allow(ctx, callerOf(ctx), spec); {
	case err == nil:
		return nil
	case !errors.Is(err, grants.ErrNotAllowed):
		return unavailable(err)
	default:
		r.s.log.Warn("job refused", "user", t.User(), "function", spec.Function, "targets", len(spec.Targets),
			"request", requestOf(ctx), "err", err)
		r.record(ctx, audit.Dispatch(spec, err, dispatch.IsRefusal(err)))
		return huma.Error403Forbidden(sentence(err))
	}
}

func dispatchError(err error) error {
	if waits, ok := errors.AsType[*dispatch.WaitsError](err); ok {
		return waiting(api.HoldID(waits.Held), err)
	}
	switch {
	case errors.Is(err, dispatch.ErrInvalid):
		return huma.Error400BadRequest(sentence(err))
	case errors.Is(err, grants.ErrNotAllowed):
		return huma.Error403Forbidden(sentence(err))
	case errors.Is(err, dispatch.ErrTaken):
		return huma.Error409Conflict(sentence(err))
	}
	return unavailable(err)
}

type listInput struct {
	Cursor   wire.JID      `query:"cursor" minLength:"27" maxLength:"27" doc:"The next of the page before."`
	Limit    int           `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Status   job.Status    `query:"status" enum:"pending,claimed,running,complete,partial,timeout,failed,canceled"`
	Function string        `query:"function" maxLength:"300"`
	User     string        `query:"user" maxLength:"100"`
	Target   target.PeelID `query:"target" maxLength:"128" doc:"A peel that the job ran on."`
	Schedule string        `query:"schedule" maxLength:"256" doc:"Name of the schedule entry that made it."`
	Commit   string        `query:"commit" maxLength:"64" doc:"The commit that last changed the entry, or the beginning of its hash."`
	Asked    bool          `query:"asked" doc:"Leave out runs of schedules."`
	NoReads  bool          `query:"no_reads" doc:"Leave out requested jobs whose function only reads, such as schedule.list."`
}

func (r *routes) listJobs(ctx context.Context, in *listInput) (*output[job.JobsPage], error) {
	return answered(r.Questions.JobList(ctx, callerOf(ctx), job.Query{
		Function: in.Function,
		User:     in.User,
		Status:   in.Status,
		Target:   in.Target,
		Schedule: in.Schedule,
		Commit:   in.Commit,
		Asked:    in.Asked,
		NoReads:  in.NoReads,
		Cursor:   in.Cursor,
		Limit:    in.Limit,
	}))
}

type jobInput struct {
	JID wire.JID `path:"jid" minLength:"27" maxLength:"27"`
}

func (r *routes) showJob(ctx context.Context, in *jobInput) (*output[job.Job], error) {
	j, err := r.visible(ctx, in.JID)
	if err != nil {
		return nil, err
	}
	return &output[job.Job]{*j}, nil
}

// visible reads a job that the token may see: with the scope read any job, else its own.
func (r *routes) visible(ctx context.Context, jid wire.JID) (*job.Job, error) {
	j, err := r.Questions.JobShow(ctx, callerOf(ctx), api.JobRequest{JID: jid})
	if err != nil {
		return nil, answerError(err)
	}
	if t := tokenOf(ctx); !t.Has(credential.ScopeRead) && j.User != t.User() {
		return nil, huma.Error403Forbidden("the job is of another user, and the token lacks the scope read")
	}
	return j, nil
}

func (r *routes) jobReturns(ctx context.Context, in *api.JobRequest) (*output[job.RowsPage], error) {
	if _, err := r.visible(ctx, in.JID); err != nil {
		return nil, err
	}
	return answered(r.Questions.JobReturns(ctx, callerOf(ctx), *in))
}

func (r *routes) jobGroups(ctx context.Context, in *api.ReturnGroupsRequest) (*output[api.ReturnGroups], error) {
	if _, err := r.visible(ctx, in.JID); err != nil {
		return nil, err
	}
	return answered(r.Questions.JobGroups(ctx, callerOf(ctx), *in))
}

// cancelJob replies when the request to cancel is stored; the job ends soon after.
func (r *routes) cancelJob(ctx context.Context, in *jobInput) (*output[job.Job], error) {
	t := tokenOf(ctx)
	if !t.Has(credential.ScopeAdmin) {
		j, err := r.Questions.JobShow(ctx, callerOf(ctx), api.JobRequest{JID: in.JID})
		if err != nil {
			return nil, answerError(err)
		}
		if j.User != t.User() {
			err := huma.Error403Forbidden("the job is of another user, and the token lacks the scope admin")
			r.record(ctx, audit.Entry{Action: "job.cancel", JID: in.JID}.Ended(err, true))
			return nil, err
		}
	}
	j, err := r.Dispatcher.Cancel(ctx, in.JID, t.User(), "")
	r.record(ctx, audit.Entry{Action: "job.cancel", JID: in.JID}.Ended(err,
		apiserver.AnswerCode(err) != api.CodeUnavailable))
	switch {
	case errors.Is(err, dispatch.ErrEnded), errors.Is(err, dispatch.ErrCanceled):
		return nil, huma.Error409Conflict(sentence(err))
	case err != nil:
		return nil, answerError(err)
	}
	r.s.log.Info("cancel accepted over REST", "jid", j.JID, "user", t.User(), "function", j.Function,
		"targets", j.TargetCount, "request", requestOf(ctx))
	return &output[job.Job]{j.Summary()}, nil
}

// alive replies while the process runs.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}
