package console

import (
	"context"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
)

const (
	countsTime = 2 * time.Second // how long counts are kept while nobody says that they have changed
	maxCounts  = 100             // audiences whose counts are kept
	countsWait = time.Second     // a page is shown without counts after this time
)

// counts keeps what stands beside the words of the navigation, so that a page does not read it again. Each audience
// sees what it may read.
type counts struct {
	mu         sync.Mutex // guards what follows
	byAudience map[string]keptCounts
}

type keptCounts struct {
	counts  map[string]page.Count
	version uint64 // of the part nav
	until   time.Time
}

// audience names the sessions that see the same. A token sees the held actions that it asked for, and no other's.
func (v *visit) audience() string {
	if v.session.Role.IsNarrow() || len(v.session.Groups) > 0 || v.session.Scopes != nil {
		return "rules of " + v.session.User
	}
	return string(v.session.Role)
}

// countsOf returns the counts that a session may read. They are left out if they cannot be read.
func (c *Console) countsOf(v *visit) map[string]page.Count {
	if !v.may(api.NowShow.Noun, api.NowShow.Verb) || v.r.Context().Err() != nil {
		return nil
	}
	who := v.audience()
	c.counts.mu.Lock()
	kept, known := c.counts.byAudience[who]
	c.counts.mu.Unlock()
	if known && kept.version == v.nav && time.Now().Before(kept.until) {
		return kept.counts
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), countsWait)
	defer cancel()
	now := v.now
	if now == nil {
		if now, _ = api.NowShow.Ask(ctx, v.ask, api.None{}); now == nil {
			return nil
		}
	}
	active := api.JobActive.Extra(ctx, v.ask, api.None{})
	kept = keptCounts{page.Counts(now, active.Value), v.nav, time.Now().Add(countsTime)}
	if active.Error != "" {
		return kept.counts
	}
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	if c.counts.byAudience == nil || len(c.counts.byAudience) >= maxCounts {
		c.counts.byAudience = map[string]keptCounts{}
	}
	c.counts.byAudience[who] = kept
	return kept.counts
}
