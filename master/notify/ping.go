// File ping.go reports the runs of entries to a service such as Healthchecks, which raises an alarm when the pings of
// an entry stop. Make a [PingService] with [NewPinger]. [PingService.Plan] returns the pings that are due, and
// [PingService.Send] sends one.
//
// An entry of a peel has the address ADDRESS/SLUG. The slug is ENTRY-PEEL in lower case, with "-" for each character
// that is not a letter, a digit, "_" or "-". So no other peel that gets the entry or loses it changes the slug. A
// request to SLUG/start says that a run is in flight, one to SLUG/0 that the last run succeeded, one to SLUG/CODE that
// its command ended with another exit code, and one to SLUG/fail that it failed without one. Source: "Pinging API" of
// Healthchecks.
//
// Guarantees: a request carries the slug and one of these words, and no output or error of a run. At most 1,000 pairs
// of an entry and a peel are pinged, the runs of a pair in the order of their ends; runs by hand are not. When a pair
// is pinged for the first time, runs that ended more than 15 minutes ago are not pinged.
//
// Known gaps: masters know of runs by the reports of peels, which come within 5 s when something goes wrong or is well
// again, else every 10 minutes. So a ping may be up to 11 minutes late, and a start is pinged only if the run is in
// flight when the report is made. A report notes 8 runs of an entry, those that did not go well first: of more runs
// between two reports, and of several that ended in one second, the others are not pinged. The service cannot
// distinguish two entries with the same slug, so the second one is not pinged.

package notify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// MaxPingEntries bounds the pairs of an entry and a peel that a service is pinged about.
	MaxPingEntries = 1000
	// recent is the age up to which a run is pinged when its entry is pinged for the first time. Reports are at most 11
	// minutes apart.
	recent        = 15 * time.Minute
	maxPingAnswer = 64 << 10 // bytes
)

// PingOptions configure a service.
type PingOptions struct {
	Name    string           // letters, digits, "_" and "-"
	To      outbound.Address // without the slug
	Entries string           // a glob that the names of entries match
	// Transport sends the requests; if nil, [http.DefaultTransport].
	Transport http.RoundTripper
}

// A PingService receives pings. Its methods may be called from several goroutines.
type PingService struct {
	o      PingOptions
	client *outbound.Client
}

var pingName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// NewPinger checks the options; no file is read and nothing is sent.
func NewPinger(o PingOptions) (*PingService, error) {
	if !pingName.MatchString(o.Name) {
		return nil, fmt.Errorf(`cannot send pings to %.60q: want a name of 1 to 40 letters, digits, "_" and "-"`,
			o.Name)
	}
	err := o.To.Check()
	if _, bad := path.Match(o.Entries, ""); o.Entries == "" || bad != nil {
		err = errors.New("entries is required: a glob such as 'backup*' that the names of the entries to ping match")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot send pings to %q: %w", o.Name, err)
	}
	return &PingService{o, outbound.New(o.Transport)}, nil
}

// Name returns Options.Name.
func (s *PingService) Name() string { return s.o.Name }

// Has reports whether an entry is pinged at this service.
func (s *PingService) Has(entry string) bool {
	ok, _ := path.Match(s.o.Entries, entry)
	return ok
}

// An PingID identifies an entry of a peel: a digest of both names.
type PingID uint64

// PingIDOf returns the ID of an entry of a peel.
func PingIDOf(entry string, peel target.PeelID) PingID {
	sum := sha256.Sum256([]byte(entry + "\x00" + string(peel)))
	return PingID(binary.BigEndian.Uint64(sum[:8]))
}

// A PingMark is the newest run of an entry on a peel that needs no ping any more. Times are Unix seconds.
type PingMark struct {
	ID      PingID `json:"id"`
	Started int64  `json:"s,omitempty"` // start of the last run; 0: there was none
	Ended   int64  `json:"e,omitempty"` // end of the last run that ended; 0: there was none
}

// A Ping is one request that is due.
type Ping struct {
	Slug string
	Word string   // start, an exit code or fail
	Mark PingMark // the mark after the ping
}

// A PingPlan is the pings that are due at one service.
type PingPlan struct {
	Due     []Ping              // by slug, and of one slug the oldest run first
	Marks   map[PingID]PingMark // before the pings that are due
	Problem string              // why some entries are not pinged; empty: all are
}

