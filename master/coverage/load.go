package coverage

import (
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A scheduled is a schedule on the hosts of a zone.
type scheduled struct {
	document *document
	zone     unique.Handle[string]
}

// Schedules returns the schedules in force by the zone of the hosts, UTC for hosts whose zone is not known. Peels and
// match say which peels and entries count; nil: all.
func (t *Table) Schedules(
	peels map[target.PeelID]bool, match func(entry string) bool,
) map[*time.Location][]forecast.Group {
	members := map[scheduled][]target.PeelID{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peels {
		if p.document != nil && (peels == nil || peels[p.id]) {
			key := scheduled{p.document, p.zone}
			members[key] = append(members[key], p.id)
		}
	}
	groups := map[*time.Location][]forecast.Group{}
	named := map[namedSpec]*schedule.Entry{}
	for key, ids := range members {
		zone := t.documents.zones.location(key.zone.Value())
		if zone == nil {
			zone = time.UTC
		}
		set := key.document.set(named, match)
		groups[zone] = append(groups[zone], forecast.Group{Peels: ids, Schedule: set})
	}
	return groups
}

// A namedSpec is an entry: several may have one spec.
type namedSpec struct {
	name string
	spec *spec
}

// set returns the entries of a document. It takes those that other documents have from named, and adds the others.
func (d *document) set(named map[namedSpec]*schedule.Entry, match func(entry string) bool) schedule.Set {
	set := schedule.Set{}
	for i, name := range d.names {
		key := namedSpec{name, d.specs[i]}
		if key.spec.entry == nil || match != nil && !match(name) {
			continue
		}
		if named[key] == nil {
			e := *key.spec.entry
			e.Name = name
			named[key] = &e
		}
		set[name] = named[key]
	}
	return set
}
