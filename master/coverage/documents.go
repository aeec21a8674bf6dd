package coverage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// documents has the schedules of all documents. What is equal is kept once: most peels have the timings of others.
type documents struct {
	specs     map[string]*spec     // by the fields of an entry, without what it runs
	schedules map[string]*document // by names and specs
	read      map[settings.Digest]*document
	peels     map[scheduled]int // how many have each
	zones     *zones
	made      int // numbers of specs
}

// A spec is what decides when an entry fires.
type spec struct {
	number int
	entry  *schedule.Entry // nil: this master cannot read it
	timing ledger.Timing
	plans  map[string]*join.Plan // by zone
}

// A document is the schedule of one or more peels.
type document struct {
	names []string // sorted
	specs []*spec  // of the names
}

func newDocuments(z *zones) documents {
	return documents{
		specs:     map[string]*spec{},
		schedules: map[string]*document{},
		read:      map[settings.Digest]*document{},
		peels:     map[scheduled]int{},
		zones:     z,
	}
}

// follow sets the schedule of a peel, nil if it has none, and the zone of its host.
func (d *documents) follow(p *peel, doc *document, zone unique.Handle[string]) {
	if was := (scheduled{p.document, p.zone}); p.document != nil {
		if d.peels[was]--; d.peels[was] == 0 {
			delete(d.peels, was)
		}
	}
	if p.document, p.zone = doc, zone; doc != nil {
		d.peels[scheduled{doc, zone}]++
	}
}

// notTiming are the fields of an entry that say what it runs.
var notTiming = []string{"module", "command", "args", "payload", "prompt", "model", "opts"}

// maxRead bounds the digests of settings whose schedule is known.
const maxRead = 64

// of returns the schedule of a document. After a commit to all peels most documents have the settings of others.
func (d *documents) of(doc *settings.Document) (*document, error) {
	if known := d.read[doc.Digest]; known != nil {
		return known, nil
	}
	made, err := d.parse(doc)
	if err != nil {
		return nil, err
	}
	if len(d.read) >= maxRead {
		clear(d.read)
	}
	d.read[doc.Digest] = made
	return made, nil
}

// parse reads the schedule of a document.
func (d *documents) parse(doc *settings.Document) (*document, error) {
	var values struct {
		Schedule map[string]map[string]canon.Raw `json:"schedule"`
	}
	if err := canon.Unmarshal(doc.Settings, &values); err != nil {
		return nil, fmt.Errorf("cannot read the schedule of %s: %w", doc.Peel, err)
	}
	made := &document{names: slices.Sorted(maps.Keys(values.Schedule))}
	var key strings.Builder
	for _, name := range made.names {
		s, err := d.spec(values.Schedule[name])
		if err != nil {
			return nil, fmt.Errorf("cannot read the entry %s of %s: %w", name, doc.Peel, err)
		}
		made.specs = append(made.specs, s)
		fmt.Fprintf(&key, "%s\x00%d\x00", name, s.number)
	}
	if known := d.schedules[key.String()]; known != nil {
		return known, nil
	}
	d.schedules[key.String()] = made
	return made, nil
}

// spec returns the timing of an entry.
func (d *documents) spec(fields map[string]canon.Raw) (*spec, error) {
	for _, name := range notTiming {
		delete(fields, name)
	}
	data, err := canon.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if known := d.specs[string(data)]; known != nil {
		return known, nil
	}
	values := map[string]any{}
	if err := canon.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	values["module"] = "test.ping"
	d.made++
	s := &spec{number: d.made, plans: map[string]*join.Plan{}}
	if e, err := schedule.ParseEntry("entry", strictyaml.FromValue("settings", values)); err == nil {
		// else a newer master has checked it, or the peel has refused it
		s.entry, s.timing = e, ledger.TimingOf(e.TimingHash())
	}
	d.specs[string(data)] = s
	return s, nil
}

// maxPlans bounds the plans of an entry: peels name their zones.
const maxPlans = 64

// plan returns the plan of an entry on a peel whose host has a zone; nil if it cannot be known.
func (d *documents) plan(s *spec, zone string) *join.Plan {
	if s == nil || s.entry == nil {
		return nil
	}
	if s.entry.Clock.Zone != "" {
		zone = "UTC" // which the plan does not use
	}
	if p, ok := s.plans[zone]; ok {
		return p
	}
	location := d.zones.location(zone)
	if location == nil {
		return nil
	}
	p, err := join.NewPlan(s.entry, location)
	if err != nil {
		p = nil
	}
	if len(s.plans) >= maxPlans {
		clear(s.plans)
	}
	s.plans[zone] = p
	return p
}

// spec returns what decides when the entry of a name fires; nil if the document does not have it.
func (d *document) spec(name string) *spec {
	if d == nil {
		return nil
	}
	if i, found := slices.BinarySearch(d.names, name); found {
		return d.specs[i]
	}
	return nil
}

// sweep forgets schedules that no peel has.
func (d *documents) sweep() {
	use := map[*document]bool{}
	for s := range d.peels {
		use[s.document] = true
	}
	maps.DeleteFunc(d.schedules, func(_ string, doc *document) bool { return !use[doc] })
	maps.DeleteFunc(d.read, func(_ settings.Digest, doc *document) bool { return !use[doc] })
	specs := map[*spec]bool{}
	for _, doc := range d.schedules {
		for _, s := range doc.specs {
			specs[s] = true
		}
	}
	maps.DeleteFunc(d.specs, func(_ string, s *spec) bool { return !specs[s] })
}
