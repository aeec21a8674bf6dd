package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// errNoEntry is of an entry that a peel's settings do not have.
var errNoEntry = errors.New("no such entry")

// BlameRequest asks where the entries of a peel come from.
type BlameRequest struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry"`
}

// Blamed says which change made a peel run an entry, as its newest settings tell.
type Blamed struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry"`
	settings.Origin
	Revision settings.Commit `json:"revision"` // at which the peel was last given settings
}

// Blame asks which commit last changed an entry of a peel. The peel need not be online. The code is [CodeNotFound] for
// an entry that its settings do not have; those of peel.yaml are unknown to Git.
func (c *Client) Blame(ctx context.Context, peel target.PeelID, entry string) (*Blamed, error) {
	return call[Blamed](ctx, c, wire.API("entry", "show", c.user), BlameRequest{Peel: peel, Entry: entry})
}

// entryShow reads the origin of an entry from the peel's document.
func (s *Server) entryShow(ctx context.Context, q BlameRequest) (*Blamed, error) {
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
	return &Blamed{Peel: q.Peel, Entry: q.Entry, Origin: origin, Revision: doc.Commit}, nil
}

// isAbsent reports whether what was asked about is not there.
func isAbsent(err error) bool {
	return slices.ContainsFunc([]error{errNoPeel, errNoEntry}, func(absent error) bool { return errors.Is(err, absent) })
}
