package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// addAct adds the tools that change the fleet.
func (s *server) addAct() {
	act := credential.ScopeDispatch
	add(s, act, "target_preview",
		"Show which peels a target expression selects, with their number and hash, which dispatch and pause need. "+
			"Changes nothing.",
		s.preview)
	add(s, act, "dispatch",
		"Run a function on the peels that target_preview has shown. "+
			"It is refused if the target selects other peels by now. "+
			"On many peels it waits for a person.", s.dispatch)
	add(s, act, "pause",
		"Pause a schedule entry for a time on the peels that target_preview has shown. "+
			"On many peels it waits for a person.",
		s.pause)
}

type previewIn struct {
	Target string `json:"target" jsonschema:"target expression, such as web-* and G@os:debian"`
}

// maxShownPeels bounds the names in a preview.
const maxShownPeels = 200

func (s *server) preview(ctx context.Context, _ call, in previewIn) (*reply, error) {
	peels, err := s.Resolve(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("The target selects %d peels. hash: %s", len(peels), audit.PeelsHash(peels))
	if len(peels) > s.Limit {
		said += fmt.Sprintf("\nThat is above the limit of %d in an hour: an action on them waits for a person.",
			s.Limit)
	}
	return &reply{said: said, data: peels[:min(len(peels), maxShownPeels)]}, nil
}

type dispatchIn struct {
	Target   string         `json:"target"`
	Hash     string         `json:"hash" jsonschema:"as target_preview has shown it"`
	Expect   int            `json:"expect" jsonschema:"number of peels, as target_preview has shown it"`
	Function string         `json:"function" jsonschema:"such as cmd.run"`
	ID       string         `json:"id,omitempty" jsonschema:"the argument without a name, such as the command of cmd.run"`
	Args     map[string]any `json:"args,omitempty"`
	Reason   string         `json:"reason" jsonschema:"why, on one line, for the audit log and for the person who may have to approve it"`
}

func (s *server) dispatch(ctx context.Context, c call, in dispatchIn) (*reply, error) {
	return s.act(ctx, api.HoldAddRequest{
		Kind:    api.HoldDispatch,
		Target:  in.Target,
		Hash:    in.Hash,
		Module:  in.Function,
		StateID: in.ID,
		Args:    whole(in.Args).(map[string]any),
		Reason:  in.Reason,
		Agent:   c.agent,
	}, in.Expect)
}

type pauseIn struct {
	Target string `json:"target"`
	Hash   string `json:"hash" jsonschema:"as target_preview has shown it"`
	Expect int    `json:"expect" jsonschema:"number of peels, as target_preview has shown it"`
	Entry  string `json:"entry" jsonschema:"name of the schedule entry"`
	For    string `json:"for" jsonschema:"how long, such as 2h or 3d; at most 30d"`
	Reason string `json:"reason" jsonschema:"why, on one line"`
}

func (s *server) pause(ctx context.Context, c call, in pauseIn) (*reply, error) {
	d, err := strictyaml.ParseDuration(in.For)
	if err != nil {
		return nil, fmt.Errorf("for: %w", err)
	}
	return s.act(ctx, api.HoldAddRequest{
		Kind:   api.HoldPause,
		Target: in.Target,
		Hash:   in.Hash,
		Entry:  in.Entry,
		For:    d,
		Reason: in.Reason,
		Agent:  c.agent,
	}, in.Expect)
}

// whole makes integers of the numbers without a fraction in arguments, as on the command line.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if n := int64(v); float64(n) == v && n > -1<<53 && n < 1<<53 {
			return n
		}
	}
	return v
}

// act does an action if the target still selects the peels that the assistant has seen. It holds the action if they are
// too many, together with those of the last hour.
func (s *server) act(ctx context.Context, q api.HoldAddRequest, expect int) (*reply, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	peels, err := s.Resolve(ctx, q.Target)
	if err != nil {
		return nil, err
	}
	if err := unchanged(peels, q.Hash, expect); err != nil {
		return nil, err
	}
	if !s.acted.take(s.owner, peels, s.Limit, time.Now()) {
		a, err := api.HoldAdd.Ask(ctx, s, q)
		if err != nil {
			return nil, err
		}
		return &reply{
			said: fmt.Sprintf("Nothing was done: assistants may act on at most %d peels in an hour. "+
				"The action %s on %d peels waits until %s for a person, who decides with: zester approve %s",
				s.Limit, a.ID, len(peels), a.Expires.UTC().Format("2006-01-02 15:04 MST"), a.ID),
		}, nil
	}
	action := api.HoldAction{HoldAddRequest: q, JID: wire.NewJID()}
	spec := action.Spec()
	spec.Targets = peels
	delete(spec.Metadata, job.MetaAskedBy) // the owner asks, and nobody else has approved it
	delete(spec.Metadata, job.MetaHeld)
	j, err := s.Dispatch(ctx, spec)
	if _, waits := api.HeldAs(err); waits {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("job %s on %d peels: %w; job_get shows whether it was started", spec.JID, len(peels),
			err)
	}
	return &reply{said: fmt.Sprintf("Job %s runs on %d peels. job_get shows what they return.", j.JID, len(peels))}, nil
}

// unchanged returns an error if peels are not those that the assistant has seen.
func unchanged(peels []target.PeelID, hash string, expect int) error {
	switch now := audit.PeelsHash(peels); {
	case len(peels) == 0:
		return errors.New("the target selects no peel")
	case len(peels) != expect || now != hash:
		return fmt.Errorf("nothing was done: the target selects %d peels with the hash %.16s…, "+
			"not the %d with the hash %.16s… that were expected; look at target_preview again",
			len(peels), now, expect, hash)
	}
	return nil
}
