package rest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// newSchedules is a schedule entry to add. Exactly one of cron, every, at and schedule is its timing. Any other field
// of an entry is allowed too, as in a settings file.
type newSchedules struct {
	_        struct{}       `json:"-" additionalProperties:"true"`
	Name     string         `json:"name" maxLength:"200" required:"false" doc:"For people; by default the begin of the prompt, or the function."`
	Prompt   string         `json:"prompt,omitempty" doc:"For prompt.run. Either prompt or function is required."`
	Function string         `json:"function,omitempty" maxLength:"256" doc:"Function to run instead of a prompt."`
	Args     map[string]any `json:"args,omitempty" doc:"Arguments of the function."`
	Cron     string         `json:"cron,omitempty" maxLength:"1000"`
	Every    any            `json:"every,omitempty" doc:"Milliseconds, or a duration such as 5m."`
	At       any            `json:"at,omitempty" doc:"Milliseconds since the Unix epoch, or an instant of RFC 3339."`
	Schedule string         `json:"schedule,omitempty" maxLength:"1000" doc:"The timing in English, such as every monday at 9am."`
	Target   string         `json:"target,omitempty" maxLength:"4096" doc:"Target expression; by default schedules.target of the master."`
	Timezone string         `json:"timezone,omitempty" maxLength:"100"`
	Model    string         `json:"model,omitempty" maxLength:"200"`
	Opts     map[string]any `json:"opts,omitempty" doc:"Options of the prompt."`
	Delete   bool           `json:"delete_after_run,omitempty" doc:"Only with at."`
}

type (
	addInput struct {
		Key     string `header:"Idempotency-Key" maxLength:"200" doc:"The same request with the same key makes one commit, for 7 days."`
		Wait    string `query:"wait" maxLength:"20" doc:"Reply when the fleet has applied the commit, or after this time, at most 30s."`
		RawBody []byte
		Body    newSchedules
	}
	addOutput = output[Added]
)

// Added is the reply to a new schedule entry.
type Added struct {
	Status   string `json:"status" enum:"ok"`
	ID       int    `json:"id" doc:"0 if only the pull request of an earlier request without a key was opened."`
	NextRun  int64  `json:"next_run,omitempty"`
	Entry    string `json:"entry"`
	File     string `json:"file,omitempty"`
	Commit   string `json:"commit"`
	Branch   string `json:"branch" doc:"The branch that has the commit."`
	Proposed bool   `json:"proposed,omitempty" doc:"The branch is not the one that the fleet follows, so the entry waits for a merge."`
	URL      string `json:"url,omitempty" doc:"Page of the pull request."`
	Repeated bool   `json:"repeated,omitempty" doc:"The commit was made before, mostly by an earlier request with the same key."`
	Waits    string `json:"waits,omitempty" doc:"The revision that waits for approval, this commit with it, and the command that lets it out."`
}

func (o scheduleOptions) add(ctx context.Context, in *addInput) (*addOutput, error) {
	var wait time.Duration
	if in.Wait != "" {
		var err error
		if wait, err = strictyaml.ParseDuration(in.Wait); err != nil {
			return nil, huma.Error400BadRequest("wait: " + err.Error())
		}
	}
	fields, err := decodeObject(in.RawBody, canon.MaxDepth-4)
	if err != nil {
		return nil, huma.Error400BadRequest("the body is not a JSON object: " + err.Error())
	}
	maps.DeleteFunc(fields, func(key string, value any) bool { return value == nil || key == "$schema" })
	q, err := api.NewScheduleAdd(fields)
	if err != nil {
		return nil, huma.Error400BadRequest(err.Error())
	}
	promised(q.Fields)
	q.Key = in.Key
	out, err := api.ScheduleAdd.Ask(ctx, o, q)
	if err != nil {
		return nil, scheduleProblem(err)
	}
	if err := byHand(out); err != nil {
		return nil, err
	}
	if wait > 0 && !out.Proposed {
		if err := o.wait(ctx, out.Commit, wait); err != nil {
			return nil, err
		}
	}
	return &addOutput{Added{
		Status:   "ok",
		ID:       out.ID,
		NextRun:  millis(out.Next),
		Entry:    out.Entry,
		File:     out.File,
		Commit:   out.Commit,
		Branch:   out.Branch,
		Proposed: out.Proposed,
		URL:      out.URL,
		Repeated: out.Repeated,
		Waits:    o.waiting(ctx),
	}}, nil
}

