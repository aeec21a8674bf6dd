package strictyaml_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"0s": 0, "1s": time.Second, "1m": time.Minute, "1m30s": 90 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second,
		"10m": 10 * time.Minute, "24h": 24 * time.Hour, "350ms": 350 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
	} {
		if got := strictyaml.FormatDuration(d); got != text {
			t.Errorf("%v is written as %s, want %s", d, got, text)
		}
		if read, err := strictyaml.ParseDuration(text); err != nil || read != d {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
}