// Plan returns the pings that are due. runs are the newest runs of all entries that the service has, sorted by entry
// and peel. marks are those of the last plan; Plan does not change them.
func (s *PingService) Plan(runs []verdict.Run, marks map[PingID]PingMark, now time.Time) PingPlan {
	p := PingPlan{Marks: map[PingID]PingMark{}}
	slugs := map[string]verdict.Run{}
	if len(runs) > MaxPingEntries {
		p.Problem = fmt.Sprintf("%s matches %d pairs of an entry and a peel, and only the first %d are pinged",
			s.o.Entries, len(runs), MaxPingEntries)
	}
	for _, r := range runs[:min(MaxPingEntries, len(runs))] {
		slug := slugOf(r)
		if other, taken := slugs[slug]; taken {
			p.Problem = fmt.Sprintf("%s of %s is not pinged: it has the slug of %s of %s, which is %s", r.Entry,
				r.Peel, other.Entry, other.Peel, slug)
			continue
		}
		slugs[slug] = r
		p.add(slug, r, marks, now)
	}
	sorting.Stable(p.Due, func(a, b Ping) int { return strings.Compare(a.Slug, b.Slug) })
	return p
}

// Next returns the ping to send after one for slug, in the order of slugs and then from the start, so that each entry
// has its turn however many pings of others are due. At least one ping must be due.
func (p *PingPlan) Next(slug string) Ping {
	i := slices.IndexFunc(p.Due, func(d Ping) bool { return d.Slug > slug })
	return p.Due[max(i, 0)]
}

// Told returns the plan after a ping was sent or refused for good.
func (p *PingPlan) Told(sent Ping) PingPlan {
	next := PingPlan{Marks: maps.Clone(p.Marks), Problem: p.Problem}
	next.Marks[sent.Mark.ID] = sent.Mark
	next.Due = slices.DeleteFunc(slices.Clone(p.Due), func(d Ping) bool { return d.Mark == sent.Mark })
	return next
}

// add adds the mark of an entry on a peel, and its ping if one is due.
func (p *PingPlan) add(slug string, r verdict.Run, marks map[PingID]PingMark, now time.Time) {
	id := PingIDOf(r.Entry, r.Peel)
	m, known := marks[id]
	m.ID = id
	started, ended := unix(r.Started), unix(r.Ended)
	if old := now.Add(-recent); !known && r.Started.Before(old) && r.Ended.Before(old) {
		m.Started, m.Ended = started, ended
	}
	p.Marks[id] = m
	if ended != 0 && ended != m.Ended {
		for _, e := range r.Before {
			isNew := known || !e.At.Before(now.Add(-recent))
			if e.At.Unix() > m.Ended && isNew {
				m.Ended = e.At.Unix()
				p.Due = append(p.Due, Ping{slug, result(e.Failed, e.Exit), m})
			}
		}
		if m.Ended = ended; !r.Running {
			m.Started = started
		}
		p.Due = append(p.Due, Ping{slug, result(r.Failed, r.Exit), m})
	}
	if r.Running && started != 0 && started != m.Started {
		m.Started = started
		p.Due = append(p.Due, Ping{slug, "start", m})
	}
}

// result returns the word about a run that has ended.
func result(hasFailed bool, exit int) string {
	if hasFailed && exit == 0 {
		return "fail"
	}
	return strconv.Itoa(exit)
}

// unix returns Unix seconds, 0 for the zero time.
func unix(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// slugOf returns the slug of an entry of a peel.
func slugOf(r verdict.Run) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, strings.ToLower(r.Entry+"-"+string(r.Peel)))
}

// Send sends a ping. Its error has the type [outbound.Error]. The error is final if the service will not accept this
// ping later either, such as one for a slug that it does not know.
func (s *PingService) Send(ctx context.Context, p Ping) error {
	_, err := s.client.Post(ctx, outbound.Post{To: s.o.To, Path: "/" + p.Slug + "/" + p.Word}, maxPingAnswer)
	if err == nil {
		return nil
	}
	e := outbound.Error{Err: fmt.Errorf("cannot ping %s at %q: %w", p.Slug, s.o.Name, err)}
	if known, ok := errors.AsType[*outbound.Error](err); ok {
		e.Status, e.After = known.Status, known.After
		e.Final = known.Final || outbound.HasStatus(err, http.StatusNotFound, http.StatusConflict)
	}
	return &e
}
