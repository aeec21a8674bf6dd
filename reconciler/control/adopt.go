package control

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
)

// Adopt makes the fleet follow the source of this master. from and to are the sources that the person saw in the status.
func Adopt(from, to string) Change {
	return func(r record.Record, s Seen) (record.Record, error) { return r.Adopted(from, to, s.Source) }
}

func (s *Service) adopt(ctx context.Context, req *reply.Request) (any, string, error) {
	var q status.Adoption
	if err := decode(req, &q); err != nil {
		return nil, "", err
	}
	out, err := s.do(ctx, NewOrder("adopt", user(req), true, Adopt(q.From, q.To)), orderLimit)
	if err != nil {
		return nil, q.To, err
	}
	if err := s.Archive.Clear(ctx); err != nil {
		s.Log.Warn("revisions of the source that the fleet followed before stay stored", "err", err)
	}
	return out, q.To + " in place of " + q.From, nil
}
