package audit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// noon is the begin of the time that the evidence of these tests is about; it ends at two.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// A witness makes evidence of runs of one peel.
type witness struct {
	t    testing.TB
	pair nkeys.KeyPair
	file bytes.Buffer

	public string
}

func newWitness(t testing.TB) *witness {
	w := &witness{t: t}
	var err error
	if w.pair, err = nkeys.CreateUser(); err != nil {
		t.Fatal(err)
	}
	w.public, err = w.pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	w.write(audit.EvidenceLine{Evidence: &audit.EvidenceHead{Since: noon, Until: noon.Add(2 * time.Hour), Peels: []target.PeelID{"web-01"}}})
	w.write(audit.EvidenceLine{Keys: map[target.PeelID][]credential.PeelKey{"web-01": {{Public: w.public}}}})
	return w
}

func (w *witness) write(v any) {
	w.t.Helper()
	if err := json.NewEncoder(&w.file).Encode(v); err != nil {
		w.t.Fatal(err)
	}
}

// run writes a run with a number that began at a time, under settings.
func (w *witness) run(number uint64, began time.Time, document string) {
	w.t.Helper()
	j := &job.Job{Spec: job.Spec{JID: wire.NewJID(), Function: "test.ping"}, Created: began, Updated: began}
	r := &wire.Return{JID: j.JID, Peel: "web-01", Result: wire.Result{Success: true}, Finished: began, Receipt: &wire.Receipt{Number: number, Document: document}}
	s, err := r.Statement(settings.Ran("test.ping", nil))
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := s.Text()
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Receipt.Signature, err = w.pair.Sign(text); err != nil {
		w.t.Fatal(err)
	}
	for _, v := range []any{j, &job.Row{Peel: "web-01", State: job.RowOK, Return: r}} {
		line, err := audit.EvidenceOf(v)
		if err != nil {
			w.t.Fatal(err)
		}
		w.write(line)
	}
}

func (w *witness) read() *audit.Evidence {
	w.t.Helper()
	e, err := audit.ReadEvidence(&w.file, audit.Head{})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func TestNumbersThatFollowEachOtherShowThatNothingBegan(t *testing.T) {
	before, within, after := noon.Add(-time.Hour), noon.Add(time.Hour), noon.Add(3*time.Hour)
	type run struct {
		number uint64
		began  time.Time
		doc    string
	}
	for name, tc := range map[string]struct {
		runs []run
		want string // part of why; empty: proven
	}{
		"nothing":                   {[]run{{6, before, "d"}, {7, before, "d"}, {8, after, "d"}, {9, after, "e"}}, ""},
		"in any order of the file":  {[]run{{8, after, "d"}, {7, before, "d"}}, ""},
		"at the edges":              {[]run{{7, noon, "d"}, {8, noon.Add(2 * time.Hour), "d"}}, ""},
		"a run":                     {[]run{{7, before, "d"}, {8, within, "d"}, {9, after, "d"}}, "1 runs began"},
		"a run without a record":    {[]run{{7, before, "d"}, {9, after, "d"}}, "1 runs without a receipt"},
		"other settings":            {[]run{{7, before, "d"}, {8, after, "e"}}, "its settings changed"},
		"nothing before":            {[]run{{8, after, "d"}}, "no receipt of a run before"},
		"nothing after":             {[]run{{7, before, "d"}}, "no receipt of a run after"},
		"nothing at all":            {nil, "no receipt"},
		"a number twice":            {[]run{{7, before, "d"}, {7, within, "d"}, {8, after, "d"}}, "is there twice"},
		"a clock that was set back": {[]run{{7, before, "d"}, {8, after, "d"}, {9, within, "d"}}, "its clock was changed"},
		"and further back":          {[]run{{7, after, "d"}, {8, before, "d"}, {9, after, "d"}}, "its clock was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			for _, r := range tc.runs {
				w.run(r.number, r.began, r.doc)
			}
			e := w.read()
			if q := e.Quiet(); len(q) != 1 || q[0].Proven != (tc.want == "") || !strings.Contains(q[0].Why, tc.want) || e.Failed() != 0 {
				t.Errorf("%+v, want %q; %d failed", q, tc.want, e.Failed())
			}
		})
	}
}