// madeUpFor is how long after its time an entry with at still runs, unless the request says otherwise.
const madeUpFor = 24 * time.Hour

// promised sets what the API promises beside the fields of a request: every is a fixed interval, and a run that was
// missed while a peel was down is made up, once.
func promised(fields map[string]any) {
	if fields["interval"] != nil && fields["interval_from"] == nil {
		fields["interval_from"] = string(schedule.FromStart)
	}
	if fields["catch_up"] != nil || fields["catch_up_max"] != nil {
		return
	}
	fields["catch_up"], fields["catch_up_max"] = string(schedule.CatchUpRunOnce), int64(1)
	if fields["at"] != nil && fields["start_deadline"] == nil {
		fields["start_deadline"] = strictyaml.FormatDuration(madeUpFor)
	}
}

// byHand returns the problem with the patch if the master may not write to the repo.
func byHand(out *api.ScheduleChanged) error {
	if out.Patch == "" {
		return nil
	}
	return huma.Error409Conflict(
		"the master may not write to the config repo (write.mode in master.yaml): apply this patch with git apply\n" +
			out.Patch,
	)
}

// Done says what was done.
type Done struct {
	Status string   `json:"status" enum:"deleted,paused,active,dispatched"`
	Commit string   `json:"commit,omitempty"`
	URL    string   `json:"url,omitempty" doc:"Page of the pull request."`
	JID    wire.JID `json:"jid,omitempty" doc:"The job that does it on the peels."`
	Waits  string   `json:"waits,omitempty" doc:"The revision that waits for approval, this commit with it, and the command that lets it out."`
}

type (
	doneOutput = output[Done]
	pauseInput struct {
		ID     string `path:"id" maxLength:"128" doc:"Number or entry name."`
		Commit bool   `query:"commit" doc:"Write enabled: false into the config repo, instead of pausing on the peels."`
		Reason string `query:"reason" maxLength:"200"`
	}
)

func (o scheduleOptions) remove(ctx context.Context, in *idInput) (*doneOutput, error) {
	s, f, err := o.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if f.Running > 0 {
		return nil, huma.Error409Conflict(fmt.Sprintf("%s is running on %s", s.Entry, peels(f)))
	}
	return o.change(ctx, api.ScheduleRemove, "deleted", api.ScheduleChange{Ref: in.ID})
}

func peels(f *facts) string {
	if len(f.peels) == 1 {
		return string(f.peels[0])
	}
	return fmt.Sprintf("some of %d peels", len(f.peels))
}

// listed returns peels as in a target expression.
func listed(peels []target.PeelID) string {
	var b strings.Builder
	for i, id := range peels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(id))
	}
	return b.String()
}

// A changeEndpoint changes an entry that exists.
type changeEndpoint = api.Endpoint[api.ScheduleChange, api.ScheduleChanged]

// change makes a change of an entry in the repo.
func (o scheduleOptions) change(
	ctx context.Context, e changeEndpoint, done string, q api.ScheduleChange,
) (*doneOutput, error) {
	out, err := e.Ask(ctx, o, q)
	if err != nil {
		return nil, scheduleProblem(err)
	}
	if err := byHand(out); err != nil {
		return nil, err
	}
	return &doneOutput{Done{Status: done, Commit: out.Commit, URL: out.URL, Waits: o.waiting(ctx)}}, nil
}

