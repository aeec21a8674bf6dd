package scheduler

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/ledger/journal"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A StoredState is what a process leaves to the next one.
type StoredState struct {
	Entries map[string]History // by name
	Marks   ledger.Marks       // of the peel
	Open    []OpenRun          // runs that it did not complete, the oldest first
	Moment  Moment             // of the last write
	Older   bool               // newer records than these are lost
}

// A Moment is what the clocks of the host showed.
type Moment struct {
	Wall time.Time     `json:"w"`
	Boot string        `json:"b,omitempty"` // names the boot of the host; empty: not known
	Up   time.Duration `json:"u,omitempty"` // since the host booted, suspends included
	Zone string        `json:"z,omitempty"` // describes the zone of entries that name none
}

// StepSince returns by how much the wall clock was set since an earlier moment; ok is false if that is not known.
func (m Moment) StepSince(earlier Moment) (step time.Duration, ok bool) {
	if m.Boot == "" || m.Boot != earlier.Boot {
		return 0, false
	}
	step = m.Wall.Sub(earlier.Wall) - (m.Up - earlier.Up)
	if step.Abs() < time.Second {
		step = 0
	}
	return step, true
}

// A Store is the file of a schedule: what is known of each entry, and the runs in progress. A nil Store keeps nothing.
// Runs may be recorded on any goroutine, the rest is of one goroutine.
type Store struct {
	j    *journal.Journal
	seed maphash.Seed
	kept map[part]uint64 // digest of what the file has

	damage string // see Damage

	mu   sync.Mutex
	open map[wire.JID]OpenRun // runs that have a record; the newest form of each
}

// Damage says what of the file could not be read when it was opened, for people; empty: nothing.
func (s *Store) Damage() string {
	if s == nil {
		return ""
	}
	return s.damage
}

// A part of what is known of an entry is one record, the newest counts.
type part struct {
	kind kind
	name string
}

// A kind is the first byte of a record.
type kind byte

const (
	kindMarks     kind = 'm' // of the peel
	kindMoment    kind = 'w' // of a write
	kindHost      kind = 'h' // boot and zone of a moment
	kindEntry     kind = 'e' // an entry without the parts below
	kindProgress  kind = 'n' // of an entry
	kindBreaker   kind = 'b'
	kindPast      kind = 'r' // one run that has ended
	kindFires     kind = 'f' // fires of an entry
	kindForgotten kind = 'p' // fires that the list of an entry has forgotten
	kindOpen      kind = 'o' // a run that began
	kindEnd       kind = 'd' // the end of a run that has a record
	kindClosed    kind = 'c' // runs that no longer need a record
)

// Records have short keys.
type (
	hostRecord struct {
		Boot string `json:"b,omitempty"`
		Zone string `json:"z,omitempty"`
	}
	entryRecord struct {
		Name   string        `json:"n"`
		I      Identity      `json:"i"`
		Orders Orders        `json:"o,omitzero"`
		From   time.Time     `json:"f,omitzero"`
		Past   time.Time     `json:"p,omitzero"` // see [ledger.List]
		Marks  []ledger.Mark `json:"m,omitempty"`
	}
	progressRecord struct {
		Name string   `json:"n"`
		P    Progress `json:"p"`
	}
	breakerRecord struct {
		Name string  `json:"n"`
		B    Breaker `json:"b"`
	}
	pastRecord struct {
		Name string    `json:"n"`
		R    RunRecord `json:"r"`
	}
	endRecord struct {
		JID wire.JID `json:"j"`
		E   RunEnd   `json:"e"`
	}
	firesRecord struct {
		Name string `json:"n"`
		Runs []byte `json:"r"` // see [ledger.AppendRuns]
	}
)

// OpenStore opens the file of a schedule, which need not exist, and returns what the last process has left. If path is
// empty the Store is nil.
func OpenStore(path string, log *slog.Logger) (s *Store, state StoredState, err error) {
	j, payloads, err := journal.Open(path)
	if err != nil || j == nil {
		return nil, StoredState{}, err
	}
	s = &Store{j: j, seed: maphash.MakeSeed(), kept: map[part]uint64{}, open: map[wire.JID]OpenRun{}}
	l := loader{entries: map[string]*History{}, open: s.open}
	bad := 0
	for _, p := range payloads {
		if err := l.load(p); err != nil {
			bad++
			log.Warn("record of the schedule cannot be read, it is left out", "err", err)
		}
	}
	s.damage = j.Damage()
	if bad > 0 && s.damage == "" {
		s.damage = fmt.Sprintf("%d records of the schedule cannot be read, and are left out", bad)
	}
	if s.damage != "" {
		log.Warn(s.damage, "file", path)
	}
	state = StoredState{
		Entries: make(map[string]History, len(l.entries)),
		Marks:   l.marks,
		Moment:  l.moment,
		Older:   j.IsOlder(),
		Open:    slices.Collect(maps.Values(l.open)),
	}
	for name, h := range l.entries {
		state.Entries[name] = *h
	}
	sorting.Func(state.Open, func(a, b OpenRun) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.JID, b.JID))
	})
	return s, state, nil
}

