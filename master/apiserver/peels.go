package apiserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// peelsInPage is how many peels a page has, so that with IDs of the greatest length it stays under 512 KiB.
const peelsInPage = 1200

// factsInPage bounds the facts in a page of peels, in bytes; the last peel may exceed it.
const factsInPage = wire.MaxMessage / 2

// PeelList returns a page of peels, selected as by [Server.SelectFor].
func (s *Server) PeelList(ctx context.Context, from grants.Caller, q api.PeelsRequest) (*api.PeelsPage, error) {
	ids := s.o.Fleet.Index().IDs()
	if strings.TrimSpace(q.Target) != "" {
		var err error
		if _, ids, err = s.selectFor(ctx, from, q.Target); err != nil {
			return nil, err
		}
	}
	a := &api.PeelsPage{Total: len(ids)}
	ids, a.More = page(ids, q.After, peelsInPage)
	facts := 0
	for _, id := range ids {
		p := s.peel(id)
		if q.Facts {
			p.Facts, _ = s.o.Fleet.Index().Get(id)
			encoded, err := canon.Marshal(p.Facts)
			if err != nil {
				return nil, err
			}
			facts += len(encoded)
		}
		if a.Peels = append(a.Peels, p); facts > factsInPage {
			a.More = a.More || len(a.Peels) < len(ids)
			break
		}
	}
	return a, nil
}

func (s *Server) peel(id target.PeelID) api.Peel {
	seen, online := s.o.Fleet.Presence(id)
	return api.Peel{
		ID: id, Online: online, Unknown: s.o.Fleet.Unknown(id), LastSeen: seen, Duplicate: s.o.Fleet.Duplicate(id),
		Key: s.o.Fleet.Key(id), PendingKey: s.o.Fleet.PendingKey(id),
	}
}

// PeelShow returns a peel with its facts.
func (s *Server) PeelShow(_ context.Context, q api.PeelRequest) (*api.Peel, error) {
	facts, ok := s.o.Fleet.Index().Get(q.Peel)
	if !ok {
		return nil, fmt.Errorf("%w: %q has never told its facts", errNoPeel, q.Peel)
	}
	p := s.peel(q.Peel)
	p.Facts = facts
	return &p, nil
}

// rekey makes masters seal the secrets of a peel to the key in its newest facts.
func (s *Server) rekey(ctx context.Context, from grants.Caller, q api.PeelKey) (*api.Peel, error) {
	if _, ok := s.o.Fleet.Index().Get(q.Peel); !ok {
		return nil, fmt.Errorf("%w: %q has never told its facts", errNoPeel, q.Peel)
	}
	if err := s.o.Fleet.ApproveKey(ctx, q.Peel, q.Key, from.User); err != nil {
		return nil, err
	}
	p := s.peel(q.Peel)
	return &p, nil
}
