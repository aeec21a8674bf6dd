package ledger

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// What a peel tells is read as it is in the list, but for the eras.
func TestToldFiresAreReadAsTheyAreListed(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	var l List
	for i := range 5 {
		l.Put(Fire{Nominal: noon.Add(time.Duration(i) * 10 * time.Minute), Outcome: Ran})
	}
	l.Put(Fire{Nominal: noon.Add(55 * time.Minute), Outcome: Skipped, Why: CircuitOpen, Class: Needs})
	l.Put(Fire{Nominal: noon.Add(56 * time.Minute), Outcome: Failed, Class: Hand, Late: true, Overran: true})
	for i := range 300 {
		l.Put(Fire{Nominal: noon.Add(2*time.Hour + time.Duration(i)*10*time.Second), Outcome: Missed, Why: Down})
	}
	told, err := l.Tell(noon, noon.Add(3*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	var read Told
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	got, err := read.Runs()
	if want := l.Runs(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

// Of more fires than a message takes the newest are told, and since when they are all.
func TestTheNewestOfTooManyFiresAreTold(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	l := List{From: noon}
	for i := range maxTold + 5 {
		l.Put(Fire{Nominal: noon.Add(time.Duration(i) * time.Minute), Outcome: Ran, Late: i%2 == 0})
	}
	told, err := l.Tell(noon, noon.Add(72*time.Hour))
	if want := noon.Add(5 * time.Minute); err != nil || len(told.Fires) != maxTold || !told.Fires[0].Nominal.Equal(want) || !told.Since.Equal(want) {
		t.Errorf("%d, all since %v, want %v; %v", len(told.Fires), told.Since, want, err)
	}
}

func TestFiresThatNoPeelTellsAreRefused(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, f := range []ToldFire{
		{Nominal: noon},
		{Nominal: noon, Count: -1},
		{Nominal: noon, Last: noon.Add(time.Minute), Count: 1},
		{Nominal: noon, Count: 2},
		{Nominal: noon, Last: noon.Add(5 * time.Second), Count: 4},
		{Nominal: noon, Last: noon.Add(time.Hour), Count: MaxFires + 1},
		{Nominal: noon, Last: noon.Add(time.Hour), Count: 3, Hour: true},
		{Nominal: noon, Count: maxOfHour + 1, Hour: true},
		{Nominal: time.Unix(lastSecond+1, 0), Count: 1},
		{Nominal: time.Unix(firstSecond-1, 0), Count: 1},
	} {
		told := Told{Fires: []ToldFire{f}}
		if got, err := told.Runs(); err == nil {
			t.Errorf("%+v was read as %+v", f, got)
		}
	}
	if _, err := (&Told{Fires: make([]ToldFire, maxTold+1)}).Runs(); err == nil {
		t.Error("too many runs were read")
	}
	newer := Told{Fires: []ToldFire{{Nominal: noon, Count: 1, Class: "moon", Outcome: "dreamt", Why: "tide"}}}
	if got, err := newer.Runs(); err != nil || got[0].Class != OtherClass || got[0].Outcome != Other || got[0].Why != OtherReason {
		t.Errorf("%+v, %v", got, err)
	}
}
