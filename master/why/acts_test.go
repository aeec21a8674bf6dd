package why

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The audit log names five peels of a job. Whether another one was among them follows from the target, if that can be evaluated.
func TestAnActOnPeelsThatTheLogDoesNotName(t *testing.T) {
	pause := audit.Entry{
		EntryPlace: audit.EntryPlace{Seq: 7}, Time: time.Unix(0, 0), User: "lee", Function: "schedule.pause", Target: "role:db", Args: `entry="backup"`,
		Count: 40, EntryPeels: audit.EntryPeels{Peels: []string{"db-01", "db-02", "db-03", "db-04", "db-05"}},
	}
	for _, c := range []struct {
		name           string
		ids            []target.PeelID
		err            error
		acts           int
		likely, unsure bool
	}{
		{"selected", []target.PeelID{"db-01", "web-01"}, nil, 1, true, false},
		{"not selected", []target.PeelID{"db-01"}, nil, 0, false, false},
		{"error", nil, errors.New("the facts of the fleet were not read yet"), 1, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			evaluate := func(context.Context, string) ([]target.PeelID, error) { asked++; return c.ids, c.err }
			r := reader{ActQuery: ActQuery{Peel: "web-01", Entry: "backup", Select: evaluate}, selected: map[string]selection{}}
			r.add(t.Context(), &pause)
			if len(r.list) != c.acts || c.acts > 0 && (r.list[0].Likely != c.likely || r.list[0].Unsure != "" != c.unsure) {
				t.Errorf("%+v", r.list)
			}
			if err := r.err(); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if r.add(t.Context(), &pause); asked != 1 {
				t.Errorf("the target was evaluated %d times", asked)
			}
		})
	}
}
