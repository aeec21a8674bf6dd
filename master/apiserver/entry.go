package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/why"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// errNoEntry: the settings of the peel have no schedule entry or state of this name.
var errNoEntry = errors.New("no such entry")

// entryShow reads the origin of a schedule entry or a state from the peel's document. Of the same name it prefers the
// entry.
func (s *Server) entryShow(ctx context.Context, from grants.Caller, q api.BlameRequest) (*api.Blamed, error) {
	if _, err := target.ParsePeelID(string(q.Peel)); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	peels, err := s.within(ctx, from)
	if err != nil {
		return nil, err
	}
	doc, _, err := s.documents.Get(ctx, q.Peel)
	if err != nil {
		return nil, err
	}
	if doc == nil || !peels.Has(q.Peel) {
		return nil, fmt.Errorf("%w: %q has never been given settings", errNoPeel, q.Peel)
	}
	for _, name := range []string{q.Entry, settings.StateOrigin + q.Entry} {
		if origin, ok := doc.Origins[name]; ok {
			return &api.Blamed{Peel: q.Peel, Entry: name, Origin: origin, Revision: doc.Commit}, nil
		}
	}
	return nil, fmt.Errorf("%w: the settings of %s have no schedule entry or state %.256q", errNoEntry, q.Peel, q.Entry)
}

// isAbsent reports whether err means that the requested object does not exist.
func isAbsent(err error) bool {
	return slices.ContainsFunc([]error{
		errNoPeel, errNoEntry, why.ErrNoPeel, why.ErrNoEntry,
	}, func(absent error) bool { return errors.Is(err, absent) })
}