// A loader adds records to what is known.
type loader struct {
	entries map[string]*History
	marks   ledger.Marks
	moment  Moment
	open    map[wire.JID]OpenRun
}

func (l *loader) entry(name string) *History {
	h := l.entries[name]
	if h == nil {
		h = &History{}
		l.entries[name] = h
	}
	return h
}

func (l *loader) load(payload []byte) error {
	if len(payload) == 0 {
		return fmt.Errorf("a record of 0 bytes")
	}
	data := payload[1:]
	switch k := kind(payload[0]); k {
	case kindMarks:
		return canon.Unmarshal(data, &l.marks)
	case kindMoment:
		return read(data, func(m Moment) { l.moment.Wall, l.moment.Up = m.Wall, m.Up })
	case kindHost:
		return read(data, func(r hostRecord) { l.moment.Boot, l.moment.Zone = r.Boot, r.Zone })
	case kindEntry:
		return read(data, func(r entryRecord) {
			h := l.entry(r.Name)
			h.Identity, h.Orders = r.I, r.Orders
			h.List.From, h.List.PastFrom, h.List.Marks = r.From, r.Past, r.Marks
		})
	case kindProgress:
		return read(data, func(r progressRecord) { l.entry(r.Name).Progress = r.P })
	case kindBreaker:
		return read(data, func(r breakerRecord) { l.entry(r.Name).Breaker = r.B })
	case kindPast:
		return read(data, func(r pastRecord) { l.entry(r.Name).keep(r.R) })
	case kindFires:
		return l.loadFires(data, false)
	case kindForgotten:
		return l.loadFires(data, true)
	case kindOpen:
		return l.loadOpen(data)
	case kindEnd:
		return read(data, func(r endRecord) {
			if run, ok := l.open[r.JID]; ok {
				run.RunEnd = r.E
				l.open[r.JID] = run
			}
		})
	case kindClosed:
		return read(data, func(ids []wire.JID) {
			for _, id := range ids {
				delete(l.open, id)
			}
		})
	default:
		return fmt.Errorf("a record of the kind %q is of a newer version", k)
	}
}

// read calls use with a record.
func read[T any](data []byte, use func(T)) error {
	var r T
	if err := canon.Unmarshal(data, &r); err != nil {
		return err
	}
	use(r)
	return nil
}

func (l *loader) loadOpen(data []byte) error {
	var r OpenRun
	err := canon.Unmarshal(data, &r)
	if err == nil {
		_, err = wire.ParseJID(string(r.JID))
	}
	if err == nil {
		l.open[r.JID] = r
	}
	return err
}

func (l *loader) loadFires(data []byte, forgotten bool) error {
	var r firesRecord
	if err := canon.Unmarshal(data, &r); err != nil {
		return err
	}
	if forgotten {
		return l.entry(r.Name).List.RestorePast(r.Runs)
	}
	runs, err := ledger.ParseRuns(r.Runs)
	if err != nil {
		return err
	}
	l.entry(r.Name).List.Restore(runs)
	return nil
}

// keep adds a run to the newest, in the place of an earlier record of it.
func (h *History) keep(r RunRecord) {
	if i := slices.IndexFunc(h.Last, func(other RunRecord) bool { return other.Run == r.Run }); i >= 0 {
		h.Last[i] = r
		return
	}
	if len(h.Last) >= maxRunRecords {
		h.Last = slices.Delete(h.Last, 0, len(h.Last)-maxRunRecords+1)
	}
	h.Last = append(h.Last, r)
}

func encode(k kind, v any) ([]byte, error) {
	data, err := canon.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append([]byte{byte(k)}, data...), nil
}

