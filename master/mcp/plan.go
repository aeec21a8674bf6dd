package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// addPlan adds the tools that propose changes of the schedule entries of the config repo.
func (s *server) addPlan() {
	admin := credential.ScopeAdmin
	add(s, admin, "entry_file",
		"Show the settings file of a schedule entry, to change it with plan_change and propose_change.", s.entryFile)
	add(s, admin, "plan_change",
		"Check a change of a schedule entry in the config repo, and show it as a patch, with its hash. "+
			"What lint refuses is refused with its messages. Changes nothing.", s.planChange)
	add(s, admin, "propose_change",
		"Open a pull request with a change that plan_change has shown. "+
			"It never changes the branch that the fleet follows.",
		s.proposeChange)
}

type fileIn struct {
	Entry string `json:"entry" jsonschema:"number or name of the entry"`
}

func (s *server) entryFile(ctx context.Context, _ call, in fileIn) (*reply, error) {
	f, err := api.ScheduleFile.Ask(ctx, s, api.ScheduleFileQuery{Ref: in.Entry})
	if err != nil {
		return nil, err
	}
	return &reply{said: "was: " + f.Digest, data: f}, nil
}

// A changeIn is a change of one schedule entry.
type changeIn struct {
	Action string         `json:"action" jsonschema:"add, replace, remove, enable or disable"`
	Entry  string         `json:"entry,omitempty" jsonschema:"number or name of the entry; not of add"`
	Fields map[string]any `json:"fields,omitempty" jsonschema:"of add: name, target, function with args, exactly one timing of cron, every, at and schedule, and any field of an entry"`
	Text   string         `json:"text,omitempty" jsonschema:"of replace: the whole file after the change; it is the one of entry_file"`
	Was    string         `json:"was,omitempty" jsonschema:"of replace: as entry_file has shown it"`
	Reason string         `json:"reason,omitempty" jsonschema:"why, on one line; not of add"`
}

type proposeIn struct {
	changeIn
	Hash string `json:"hash" jsonschema:"as plan_change has shown it"`
}

// A request is a change of the config repo that can be asked for.
type request struct {
	verb     string
	question any
	ask      func(context.Context, api.Asker) (*api.ScheduleChanged, error)
}

func requestOf[Q any](e api.Endpoint[Q, api.ScheduleChanged], q Q) *request {
	return &request{e.Verb, q, func(ctx context.Context, by api.Asker) (*api.ScheduleChanged, error) {
		return e.Ask(ctx, by, q)
	}}
}

// request returns the request for a change.
func (c *changeIn) request(dry bool) (*request, error) {
	change := api.ScheduleChange{Ref: c.Entry, Reason: c.Reason, Propose: true, Dry: dry}
	switch c.Action {
	case api.ScheduleAdd.Verb:
		q, err := api.NewScheduleAdd(maps.Clone(whole(c.Fields).(map[string]any)))
		q.Propose, q.Dry = true, dry
		return requestOf(api.ScheduleAdd, q), err
	case api.ScheduleReplace.Verb:
		q := api.ScheduleReplaceRequest{
			Ref:     c.Entry,
			Was:     c.Was,
			Text:    c.Text,
			Reason:  c.Reason,
			Propose: true,
			Dry:     dry,
		}
		return requestOf(api.ScheduleReplace, q), nil
	case api.ScheduleRemove.Verb:
		return requestOf(api.ScheduleRemove, change), nil
	case api.ScheduleEnable.Verb:
		return requestOf(api.ScheduleEnable, change), nil
	case api.ScheduleDisable.Verb:
		return requestOf(api.ScheduleDisable, change), nil
	}
	return nil, fmt.Errorf("action is %.40q: it is add, replace, remove, enable or disable", c.Action)
}

// planned checks a change on the head of the branch. The hash is of the change and of that head: the number and the
// date in the patch of a new entry are others each time.
func (s *server) planned(ctx context.Context, c *changeIn) (out *api.ScheduleChanged, hash string, err error) {
	r, err := c.request(true)
	if err != nil {
		return nil, "", err
	}
	if out, err = r.ask(ctx, s); err != nil {
		return nil, "", err
	}
	data, err := canon.Marshal(r.question)
	if err != nil {
		return nil, "", err
	}
	if !out.Dry && !out.Repeated {
		return nil, "", errors.New("the masters are older than this program, and cannot plan a change")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", out.Commit, r.verb, data))
	return out, hex.EncodeToString(sum[:]), nil
}

func (s *server) planChange(ctx context.Context, _ call, in changeIn) (*reply, error) {
	out, hash, err := s.planned(ctx, &in)
	if err != nil {
		return nil, err
	}
	if out.Patch == "" {
		return &reply{said: "The config repo has this change already."}, nil
	}
	return &reply{said: "The change can be proposed. hash: " + hash, data: out}, nil
}

func (s *server) proposeChange(ctx context.Context, _ call, in proposeIn) (*reply, error) {
	_, hash, err := s.planned(ctx, &in.changeIn)
	if err != nil {
		return nil, err
	}
	if hash != in.Hash {
		return nil, errors.New(
			"nothing was proposed: this is not the change of that hash, or the branch has moved since; " +
				"look at plan_change again",
		)
	}
	r, err := in.request(false)
	if err != nil {
		return nil, err
	}
	out, err := r.ask(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case out.Patch != "":
		return &reply{
			said: "The master may not write to the config repo (write.mode in master.yaml). " +
				"A person can apply this patch with git apply.",
			data: out,
		}, nil
	case out.Commit == "" || !out.Proposed:
		return &reply{said: "There was nothing to propose.", data: out}, nil
	}
	return &reply{said: "Proposed. A person reviews and merges it.", data: out}, nil
}
