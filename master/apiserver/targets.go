package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// resolvedInPage is how many peels a page has, so that with IDs of the greatest length, each twice, it stays under 512
// KiB.
const resolvedInPage = 1500

// page cuts what follows after from sorted IDs, at most n of them.
func page(ids []target.PeelID, after target.PeelID, n int) (cut []target.PeelID, next target.PeelID) {
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	ids = ids[i:]
	if len(ids) <= n {
		return ids, ""
	}
	return ids[:n], ids[n-1]
}

// Select returns all peels that an expression selects, sorted.
func (s *Server) Select(ctx context.Context, expr string) ([]target.PeelID, error) {
	_, ids, err := s.targets.Select(ctx, expr)
	return ids, err
}

// within returns the peels about which a caller may read.
func (s *Server) within(ctx context.Context, from grants.Caller) (access.Peels, error) {
	if s.o.Within == nil {
		return access.Peels{All: true}, nil
	}
	return s.o.Within(ctx, from)
}

// SelectFor returns the peels that an expression selects for a caller, sorted. Only peels about which the caller may
// read are selected, and if the expression uses settings, only those whose settings the caller may read.
func (s *Server) SelectFor(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
	_, ids, err := s.selectFor(ctx, from, expr)
	return ids, err
}

func (s *Server) selectFor(ctx context.Context, from grants.Caller,
	expr string,
) (*target.Expr, []target.PeelID, error) {
	peels, err := s.within(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	e, ids, err := s.targets.Select(ctx, expr)
	ids = peels.Only(ids)
	if err != nil || s.o.Readable == nil || !e.UsesSettings() {
		return e, ids, err
	}
	if ids, err = s.o.Readable(ctx, from, ids); err != nil {
		return nil, nil, fmt.Errorf("cannot select by settings (I@, J@): %w", err)
	}
	return e, ids, nil
}

// Resolve returns a page of the peels that an expression selects for a caller, as [Server.SelectFor] does.
func (s *Server) Resolve(ctx context.Context, from grants.Caller, q api.ResolveRequest) (*api.TargetsPage, error) {
	e, ids, err := s.selectFor(ctx, from, q.Expr)
	if err != nil {
		return nil, err
	}
	a := &api.TargetsPage{Total: len(ids)}
	a.Peels, a.Next = page(ids, q.Cursor, resolvedInPage)
	for _, id := range a.Peels {
		if _, online := s.o.Fleet.Presence(id); !online && !s.o.Fleet.Unknown(id) {
			a.Offline = append(a.Offline, id)
		}
	}
	if q.Cursor != "" {
		return a, nil
	}
	peels, err := s.within(ctx, from)
	if err != nil {
		return nil, err
	}
	for _, id := range e.Lists() {
		_, known := s.o.Fleet.Index().Get(id)
		if (!known || !peels.Has(id)) && len(a.Unknown) < resolvedInPage {
			a.Unknown = append(a.Unknown, id)
		}
	}
	return a, nil
}

// explain counts the peels about which the caller may read.
func (s *Server) explain(ctx context.Context, from grants.Caller, q api.ExplainRequest) (*api.Explained, error) {
	e, err := s.targets.Parse(ctx, q.Expr)
	if err != nil {
		return nil, err
	}
	peels, err := s.within(ctx, from)
	if err != nil {
		return nil, err
	}
	index := s.o.Fleet.Index()
	if e.UsesSettings() && s.o.Readable != nil {
		all := index.IDs() // the explanation counts over the whole fleet
		readable, err := s.o.Readable(ctx, from, all)
		if err == nil && len(readable) < len(all) {
			err = fmt.Errorf("%w: it counts peels whose settings are outside the limits of %s", grants.ErrNotAllowed,
				from.User)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot explain an expression over settings (I@, J@): %w", err)
		}
	}
	if !peels.All {
		index = part(index, peels.IDs)
	}
	explanation, err := index.Explain(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	reply := &api.Explained{Parsed: e.String(), Total: index.Len(), Explanation: *explanation}
	if q.Groups {
		groups, err := s.targets.Groups(ctx)
		if err != nil {
			return nil, err
		}
		reply.Groups = slices.Sorted(maps.Keys(groups))
	}
	return reply, nil
}

// part returns an index of some peels without their settings.
func part(of *peelindex.Index, ids []target.PeelID) *peelindex.Index {
	index := peelindex.New()
	for _, id := range ids {
		if facts, known := of.Get(id); known {
			index.Put(id, facts)
		}
	}
	return index
}
