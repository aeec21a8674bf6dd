// Package ping tells a service in the manner of Healthchecks when entries run, so that the service notices when they do not. Make a
// [Service] with [New]. [Service.Plan] says which pings are due, and [Service.Send] sends one.
//
// An entry has the address ADDRESS/SLUG. The slug is the name of the entry, and of the peel if several peels have the entry, in lower
// case, with "-" for each character that is not a letter, a digit, "_" or "-". A request to SLUG/start says that a run is in flight,
// one to SLUG/0 that the last run succeeded, and one to SLUG/fail that it failed. Source: "Pinging API" of Healthchecks.
//
// Guarantees: nothing leaves but slugs and these three words; output and errors of runs stay. At most 1,000 entries of peels are
// pinged. No more waits than the newest run of each. An old run of an entry that is new to the service is not pinged.
//
// Known gaps: masters know of runs by the reports of peels, which come within 5 s when something goes wrong or is well again, else
// every 10 minutes. So a ping may be late by 11 minutes, a start is pinged only if its run is still in flight then, and of several
// runs between two reports only the last one is. Two entries with the same slug cannot be told apart: the second is not pinged.
package ping

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
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/reconciler/notify/outbound"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// MaxEntries bounds the entries of peels that a service is told of.
	MaxEntries = 1000
	// recent is how old a run may be to be pinged if its entry is new to the service: a report comes every 11 minutes at least.
	recent    = 15 * time.Minute
	maxAnswer = 64 << 10 // bytes
)

// Options configure a service.
type Options struct {
	Name    string           // letters, digits, "_" and "-"
	To      outbound.Address // without the slug
	Entries string           // a glob that the names of entries match
	// Transport sends the requests; if nil, [http.DefaultTransport].
	Transport http.RoundTripper
}

// A Service receives pings. Its methods may be called at the same time.
type Service struct {
	o      Options
	client *outbound.Client
}

var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// New checks the options; no file is read and nothing is sent.
func New(o Options) (*Service, error) {
	if !name.MatchString(o.Name) {
		return nil, fmt.Errorf(`cannot send pings to %.60q: want a name of 1 to 40 letters, digits, "_" and "-"`, o.Name)
	}
	err := o.To.Check()
	if _, bad := path.Match(o.Entries, ""); o.Entries == "" || bad != nil {
		err = errors.New("entries is required: a glob such as 'backup*' that the names of the entries to ping match")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot send pings to %q: %w", o.Name, err)
	}
	return &Service{o, outbound.New(o.Transport)}, nil
}

// Name returns Options.Name.
func (s *Service) Name() string { return s.o.Name }

// Has reports whether the service is told of an entry.
func (s *Service) Has(entry string) bool {
	ok, _ := path.Match(s.o.Entries, entry)
	return ok
}

// An ID identifies an entry of a peel: a digest of both names.
type ID uint64

// IDOf returns the ID of an entry of a peel.
func IDOf(entry string, peel target.PeelID) ID {
	sum := sha256.Sum256([]byte(entry + "\x00" + string(peel)))
	return ID(binary.BigEndian.Uint64(sum[:8]))
}

// A Mark is what a service was told of an entry of a peel, or need not be told, in Unix seconds.
type Mark struct {
	ID      ID    `json:"id"`
	Started int64 `json:"s,omitempty"` // start of the last run; 0: there was none
	Ended   int64 `json:"e,omitempty"` // end of the last run that ended; 0: there was none
}

// A Ping is one request that is due.
type Ping struct {
	Slug string
	Word string // start, 0 or fail
	Mark Mark   // once the service was told
}

// A Plan is what a service is to be told.
type Plan struct {
	Due     []Ping      // by slug
	Marks   map[ID]Mark // of all entries of peels that the service is or was told of
	Problem string      // why some entries are not pinged; empty: all are
}

// Plan returns what is due, from the newest runs of the entries that the service has, sorted by entry and peel, and the marks of
// earlier plans, which it does not change.
func (s *Service) Plan(runs []verdict.Run, marks map[ID]Mark, now time.Time) Plan {
	p := Plan{Marks: map[ID]Mark{}}
	slugs := map[string]verdict.Run{}
	if len(runs) > MaxEntries {
		p.Problem = fmt.Sprintf("%s matches entries of %d peels in all, and at most %d are pinged", s.o.Entries, len(runs), MaxEntries)
	}
	for i, r := range runs[:min(MaxEntries, len(runs))] {
		alone := (i == 0 || runs[i-1].Entry != r.Entry) && (i == len(runs)-1 || runs[i+1].Entry != r.Entry)
		slug := slugOf(r, alone)
		if other, taken := slugs[slug]; taken {
			p.Problem = fmt.Sprintf("%s of %s is not pinged: it has the slug of %s of %s, which is %s", r.Entry, r.Peel, other.Entry, other.Peel, slug)
			continue
		}
		slugs[slug] = r
		p.add(slug, r, marks, now)
	}
	slices.SortFunc(p.Due, func(a, b Ping) int { return strings.Compare(a.Slug, b.Slug) })
	return p
}

// Next returns the ping that is sent after one for a slug, so that each entry has its turn however many pings of others are due.
// There is at least one.
func (p *Plan) Next(slug string) Ping {
	i := slices.IndexFunc(p.Due, func(d Ping) bool { return d.Slug > slug })
	return p.Due[max(i, 0)]
}

// Told returns the plan after a ping was sent.
func (p *Plan) Told(sent Ping) Plan {
	next := Plan{Marks: maps.Clone(p.Marks), Problem: p.Problem}
	next.Marks[sent.Mark.ID] = sent.Mark
	next.Due = slices.DeleteFunc(slices.Clone(p.Due), func(d Ping) bool { return d.Mark == sent.Mark })
	return next
}

// add adds an entry of a peel.
func (p *Plan) add(slug string, r verdict.Run, marks map[ID]Mark, now time.Time) {
	id := IDOf(r.Entry, r.Peel)
	m, known := marks[id]
	m.ID = id
	started, ended := unix(r.Started), unix(r.Ended)
	if old := now.Add(-recent); !known && r.Started.Before(old) && r.Ended.Before(old) {
		m.Started, m.Ended = started, ended
	}
	p.Marks[id] = m
	switch next := m; {
	case ended != 0 && ended != m.Ended:
		if next.Ended = ended; !r.Running {
			next.Started = started
		}
		p.Due = append(p.Due, Ping{slug, map[bool]string{true: "fail", false: "0"}[r.Failed], next})
	case r.Running && started != 0 && started != m.Started:
		next.Started = started
		p.Due = append(p.Due, Ping{slug, "start", next})
	}
}

// unix returns Unix seconds, 0 for the zero time.
func unix(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// slugOf returns the slug of an entry; alone says that one peel has it.
func slugOf(r verdict.Run, alone bool) string {
	text := r.Entry
	if !alone {
		text += "-" + string(r.Peel)
	}
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, strings.ToLower(text))
}

// Send sends a ping. Its error has the type [outbound.Error]; it is final if the service refuses this ping, as for a slug that it does
// not know.
func (s *Service) Send(ctx context.Context, p Ping) error {
	_, err := s.client.Post(ctx, outbound.Post{To: s.o.To, Path: "/" + p.Slug + "/" + p.Word}, maxAnswer)
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