// A receipt that was tampered with shows nothing, neither that a run began nor that none did.
func TestAForgedRunIsNoEvidence(t *testing.T) {
	w, forger := newWitness(t), newWitness(t)
	w.run(7, noon.Add(-time.Hour), "d")
	forger.file.Reset()
	w.write(audit.EvidenceLine{Keys: map[target.PeelID][]credential.PeelKey{ // the forger has a key of another peel
		"web-01": {{Public: w.public}}, "web-02": {{Public: forger.public}},
	}})
	forger.run(8, noon.Add(3*time.Hour), "d")
	w.file.Write(forger.file.Bytes())
	e := w.read()
	if q := e.Quiet(); e.Failed() != 1 || q[0].Proven || e.Runs[1].Problem == "" || e.Runs[0].Problem != "" {
		t.Errorf("%+v, %+v", q, e.Runs)
	}
}

// A receipt of a key that was revoked before has its numbers, and they count for nothing.
func TestARunOfARevokedKeyIsNoEvidence(t *testing.T) {
	w := newWitness(t)
	w.write(audit.EvidenceLine{Keys: map[target.PeelID][]credential.PeelKey{"web-01": {{Public: w.public, Revoked: noon}}}})
	w.run(7, noon.Add(-time.Hour), "d")
	w.run(8, noon.Add(3*time.Hour), "d")
	e := w.read()
	if q := e.Quiet(); e.Failed() != 1 || q[0].Proven || !strings.Contains(q[0].Why, "no receipt of a run after") {
		t.Errorf("%+v, %+v", q, e.Runs)
	}
}

// The receipt of one run is none of another run of the same function.
func TestAReceiptOfAnotherRunIsNoEvidence(t *testing.T) {
	w := newWitness(t)
	w.run(7, noon.Add(-time.Hour), "d")
	w.run(8, noon.Add(3*time.Hour), "d")
	lines := bytes.SplitAfter(w.file.Bytes(), []byte("\n"))
	e, err := audit.ReadEvidence(bytes.NewReader(bytes.Join(slices.Concat(lines[:3], lines[5:]), nil)), audit.Head{})
	if err != nil || len(e.Runs) != 1 || e.Failed() != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestEvidenceHasAChainToo(t *testing.T) {
	w, head := newWitness(t), audit.Head{Seq: 6}
	for seq := uint64(7); seq < 10; seq++ {
		entry := audit.Entry{EntryPlace: audit.EntryPlace{Seq: seq, Prev: head.Digest}, User: "ada", Action: "job.dispatch"}
		text, err := entry.Text()
		if err != nil {
			t.Fatal(err)
		}
		if head = audit.HeadOf(audit.Line{Seq: seq, Text: text}); seq == 8 {
			continue // it is taken out
		}
		w.file.WriteString(text + "\n")
	}
	whole := w.file.String()
	if c := w.read().Chain; c.First != 7 || c.Entries != 2 || c.Total != 1 || c.Head != head {
		t.Errorf("%+v", c)
	}
	e, err := audit.ReadEvidence(strings.NewReader(whole), audit.Head{Seq: 20})
	if err != nil || e.Chain.Total != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = audit.ReadEvidence(strings.NewReader(whole), audit.Head{Seq: 7, Digest: strings.Repeat("0", 64)})
	if err != nil || e.Chain.Total != 2 {
		t.Errorf("with another entry 7 than it was: %+v, %v", e, err)
	}
	for _, bad := range []string{"no JSON", "{}", `{"row":"gA=="}`, `{"job":"xx"}`} {
		if _, err := audit.ReadEvidence(strings.NewReader(bad), audit.Head{}); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func FuzzReadEvidence(f *testing.F) {
	w := newWitness(f)
	w.run(7, noon, "d")
	f.Add(w.file.Bytes())
	f.Add([]byte(`{"seq":7,"prev":"x"}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		e, err := audit.ReadEvidence(bytes.NewReader(file), audit.Head{})
		if err != nil {
			return
		}
		for _, q := range e.Quiet() {
			if q.Proven && len(e.Runs) < 2 {
				t.Errorf("%+v is proven by %d runs", q, len(e.Runs))
			}
		}
	})
}
