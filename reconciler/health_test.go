package reconciler

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/top"
)

func TestWhatBecomesOfAWave(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	soaking := record.Rollout{Soaking: now.Add(-10 * time.Minute)}
	two := []string{"a: x", "b: y"}
	for _, test := range []struct {
		name    string
		rollout record.Rollout
		wave    top.Wave
		health  health
		want    verdict
	}{
		{"nobody has applied it", record.Rollout{}, top.Wave{}, health{peels: 1, pending: 1}, waveWaits},
		{"one is slow", record.Rollout{}, top.Wave{}, health{peels: 2, applied: 1, pending: 1}, waveWaits},
		{"all are away", record.Rollout{}, top.Wave{}, health{peels: 2, offline: 2}, waveWaits},
		{"one is away", record.Rollout{}, top.Wave{}, health{peels: 2, applied: 1, offline: 1}, waveApplied},
		{"soak has 1 ns to go", soaking, top.Wave{Soak: 10*time.Minute + 1}, health{peels: 1, applied: 1}, waveSoaks},
		{"soak is over", soaking, top.Wave{Soak: 10 * time.Minute}, health{peels: 1, applied: 1}, wavePassed},
		{"one came back in the soak", soaking, top.Wave{Soak: time.Minute}, health{peels: 2, applied: 1, pending: 1}, wavePassed},
		{"one fails in the soak", soaking, top.Wave{Soak: time.Hour}, health{peels: 2, applied: 1, failed: two[:1]}, waveFailed},
		{"as many as may fail", soaking, top.Wave{Soak: time.Minute, MaxFailures: top.Share{Count: 2, Percent: 100}}, health{peels: 3, applied: 1, failed: two}, wavePassed},
		{"one more than may", record.Rollout{}, top.Wave{MaxFailures: top.Share{Count: 1, Percent: 100}}, health{peels: 3, applied: 1, failed: two}, waveFailed},
		{"all that there are may fail", record.Rollout{}, top.Wave{MaxFailures: top.Share{Count: 2, Percent: 100}}, health{peels: 2, failed: two}, waveApplied},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judge(&test.rollout, test.wave, test.health, now); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