func (o scheduleOptions) pause(ctx context.Context, in *pauseInput) (*doneOutput, error) {
	return o.hold(ctx, in, api.ScheduleDisable, "schedule.pause", "paused")
}

func (o scheduleOptions) unpause(ctx context.Context, in *pauseInput) (*doneOutput, error) {
	return o.hold(ctx, in, api.ScheduleEnable, "schedule.resume", "active")
}

func (o scheduleOptions) hold(
	ctx context.Context, in *pauseInput, e changeEndpoint, function, done string,
) (*doneOutput, error) {
	s, f, err := o.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Commit {
		return o.change(ctx, e, done, api.ScheduleChange{Ref: in.ID, Reason: in.Reason})
	}
	args := map[string]any{"entry": s.Entry}
	if in.Reason != "" && function == "schedule.pause" {
		args["reason"] = in.Reason
	}
	return o.ask(ctx, f, function, args, done)
}

func (o scheduleOptions) run(ctx context.Context, in *idInput) (*doneOutput, error) {
	s, f, err := o.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !s.Enabled {
		return nil, huma.Error400BadRequest(s.Entry +
			" is paused in the config repo: unpause it with commit=true first")
	}
	return o.ask(ctx, f, "schedule.run", map[string]any{"entry": s.Entry}, "dispatched")
}

const (
	repliesWithin = 3 * time.Second // usually peels reply sooner
	lookAgain     = 100 * time.Millisecond
)

// ask runs a function of the scheduler on the peels of an entry. The error comes from the peels, if none did what it
// was asked to: they know what they do now, and reports only what was. It is nil if that is not known in time.
func (o scheduleOptions) ask(ctx context.Context, f *facts, function string, args map[string]any,
	done string,
) (*doneOutput, error) {
	if f.invalid != "" && f.usable == 0 {
		return nil, huma.Error409Conflict(f.invalid)
	}
	out, err := o.dispatch(ctx, f, function, args, done)
	if err != nil {
		return nil, err
	}
	return out, o.answered(ctx, out.Body.JID)
}

// answered waits for the peels of a job, and returns their error.
func (o scheduleOptions) answered(ctx context.Context, jid wire.JID) error {
	for end := time.Now().Add(repliesWithin); time.Now().Before(end); {
		page, err := o.Returns(ctx, jid)
		if err != nil {
			return nil // the job goes on
		}
		if page.Job.Status.Final() {
			return scheduleRefusal(page.Rows)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// notActive is what a peel replies about an entry that is paused: scheduler.ErrNotActive.
const notActive = "the entry is not active"

// scheduleRefusal returns the error of the first peel, if no peel of the rows did what it was asked to.
func scheduleRefusal(rows []job.Row) error {
	var first error
	for _, row := range rows {
		switch {
		case row.Return == nil || row.Return.Success:
			return nil
		case first == nil:
			first = huma.Error409Conflict(fmt.Sprintf("%s: %s", row.Peel, row.Return.Error))
			if strings.Contains(row.Return.Error, notActive) {
				first = huma.Error400BadRequest(fmt.Sprintf("%s: %s: unpause it first", row.Peel, row.Return.Error))
			}
		}
	}
	return first
}

// dispatch runs a function of the scheduler on the peels that report the entry.
func (o scheduleOptions) dispatch(ctx context.Context, f *facts, function string, args map[string]any,
	done string,
) (*doneOutput, error) {
	if len(f.peels) == 0 {
		text := "no peel reports the entry: the commit is not applied yet, or its target selects none"
		if waits := o.waiting(ctx); waits != "" {
			text += "; " + waits
		}
		return nil, huma.Error409Conflict(text)
	}
	j, err := o.Submit(ctx, job.Spec{
		JID:        wire.NewJID(),
		Function:   function,
		Args:       args,
		Targets:    f.peels,
		TargetExpr: "L@" + listed(f.peels),
		Timeout:    jobTime,
	})
	if err != nil {
		return nil, err
	}
	return &doneOutput{Done{Status: done, JID: j.JID}}, nil
}
