package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
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
	_, ids, err := s.targets.selected(ctx, expr)
	return ids, err
}

// SelectFor returns the peels that an expression selects for a caller, sorted. If the expression uses settings, only
// peels whose settings the caller may read are selected.
func (s *Server) SelectFor(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error) {
	_, ids, err := s.selectFor(ctx, from, expr)
	return ids, err
}

func (s *Server) selectFor(ctx context.Context, from grants.Caller,
	expr string,
) (*target.Expr, []target.PeelID, error) {
	e, ids, err := s.targets.selected(ctx, expr)
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
	for _, id := range e.Lists() {
		if _, known := s.o.Fleet.Index().Get(id); !known && len(a.Unknown) < resolvedInPage {
			a.Unknown = append(a.Unknown, id)
		}
	}
	return a, nil
}

func (s *Server) explain(ctx context.Context, from grants.Caller, q api.ExplainRequest) (*api.Explained, error) {
	e, err := s.targets.parse(ctx, q.Expr)
	if err != nil {
		return nil, err
	}
	if e.UsesSettings() && s.o.Readable != nil {
		all := s.targets.index.IDs() // the explanation counts over the whole fleet
		readable, err := s.o.Readable(ctx, from, all)
		if err == nil && len(readable) < len(all) {
			err = fmt.Errorf("%w: it counts peels whose settings are outside the limits of %s", grants.ErrNotAllowed,
				from.User)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot explain an expression over settings (I@, J@): %w", err)
		}
	}
	explanation, err := s.targets.index.Explain(e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	reply := &api.Explained{Parsed: e.String(), Total: s.targets.index.Len(), Explanation: *explanation}
	if q.Groups {
		groups, err := s.targets.groups(ctx)
		if err != nil {
			return nil, err
		}
		reply.Groups = slices.Sorted(maps.Keys(groups))
	}
	return reply, nil
}
