package peel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// scheduleFires tells the fires of an entry, also of one that was removed less than 48 hours ago.
func (p *Peel) scheduleFires(ctx context.Context, args entryArgs) (any, error) {
	to := p.o.Clock().Wall
	from := to.Add(-ledger.KeptPast)
	for _, arg := range []struct {
		name, text string
		at         *time.Time
	}{{"from", args.From, &from}, {"to", args.To, &to}} {
		if arg.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, arg.text)
		if err != nil {
			return nil, fmt.Errorf("%s must be a time like 2026-06-01T09:00:00Z, not %q", arg.name, arg.text)
		}
		*arg.at = at
	}
	account, err := p.sched.Account(ctx)
	if err != nil {
		return nil, err
	}
	s, err := named(slices.Concat(account.Entries, account.Removed), args.Entry)
	if err != nil {
		return nil, err
	}
	told, err := s.List.Tell(from, to)
	if err != nil {
		return nil, fmt.Errorf("cannot read the past of %q: %w", s.Name, err)
	}
	return told, nil
}
