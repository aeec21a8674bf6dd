package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxEvidenceLine bounds a line of a file of evidence in bytes: it has at most one return, in base64.
const maxEvidenceLine = 2 * wire.MaxMessage

// An EvidenceLine is one line of a file of evidence, as JSON: a head, the keys of peels, the record of a job, or a row
// of the job before it. Lines of the audit log stand among them as they are stored.
type EvidenceLine struct {
	Evidence *EvidenceHead                          `json:"evidence,omitempty"`
	Keys     map[target.PeelID][]credential.PeelKey `json:"keys,omitempty"`
	Job      []byte                                 `json:"job,omitempty"` // a [job.Job], encoded canonically
	Row      []byte                                 `json:"row,omitempty"` // a [job.Row], encoded canonically
}

// An EvidenceHead says what a file is about.
type EvidenceHead struct {
	Made  time.Time       `json:"made"`
	Since time.Time       `json:"since,omitzero"` // zero: the file is about jobs alone
	Until time.Time       `json:"until,omitzero"`
	Peels []target.PeelID `json:"peels,omitempty"`
}

// EvidenceOf returns the line with an encoded record or row.
func EvidenceOf(record any) (EvidenceLine, error) {
	data, err := canon.Marshal(record)
	if _, isJob := record.(*job.Job); isJob {
		return EvidenceLine{Job: data}, err
	}
	return EvidenceLine{Row: data}, err
}

// Evidence is what a file of evidence shows to anybody who has it, without a master.
type Evidence struct {
	EvidenceHead
	Chain Chain `json:"audit"`
	Runs  []Run `json:"runs"`
}

// A Run is what the receipt of one return shows.
type Run struct {
	JID      wire.JID      `json:"jid"`
	Peel     target.PeelID `json:"peel"`
	Function string        `json:"function"`
	Entry    string        `json:"entry,omitempty"`
	Number   uint64        `json:"number,omitempty"`
	Document string        `json:"document,omitempty"`
	Began    time.Time     `json:"began,omitzero"`
	Finished time.Time     `json:"finished,omitzero"`
	Key      string        `json:"key,omitempty"`
	Success  bool          `json:"success"`
	Problem  string        `json:"problem,omitempty"` // why the receipt does not prove the run; empty: it does

	// Absent: there is no receipt. The peel had no credential yet, or the result was too large for the bus.
	Absent bool `json:"absent,omitempty"`
}

// RunOf checks the receipt of a row against the record of its job.
func RunOf(j *job.Job, row *job.Row, keys []credential.PeelKey) Run {
	r := Run{JID: j.JID, Peel: row.Peel, Function: j.Function, Entry: j.Metadata[job.MetaSchedule]}
	if row.Return != nil {
		r.Success = row.Return.Success
	}
	proof, err := j.Prove(row.Return, keys)
	if proof != nil {
		r.Number, r.Document, r.Key = proof.Number, proof.Document, proof.Key
		r.Began, r.Finished = proof.Began.UTC(), proof.Finished.UTC()
	}
	switch {
	case row.Return == nil:
		r.Problem, r.Absent = "the peel has not returned", true
	case err != nil:
		r.Problem, r.Absent = err.Error(), errors.Is(err, job.ErrNoReceipt)
	case row.Return.JID != j.JID || row.Return.Peel != row.Peel:
		r.Problem = job.ErrNotProven.Error()
	}
	return r
}

// ReadEvidence reads a file of evidence, or an export of the audit log alone, and checks all that is in it. An error
// means that it cannot be read. known is a head of the audit log that somebody has kept, zero for none.
func ReadEvidence(file io.Reader, known Head) (*Evidence, error) {
	e, keys := &Evidence{Runs: []Run{}, Chain: Chain{Gaps: []string{}}}, map[target.PeelID][]credential.PeelKey{}
	var of *job.Job
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxEvidenceLine)
	for n := 1; lines.Scan(); n++ {
		var l struct {
			EvidenceLine
			Seq uint64 `json:"seq"`
		}
		err := json.Unmarshal(lines.Bytes(), &l)
		switch {
		case err != nil:
		case l.Seq != 0:
			e.Chain.Add(Line{l.Seq, lines.Text()}, known)
		case l.Evidence != nil:
			e.EvidenceHead = *l.Evidence
		case l.Keys != nil:
			keys = l.Keys
		case l.Job != nil:
			of = &job.Job{}
			err = canon.Unmarshal(l.Job, of)
		case l.Row != nil && of != nil:
			var row job.Row
			if err = canon.Unmarshal(l.Row, &row); err == nil {
				e.Runs = append(e.Runs, RunOf(of, &row, keys[row.Peel]))
			}
		default:
			err = errors.New("no line of zester audit evidence, zester audit export or zester job verify --export")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read line %d: %w", n, err)
		}
	}
	e.Chain.End(known)
	return e, lines.Err()
}

// Failed returns how many runs have a receipt that does not prove them.
func (e *Evidence) Failed() (n int) {
	for i := range e.Runs {
		if e.Runs[i].Problem != "" && !e.Runs[i].Absent {
			n++
		}
	}
	return n
}

// A Quiet says whether a peel began to run anything in the time that the evidence is about.
type Quiet struct {
	Peel   target.PeelID `json:"peel"`
	Proven bool          `json:"proven"` // nothing began, and the settings before and after are the same
	Why    string        `json:"why"`
}

// Quiet returns the verdict on each peel of the head. The peel numbers its runs: if the last run that began before the
// time and the first one after it have numbers that follow each other, nothing began between them, recorded or not.
func (e *Evidence) Quiet() []Quiet {
	byPeel := map[target.PeelID][]*Run{}
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Problem == "" {
			byPeel[r.Peel] = append(byPeel[r.Peel], r)
		}
	}
	list := make([]Quiet, len(e.Peels))
	for i, id := range e.Peels {
		list[i] = e.quiet(id, byPeel[id])
	}
	return list
}

func (e *Evidence) quiet(id target.PeelID, runs []*Run) Quiet {
	verdict := func(format string, args ...any) Quiet { return Quiet{Peel: id, Why: fmt.Sprintf(format, args...)} }
	slices.SortStableFunc(runs, func(a, b *Run) int {
		switch {
		case a.Number < b.Number:
			return -1
		case a.Number > b.Number:
			return 1
		}
		return 0
	})
	var before, after *Run
	within := 0
	for i, r := range runs {
		if i > 0 && r.Number == runs[i-1].Number {
			return verdict("the number %d is there twice: the host has crashed, or its files were replaced", r.Number)
		}
		switch {
		case !r.Began.After(e.Since):
			if after != nil || within > 0 {
				return verdict("the run %d began before one with a lower number: its clock was changed", r.Number)
			}
			before = r
		case !r.Began.Before(e.Until):
			if after == nil {
				after = r
			}
		default:
			if after != nil {
				return verdict("the run %d began before one with a lower number: its clock was changed", r.Number)
			}
			within++
		}
	}
	switch {
	case within > 0:
		return verdict("%d runs began", within)
	case before == nil:
		return verdict("there is no receipt of a run before")
	case after == nil:
		return verdict("there is no receipt of a run after: run test.ping on it, and make the file again")
	case after.Number != before.Number+1:
		return verdict("%d runs without a receipt may have begun", after.Number-before.Number-1)
	case after.Document != before.Document:
		return verdict("nothing began to run, but its settings changed")
	}
	return Quiet{id, true, fmt.Sprintf("nothing began between its runs %d and %d, under the same settings",
		before.Number, after.Number)}
}