// Begin writes and flushes the record of a run, before the run begins. Runs that begin together share the flush.
func (s *Store) Begin(r OpenRun) error {
	if s == nil {
		return nil
	}
	data, err := encode(kindOpen, r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.open[r.JID] = r
	s.mu.Unlock()
	if err := s.j.Append(data); err != nil {
		return err
	}
	return s.j.Sync()
}

// End writes the end of a run into its record, without a flush, and once more when its report is stored.
func (s *Store) End(id wire.JID, end RunEnd) error {
	if s == nil {
		return nil
	}
	data, err := encode(kindEnd, endRecord{id, end})
	if err != nil {
		return err
	}
	s.mu.Lock()
	r, ok := s.open[id]
	if ok {
		r.RunEnd = end
		s.open[id] = r
	}
	s.mu.Unlock()
	if !ok {
		return nil // it has no record
	}
	return s.j.Append(data)
}

// A Change is the input of one write.
type Change struct {
	State  StoredState              // all of it, without Open
	Dirty  []string                 // entries that have changed since the last change, sorted
	Fires  map[string][]ledger.Fire // that were written into the lists since the last change
	Past   map[string][][]byte      // that the lists have forgotten since the last change, see [ledger.List.Forget]
	Closed []wire.JID               // runs that need no record any more, because State has their end
}

// changed returns the records of what the file does not have yet. The order matters: a run is closed after its end is
// known.
func (s *Store) changed(c Change) (records [][]byte, err error) {
	w := writer{s: s}
	w.moment(c.State.Moment)
	w.part(part{kindMarks, ""}, c.State.Marks)
	for _, name := range c.Dirty {
		w.entry(name, c.State.Entries[name])
		if fires := c.Fires[name]; len(fires) > 0 {
			w.add(kindFires, firesRecord{name, ledger.AppendRuns(nil, ledger.Group(ledger.Sorted(fires)))})
		}
		w.forgotten(name, c.Past[name])
	}
	if len(c.Closed) > 0 {
		w.add(kindClosed, c.Closed)
	}
	return w.records, w.err
}

// whole returns the records of all that is known.
func (s *Store) whole(state StoredState) ([][]byte, error) {
	clear(s.kept)
	w := writer{s: s}
	w.moment(state.Moment)
	w.part(part{kindMarks, ""}, state.Marks)
	for _, name := range slices.Sorted(maps.Keys(state.Entries)) {
		h := state.Entries[name]
		w.entry(name, h)
		for runs := range slices.Chunk(h.List.Runs(), maxRunsOfARecord) {
			w.add(kindFires, firesRecord{name, ledger.AppendRuns(nil, runs)})
		}
		w.forgotten(name, h.List.PastParts())
	}
	return w.records, w.err
}

// maxRunsOfARecord keeps a record below [journal.MaxPayload].
const maxRunsOfARecord = 20_000

// A writer collects records.
type writer struct {
	s       *Store
	records [][]byte
	err     error
}

func (w *writer) add(k kind, v any) {
	data, err := encode(k, v)
	if err != nil {
		w.err = err
		return
	}
	w.records = append(w.records, data)
}

// part adds a record unless the file has it.
func (w *writer) part(p part, v any) {
	data, err := encode(p.kind, v)
	if err != nil {
		w.err = err
		return
	}
	if digest := maphash.Bytes(w.s.seed, data); w.s.kept[p] != digest {
		w.s.kept[p] = digest
		w.records = append(w.records, data)
	}
}

func (w *writer) moment(m Moment) {
	w.part(part{kindHost, ""}, hostRecord{m.Boot, m.Zone})
	w.add(kindMoment, Moment{Wall: m.Wall, Up: m.Up})
}

func (w *writer) forgotten(name string, parts [][]byte) {
	for _, code := range parts {
		w.add(kindForgotten, firesRecord{name, code})
	}
}

func (w *writer) entry(name string, h History) {
	w.part(part{kindBreaker, name}, breakerRecord{name, h.Breaker})
	for _, r := range h.Last {
		w.part(part{kindPast, name + "/" + string(r.Run)}, pastRecord{name, r})
	}
	// A crash may leave the first of the two alone. The progress of a new timing then goes with the old timing, so
	// that the next process sees that the timing is new.
	w.part(part{kindProgress, name}, progressRecord{name, h.Progress})
	w.part(part{kindEntry, name}, entryRecord{name, h.Identity, h.Orders, h.List.From, h.List.PastFrom, h.List.Marks})
}

// openRecords returns the records of the runs in progress.
func (s *Store) openRecords() (records [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		data, err := encode(kindOpen, r)
		if err != nil {
			return nil, err
		}
		records = append(records, data)
	}
	return records, nil
}

func (s *Store) close(ids []wire.JID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.open, id)
	}
}
