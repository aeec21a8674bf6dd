package coverage

import "time"

// SetClock replaces the clock of this master. It must be called before Run.
func (t *Table) SetClock(now func() time.Time) { t.clock.own = now }
