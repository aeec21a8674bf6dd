package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

// The words under on: in zester.yaml are the kinds of package verdict.
func TestTroublesAreKindsOfVerdicts(t *testing.T) {
	kinds := []verdict.Kind{
		verdict.Failed, verdict.Missed, verdict.Late, verdict.Overran, verdict.Paused, verdict.NotReporting, verdict.Disagrees,
		verdict.Refused, verdict.Stalled, verdict.WaveFailed, verdict.Held,
		verdict.BreakGlass,
	}
	if len(kinds) != len(policy.Troubles) {
		t.Fatalf("%d kinds, %d troubles", len(kinds), len(policy.Troubles))
	}
	for i, k := range kinds {
		if policy.Troubles[i] != policy.Trouble(k) {
			t.Errorf("%s is not %s", policy.Troubles[i], k)
		}
	}
}

// FuzzStored feeds stored alerts, silences and marks of pings.
func FuzzStored(f *testing.F) {
	a := rules.Alert{Rule: "default", Entry: "backup", Progress: rules.Progress{Began: time.Unix(1, 0), Episode: 1}}.With("ops", rules.Mark{Episode: 1, On: true})
	s := api.Silence{ID: "abcd", Match: "peel:web-*", Until: time.Unix(2, 0)}
	for _, v := range []any{a, s, rules.Alert{}, api.Silence{}, []notify.PingMark{{ID: 1, Started: 2, Ended: 3}, {ID: 4}}, []notify.PingMark{{}, {}}} {
		data, err := canon.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var any rules.Alert
		if canon.Unmarshal(data, &any) == nil {
			if got, err := decodeAlert(keyOf(any.ID()), data); err == nil && (got.Rule == "" || got.Entry == "" && got.Trouble == "") {
				t.Errorf("%+v", got)
			}
		}
		if _, err := decodeAlert("alert.other", data); err == nil {
			t.Error("an alert under the key of another is read")
		}
		if marks, err := decodePings(data); err == nil && len(marks) > 0 && marks[0].ID != 0 {
			t.Errorf("%+v", marks[0])
		}
		var id struct{ ID string }
		_ = json.Unmarshal(data, &id)
		if got, err := decodeSilence("silence."+id.ID, data); err == nil && (got.Until.IsZero() || rules.CheckMatch(got.Match) != nil) {
			t.Errorf("%+v", got)
		}
	})
}

// The largest marks of as many entries as a service may have can be stored.
func TestStoredPingsAreBounded(t *testing.T) {
	var marks []notify.PingMark
	for i := range notify.MaxPingEntries + 200 {
		marks = append(marks, notify.PingMark{ID: math.MaxUint64 - notify.PingID(i), Started: math.MinInt64, Ended: math.MinInt64})
	}
	for n, ok := range map[int]bool{notify.MaxPingEntries: true, len(marks): false} {
		data, err := canon.Marshal(marks[:n])
		if err != nil {
			t.Fatal(err)
		}
		if read, err := decodePings(data); (err == nil) != ok || ok && len(read) != n {
			t.Errorf("%d marks of %d bytes: %d are read, %v", n, len(data), len(read), err)
		}
	}
	data, err := canon.Marshal([]notify.PingMark{{ID: 7}, {ID: 7, Ended: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodePings(data); err == nil {
		t.Error("two marks of one entry are read")
	}
}

// A conflict means that another master has written, so it leads. The term must end, or both would send.
func TestAConflictOfWritesEndsTheTerm(t *testing.T) {
	for code, ends := range map[jetstream.ErrorCode]bool{10071: true, 10164: true, 10077: false} {
		term := &term{o: Options{Log: slog.New(slog.DiscardHandler)}, store: &store{checkLease: func() error { return nil }}}
		err := term.stored(fmt.Errorf("cannot store it: %w", &jetstream.APIError{Code: 400, ErrorCode: code}))
		if (err != nil) != ends || (term.storeErr != nil) == ends {
			t.Errorf("code %d: the term ends with %v, and the error that lasts is %v", code, err, term.storeErr)
		}
	}
}

// What a term has read from the bucket is as the last master left it. Nothing is sent of that before a step has brought it up
// to date, such as with the silences.
func TestNothingIsSentBeforeTheFirstStepOfATermNorWithoutItsLease(t *testing.T) {
	r, err := notify.NewReceiver(notify.ReceiverOptions{Name: "ops", Provider: notify.ReceiverWebhook, URL: "http://desk.example/ops"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	began := rules.Alert{
		Rule: "all", Entry: "backup", Progress: rules.Progress{Began: now.Add(-time.Hour), Episode: 1, Size: 1},
		Told: map[string]rules.Mark{"ops": {}},
	}
	alerts := map[string]rules.Alert{began.ID(): began}
	d := newDelivery(r, newOutputs(Options{}))
	lost := errors.New("the lease is lost")
	term := &term{
		store: &store{alerts: alerts, checkLease: func() error { return lost }}, alerts: alerts, deliveries: []*delivery{d},
		stepped: true,
	}

	if term.send(now); len(d.work) != 0 {
		t.Errorf("without the lease it sends %+v", <-d.work)
	}
	lost, term.stepped = nil, false

	if term.send(now); len(d.work) != 0 {
		t.Errorf("before a step it sends %+v", <-d.work)
	}
	term.stepped = true
	if term.send(now); len(d.work) != 1 {
		t.Error("after a step it sends nothing")
	}
}
