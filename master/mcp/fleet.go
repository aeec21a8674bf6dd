package mcp

import (
	"context"
	"fmt"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// problems leaves out the day, the alerts and the state of the sync, which other tools show.
func (s *server) problems(ctx context.Context, _ call, _ none) (*reply, error) {
	now, err := api.NowShow.Ask(ctx, s, api.None{})
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("The state is %s. %d problems, the worst first; %d things wait for a person.", now.State,
		len(now.Problems), len(now.Waiting))
	if now.Doubt != "" {
		said += " Not all is known."
	}
	now.Problems = now.Problems[:min(len(now.Problems), maxRows)]
	return &reply{said: said, data: map[string]any{
		"state": now.State, "doubt": now.Doubt, "problems": now.Problems, "peels": now.Fleet,
	}}, nil
}

func (s *server) approvals(ctx context.Context, _ call, _ none) (*reply, error) {
	all, err := api.ApprovalList.Ask(ctx, s, api.None{})
	if err != nil {
		return nil, err
	}
	waiting := all.Waiting[:min(len(all.Waiting), maxRows)]
	said := fmt.Sprintf("%d things wait, the oldest first. %d follow.", len(all.Waiting), len(waiting))
	return &reply{said: said, data: map[string]any{"waiting": waiting, "missing": all.Missing}}, nil
}

type loadIn struct {
	Target string `json:"target,omitempty" jsonschema:"target expression, such as web-*; without it all peels"`
	Entry  string `json:"entry,omitempty" jsonschema:"only entries that match this glob"`
	For    string `json:"for,omitempty" jsonschema:"how far ahead, such as 24h, up to 7d; without it 24h"`
}

func (s *server) load(ctx context.Context, _ call, in loadIn) (*reply, error) {
	if in.For == "" {
		in.For = "24h"
	}
	l, err := api.LoadShow.Ask(ctx, s, api.LoadRequest{Target: in.Target, Entry: in.Entry, For: in.For})
	if err != nil {
		return nil, err
	}
	return &reply{data: l}, nil
}

type groupsIn struct {
	JID   wire.JID `json:"jid" jsonschema:"ID of the job"`
	Group string   `json:"group,omitempty" jsonschema:"ID of one result, to read on in it"`
	From  int      `json:"from,omitempty" jsonschema:"the first line to show of that result, from 0"`
}

func (s *server) jobGroups(ctx context.Context, _ call, in groupsIn) (*reply, error) {
	if _, err := wire.ParseJID(string(in.JID)); err != nil {
		return nil, err
	}
	g, err := api.JobGroups.Ask(ctx, s, api.ReturnGroupsRequest{JID: in.JID, Group: in.Group, From: max(in.From, 0)})
	if err != nil {
		return nil, err
	}
	return &reply{said: fmt.Sprintf("%d different results of %d targets.", len(g.Groups)+g.Left, g.Rows), data: g}, nil
}

type peelIn struct {
	Peel target.PeelID `json:"peel" jsonschema:"ID of the peel"`
}

func (s *server) peelGet(ctx context.Context, _ call, in peelIn) (*reply, error) {
	d, err := api.PeelShow.Ask(ctx, s, api.PeelRequest{Peel: in.Peel})
	if err != nil {
		return nil, err
	}
	return &reply{data: d}, nil
}
