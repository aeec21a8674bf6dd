package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// peelsInPage is how many peels a page has, so that with IDs of the greatest length it stays under 512 KiB.
const peelsInPage = 1200

// statesTime is how long a page of peels waits for the master that leads.
const statesTime = time.Second

// factsInPage bounds the facts in a page of peels, in bytes; the last peel may exceed it.
const factsInPage = wire.MaxMessage / 2

// PeelList returns a page of peels, selected as by [Server.SelectFor].
func (s *Server) PeelList(ctx context.Context, from grants.Caller, q api.PeelsRequest) (*api.PeelsPage, error) {
	expr := q.Target
	if strings.TrimSpace(expr) == "" {
		expr = "*"
	}
	_, ids, err := s.selectFor(ctx, from, expr)
	if err != nil {
		return nil, err
	}
	var wrong map[target.PeelID]verdict.Problem
	var doubt error
	if q.Class != "" {
		if !verdict.Known(q.Class) {
			return nil, fmt.Errorf("%w: there is no class %.40q of problems; the classes are %s",
				errInvalid, q.Class, verdict.Kinds())
		}
		if wrong, doubt = s.worst(ctx, from, ids); doubt != nil {
			return nil, doubt
		}
		ids = slices.DeleteFunc(slices.Clone(ids), func(id target.PeelID) bool { return wrong[id].Kind != q.Class })
	}
	a := &api.PeelsPage{Total: len(ids)}
	most := peelsInPage
	if q.States {
		most = status.MaxPeels
	}
	ids, a.Next = page(ids, q.Cursor, most)
	if q.States && q.Class == "" {
		wrong, doubt = s.worst(ctx, from, ids)
	}
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
			if len(a.Peels) < len(ids) {
				a.Next = id
			}
			break
		}
	}
	if q.States {
		if err := errors.Join(doubt, s.addStates(ctx, from, a, wrong)); err != nil {
			a.Lacks = strings.ReplaceAll(err.Error(), "\n", "; ") // a line for each
		}
	}
	return a, nil
}

// worst returns the worst problem of each peel within the limits of the caller that has one.
func (s *Server) worst(ctx context.Context, from grants.Caller,
	ids []target.PeelID,
) (map[target.PeelID]verdict.Problem, error) {
	if s.o.Coverage == nil {
		return nil, errNoCoverage
	}
	within, err := s.coveredFor(ctx, from, "")
	if err != nil {
		return nil, err
	}
	if within != nil {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id target.PeelID) bool { return !within[id] })
	}
	return s.o.Coverage.Worst(ids)
}

// addStates adds what the peels of a page run, as the master that leads knows it, and what is wrong with them.
func (s *Server) addStates(ctx context.Context, from grants.Caller, a *api.PeelsPage,
	wrong map[target.PeelID]verdict.Problem,
) error {
	q := status.PeelsRequest{}
	for i := range a.Peels {
		p := &a.Peels[i]
		q.Peels = append(q.Peels, p.ID)
		if w, is := wrong[p.ID]; is {
			p.Worst = &api.PeelProblem{Class: w.Kind, Entry: w.Entry, Since: w.Since, Text: w.Text}
		}
	}
	if len(q.Peels) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statesTime)
	defer cancel()
	known, err := api.SyncPeels.Ask(ctx, s.For(from), q)
	if err != nil {
		return err
	}
	for i, j := 0, 0; i < len(a.Peels) && j < len(known.Peels); i++ {
		if p := &a.Peels[i]; p.ID == known.Peels[j].Peel {
			p.State, p.Commit = known.Peels[j].State, known.Peels[j].Commit
			j++
		}
	}
	return nil
}

func (s *Server) peel(id target.PeelID) api.Peel {
	seen, online := s.o.Fleet.Presence(id)
	return api.Peel{
		ID: id, Online: online, Unknown: s.o.Fleet.Unknown(id), LastSeen: seen, Duplicate: s.o.Fleet.Duplicate(id),
		Key: s.o.Fleet.Key(id), PendingKey: s.o.Fleet.PendingKey(id),
	}
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
