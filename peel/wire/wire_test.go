package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func message(t testing.TB, subject string, v any) *nats.Msg {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: subject, Data: data}
}

func TestReturnRoundTrip(t *testing.T) {
	jid := wire.NewJID()
	want := wire.Return{
		JID: jid, Peel: "web.01",
		Result: wire.Result{Success: true, Data: map[string]any{"stdout": []byte{0xff}, "code": int64(0)}, Duration: 3 * time.Second},
		Epoch:  7, Finished: time.Unix(1700000000, 5), V: wire.Version,
	}
	got, err := wire.DecodeReturn(message(t, wire.ReturnOf(jid, want.Peel.Wire()), want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestForgedMessagesAreRefused(t *testing.T) {
	jid, other := wire.NewJID(), wire.NewJID()
	mine := wire.Return{JID: jid, Peel: "web-01", V: wire.Version}
	answer := message(t, wire.ReturnOf(jid, "web-01"), mine)
	answer.Header = nats.Header{"Nats-Stream": {"KV_settings"}}
	for name, msg := range map[string]*nats.Msg{
		"another peel's subject": message(t, wire.ReturnOf(jid, "web-02"), mine),
		"another job's subject":  message(t, wire.ReturnOf(other, "web-01"), mine),
		"a server's answer":      answer,
	} {
		if _, err := wire.DecodeReturn(msg); !errors.Is(err, wire.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	puback := &nats.Msg{Subject: wire.ReturnOf(jid, "web-01"), Data: []byte(`{"stream":"facts","seq":12}`)}
	if r, err := wire.DecodeReturn(puback); err == nil {
		t.Errorf("a publish acknowledgement was read as %+v", r)
	}
	if _, err := wire.DecodeFacts(message(t, wire.Fact("db-01"), wire.Facts{Peel: "web-01"})); !errors.Is(err, wire.ErrForged) {
		t.Errorf("facts of another: %v", err)
	}
}

func TestAnEarlierVersionIsAcceptedAndALaterOneRefused(t *testing.T) {
	jid := wire.NewJID()
	subject := wire.ScheduledOf(jid, "p")
	if _, err := wire.DecodeScheduled(message(t, subject, map[string]any{"jid": jid, "peel_id": "p", "new": 1})); err != nil {
		t.Errorf("no version and an unknown field: %v", err)
	}
	_, err := wire.DecodeScheduled(message(t, subject, map[string]any{"jid": jid, "peel_id": "p", "v": 99}))
	if err == nil || !strings.Contains(err.Error(), "protocol version 99") {
		t.Errorf("a later version: %v", err)
	}
}

func TestJobSubject(t *testing.T) {
	jid := wire.NewJID()
	got, sender, err := wire.JobSubject(wire.AckOf(jid, "web-01"))
	if err != nil || got != jid || sender != "web-01" {
		t.Errorf("%q %q %v", got, sender, err)
	}
	for _, s := range []string{"", "zester.job", "zester.job.x.ack.p", "zester.cmd.a.b", "zester.job." + strings.Repeat("z", 27) + ".ack.p"} {
		if _, _, err := wire.JobSubject(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestAReportOnARunOfStatesIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, r := range map[string]wire.StateRun{
		"another peel":   {Peel: "q"},
		"a newer build":  {Peel: "p", V: wire.Version + 1},
		"many states":    {Peel: "p", States: make([]wire.StateOutcome, wire.MaxReported+1)},
		"many owed":      {Peel: "p", Owed: make([]string, wire.MaxReported+1)},
		"a long name":    {Peel: "p", States: []wire.StateOutcome{{State: long}}},
		"a long result":  {Peel: "p", States: []wire.StateOutcome{{Result: long}}},
		"a long cause":   {Peel: "p", States: []wire.StateOutcome{{Cause: long}}},
		"a long error":   {Peel: "p", States: []wire.StateOutcome{{Error: long}}},
		"a long owed":    {Peel: "p", Owed: []string{long}},
		"a long verdict": {Peel: "p", Counts: map[string]int{long: 1}},
		"less than none": {Peel: "p", Counts: map[string]int{"failed": -1}},
		"a long digest":  {Peel: "p", Digest: long},
		"canceled":       {Peel: "p", Canceled: -1},
	} {
		if _, err := wire.DecodeStateRun(message(t, wire.StateRunOf("p"), r)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := wire.DecodeStateRun(message(t, wire.StateRunOf("p"), wire.StateRun{Peel: "p", Counts: map[string]int{"failed": 1}, V: wire.Version})); err != nil {
		t.Error(err)
	}
}

// A report of a few thousand bytes must not take megabytes of memory before it is refused.
func TestTheListsOfReportsAreBoundedBeforeTheyAreDecoded(t *testing.T) {
	const n = 900_000
	list := append([]byte{0xdd, 0, n >> 16, n >> 8 & 0xff, n & 0xff}, bytes.Repeat([]byte{0xc0}, n)...)
	for field, decode := range map[string]func(*nats.Msg) error{
		"states":        func(m *nats.Msg) error { _, err := wire.DecodeStateRun(m); return err },
		"owed":          func(m *nats.Msg) error { _, err := wire.DecodeStateRun(m); return err },
		"errors":        func(m *nats.Msg) error { _, err := wire.DecodeApplied(m); return err },
		"paused_errors": func(m *nats.Msg) error { _, err := wire.DecodeApplied(m); return err },
		"features":      func(m *nats.Msg) error { _, err := wire.DecodeApplied(m); return err },
	} {
		msg := message(t, wire.StateRunOf("p"), map[string]any{"peel_id": "p", field: canon.Raw(list)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode(msg)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || !strings.Contains(err.Error(), "900000 ") || took > 4 {
			t.Errorf("%s: %d MB of memory were taken, and the error is %v", field, took, err)
		}
	}
}

func TestTheCountsOfARunOfStatesAreBoundedBeforeTheyAreDecoded(t *testing.T) {
	const n = 200_000
	counts := []byte{0xdf, 0, n >> 16, n >> 8 & 0xff, n & 0xff}
	for i := range n {
		counts = append(counts, 0xa3, byte(i>>16), byte(i>>8), byte(i), 1)
	}
	msg := message(t, wire.StateRunOf("p"), map[string]any{"peel_id": "p", "counts": canon.Raw(counts)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := wire.DecodeStateRun(msg)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || !strings.Contains(err.Error(), "200000 results, the limit is 10") || took > 4 {
		t.Errorf("%d MB of memory were taken, and the error is %v", took, err)
	}
}

func FuzzDecode(f *testing.F) {
	jid := wire.NewJID()
	f.Add(wire.ReturnOf(jid, "web-01"), message(f, "", wire.Return{JID: jid, Peel: "web-01"}).Data)
	f.Add(wire.Fact("p"), message(f, "", wire.Facts{Peel: "p", Facts: map[string]any{"os": "debian"}}).Data)
	f.Add(wire.ReturnOf(jid, "web-01"), message(f, "", map[string]any{"jid": jid, "peel_id": "web-01", "timestamp": nil}).Data)
	f.Add(wire.StateRunOf("p"), message(f, "", wire.StateRun{Peel: "p", Counts: map[string]int{"failed": 1}, States: []wire.StateOutcome{{State: "web"}}}).Data)
	f.Add(wire.Direct("p", "ada"), message(f, "", wire.DirectRequest{Function: "test.ping", TimeLeft: time.Minute}).Data)
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		msg := &nats.Msg{Subject: subject, Data: data}
		if r, err := wire.DecodeReturn(msg); err == nil && r.Peel.Wire() != wire.Sender(subject) {
			t.Errorf("%q accepted from %q", subject, r.Peel)
		}
		if e, err := wire.DecodeCancel(msg); err == nil && !strings.Contains(subject, string(e.JID)) {
			t.Errorf("%q accepted as a cancel of %q", subject, e.JID)
		}
		if _, user, err := wire.DecodeDirect(msg); err == nil && user != wire.Sender(subject) {
			t.Errorf("%q accepted as of %q", subject, user)
		}
		if a, err := wire.DecodeDirectAnswer(msg, "p"); err == nil && a.Peel != "p" {
			t.Errorf("%+v accepted of p", a)
		}
		_, _ = wire.DecodeRequest(msg)
		_, _ = wire.DecodeAck(msg)
		_, _ = wire.DecodeScheduled(msg)
		_, _ = wire.DecodeFacts(msg)
		_, _ = wire.DecodeApplied(msg)
		if r, err := wire.DecodeStateRun(msg); err == nil && (r.Peel.Wire() != wire.Sender(subject) || len(r.States) > wire.MaxReported) {
			t.Errorf("%q: accepted of %q with %d states", subject, r.Peel, len(r.States))
		}
	})
}

func TestAJIDHasLettersAndDigitsOnly(t *testing.T) {
	jid := string(wire.NewJID())
	if _, err := wire.ParseJID(jid); err != nil {
		t.Errorf("%q is refused: %v", jid, err)
	}
	for c := range 256 {
		if b := byte(c); b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' {
			continue
		}
		for _, at := range []int{1, len(jid) / 2, len(jid) - 1} {
			other := jid[:at] + string([]byte{byte(c)}) + jid[at+1:]
			if _, err := wire.ParseJID(other); err == nil {
				t.Errorf("%q is accepted as a JID", other)
			}
			if !wire.JID(other).Time().IsZero() {
				t.Errorf("%q has the time %v", other, wire.JID(other).Time())
			}
		}
	}
}

func TestAHostWithoutAClockMakesOldJIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose clock begins in 2000
		if at := wire.NewJID().Time(); at.Year() != 2014 {
			t.Errorf("the JID is of %v", at)
		}
	})
}

// A server has clients sign a text of JSON that it chooses.
func TestAServerCannotMakeAPeelSignAnotherSealingKey(t *testing.T) {
	proof := wire.KeyProof("web-01", "X")
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(`{"nonce":"`+strings.ReplaceAll(string(proof), "\n", `\n`)+`"}`), &info); err == nil && info.Nonce == string(proof) {
		t.Error("a nonce can be the proof")
	}
	if utf8.Valid(proof) {
		t.Error("the proof is a text")
	}
}

func TestTheFeaturesOfAReportAreBounded(t *testing.T) {
	for _, c := range []struct {
		features []string
		accepted bool
	}{
		{nil, true},
		{[]string{wire.FeatureStates}, true},
		{slices.Repeat([]string{"a"}, wire.MaxReported), true},
		{slices.Repeat([]string{"a"}, wire.MaxReported+1), false},
		{[]string{strings.Repeat("a", 129)}, false},
	} {
		data, err := canon.Marshal(wire.Applied{Peel: "web-1", Features: c.features, V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		a, err := wire.DecodeApplied(&nats.Msg{Subject: wire.SettingsApplied("web-1"), Data: data})
		if (err == nil) != c.accepted || c.accepted && !slices.Equal(a.Features, c.features) {
			t.Errorf("%d features: %v", len(c.features), err)
		}
	}
}

func TestTheTextsOfAReportOnSettingsAreBounded(t *testing.T) {
	of := func(n int) []string { return []string{strings.Repeat("a", n)} }
	for what, a := range map[string]struct{ longest, longer wire.Applied }{
		"an error":       {wire.Applied{Errors: of(512)}, wire.Applied{Errors: of(513)}},
		"a paused entry": {wire.Applied{PausedErrors: of(128)}, wire.Applied{PausedErrors: of(129)}},
		"a feature":      {wire.Applied{Features: of(128)}, wire.Applied{Features: of(129)}},
	} {
		for applied, isAccepted := range map[*wire.Applied]bool{&a.longest: true, &a.longer: false} {
			applied.Peel = "web-1"
			_, err := wire.DecodeApplied(message(t, wire.SettingsApplied("web-1"), *applied))
			if (err == nil) != isAccepted || err != nil && !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestANegativeNumberOfMissingContentsIsRefused(t *testing.T) {
	for _, n := range []int{-1, 0, 3} {
		data, err := canon.Marshal(wire.Applied{Peel: "web-1", MissingContents: n, V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		a, err := wire.DecodeApplied(&nats.Msg{Subject: wire.SettingsApplied("web-1"), Data: data})
		if (err == nil) != (n >= 0) || n >= 0 && a.MissingContents != n {
			t.Errorf("%d: %d, %v", n, a.MissingContents, err)
		}
	}
}

func TestTheFirstJIDOfASecondIsBeforeAllOthersOfIt(t *testing.T) {
	at := time.Date(2026, 11, 23, 2, 30, 0, 0, time.UTC)
	first := wire.FirstJID(at)
	if _, err := wire.ParseJID(string(first)); err != nil || !first.Time().Equal(at) {
		t.Errorf("%q of %v, %v", first, first.Time(), err)
	}
	if second := wire.FirstJID(at.Add(time.Second)); first >= second || wire.FirstJID(at.Add(999*time.Millisecond)) != first {
		t.Errorf("%q and %q of a second later", first, second)
	}
	if early := wire.FirstJID(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); early != "" {
		t.Errorf("a clock that was never set gives %q", early)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(at))
		if first := wire.FirstJID(time.Now()); wire.NewJID() < first {
			t.Errorf("a new one is before %q", first)
		}
	})
}
