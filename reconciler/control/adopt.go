package control

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Adopt makes the fleet follow the source of this master. from and to are the sources that the person saw in the
// status.
func Adopt(from, to string) Change {
	return func(r record.Record, s Seen) (record.Record, error) { return r.Adopted(from, to, s.Source) }
}

func (s *Service) adopt(ctx context.Context, c *service.Call, q status.Adoption) (*status.Sync, error) {
	c.About.Target = q.To
	out, err := s.do(ctx, NewOrder("adopt", c.From.User, true, Adopt(q.From, q.To)), orderLimit)
	if err != nil {
		return out, err
	}
	c.About.Target = q.To + " in place of " + q.From
	if err := s.Archive.Clear(ctx); err != nil {
		s.Log.Warn("revisions of the source that the fleet followed before stay stored", "err", err)
	}
	return out, nil
}
