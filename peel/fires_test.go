package peel_test

import (
	"strings"
	"testing"
	"time"
)

// A peel tells what became of fires of the last seven days, also of those before its last start.
func TestAPeelTellsTheFiresOfSevenDays(t *testing.T) {
	if testing.Short() {
		t.Skip("seven days of a bus in fake time")
	}
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  daily: {module: test.fail, cron: \"0 9 * * *\"}\n  beat: {module: test.ping, cron: \"*/30 * * * *\"}\n")
		time.Sleep(3 * 24 * time.Hour)
		b.stop()
		b.start()
		time.Sleep(3*24*time.Hour + time.Minute)
		now := time.Now()
		told := func(args map[string]any) (since time.Time, runs []map[string]any, count int) {
			r := b.call("schedule.fires", args)
			data, _ := r.Data.(map[string]any)
			list, ok := data["fires"].([]any)
			if !ok {
				t.Fatalf("%+v", r)
			}
			for _, v := range list {
				m := v.(map[string]any)
				runs = append(runs, m)
				count += int(m["count"].(int64))
			}
			since, _ = data["since"].(time.Time)
			return since, runs, count
		}
		since, days, n := told(map[string]any{"entry": "daily"})
		if n != 6 || len(days) > 4 || days[0]["outcome"] != "failed" || days[0]["class"] != "timer" || now.Sub(since) < 6*24*time.Hour {
			t.Errorf("since %v %v", since, days)
		}
		if _, _, n := told(map[string]any{"entry": "beat"}); n < 6*48 || n > 6*48+1 {
			t.Errorf("%d fires of six days", n)
		}
		old := now.Add(-5 * 24 * time.Hour)
		_, day, n := told(map[string]any{"entry": "beat", "from": old.Format(time.RFC3339), "to": old.Add(10 * time.Hour).Format(time.RFC3339)})
		if n < 20 || n > 21 || day[0]["nominal"].(time.Time).Before(old.Truncate(time.Second)) {
			t.Errorf("%d fires of ten hours: %v", n, day)
		}
		if r := b.call("schedule.fires", map[string]any{"entry": "beat", "to": "noon"}); r.Success || !strings.Contains(r.Error, `to must be a time like 2026-06-01T09:00:00Z, not "noon"`) {
			t.Errorf("%+v", r)
		}
		if r := b.call("schedule.fires", map[string]any{"entry": "bea"}); r.Success || !strings.HasSuffix(r.Error, `"bea"; did you mean "beat"?`) {
			t.Errorf("%+v", r)
		}
	})
}
