package apiserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheNewestForecastsAreKeptForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l loadForecasts
		begin := time.Now().UTC().Truncate(time.Hour)
		key := func(i int) loadKey { return loadKeyOf(nil, fmt.Sprint(i)) }
		for i := range maxLoads + 4 {
			l.put(key(i), keptLoad{load: &api.Load{From: begin, Peels: i}, until: time.Now().Add(loadKept)})
			time.Sleep(time.Second)
		}
		if len(l.kept) != maxLoads {
			t.Errorf("%d forecasts are kept, want %d", len(l.kept), maxLoads)
		}
		for i, want := range map[int]bool{0: false, 3: false, 4: true, maxLoads + 3: true} {
			if k, known := l.get(key(i), begin); known != want || known && k.load.Peels != i {
				t.Errorf("forecast %d: kept %v, want %v", i, known, want)
			}
		}
		if _, known := l.get(key(5), begin.Add(time.Hour)); known {
			t.Error("a forecast of the hour before is used")
		}
		time.Sleep(loadKept)
		if _, known := l.get(key(5), begin); known {
			t.Error("a forecast is used for more than a minute")
		}
	})
}

func TestForecastsOfOtherPeelsAndEntriesAreKeptApart(t *testing.T) {
	keys := map[loadKey]bool{}
	for _, peels := range []map[target.PeelID]bool{nil, {}, {"a": true}, {"b": true}, {"a": true, "b": true}, {"ab": true}} {
		for _, entry := range []string{"", "backup"} {
			keys[loadKeyOf(peels, entry)] = true
		}
	}
	if len(keys) != 12 {
		t.Errorf("%d keys, want 12", len(keys))
	}
}
