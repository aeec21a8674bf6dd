package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// errNoEntry: the settings of the peel have no such entry.
var errNoEntry = errors.New("no such entry")

// entryShow reads the origin of an entry from the peel's document.
func (s *Server) entryShow(ctx context.Context, q api.BlameRequest) (*api.Blamed, error) {
	if _, err := target.ParsePeelID(string(q.Peel)); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	doc, _, err := s.targets.store.Get(ctx, q.Peel)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		return nil, fmt.Errorf("%w: %q has never been given settings", errNoPeel, q.Peel)
	}
	origin, ok := doc.Origins[q.Entry]
	if !ok {
		return nil, fmt.Errorf("%w: the settings of %s have none of the name %.128q", errNoEntry, q.Peel, q.Entry)
	}
	return &api.Blamed{Peel: q.Peel, Entry: q.Entry, Origin: origin, Revision: doc.Commit}, nil
}

// isAbsent reports whether err means that the requested object does not exist.
func isAbsent(err error) bool {
	return slices.ContainsFunc([]error{errNoPeel, errNoEntry}, func(absent error) bool { return errors.Is(err, absent) })
}
