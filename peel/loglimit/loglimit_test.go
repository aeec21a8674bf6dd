package loglimit

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNobodyFillsTheLogWithRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := New(slog.New(slog.NewTextHandler(&log, nil)))
		lines := func() (told []string) {
			for line := range strings.Lines(log.String()) {
				_, said, _ := strings.Cut(strings.TrimSpace(line), "msg=")
				told = append(told, said)
			}
			log.Reset()
			return told
		}
		for range 10 * 60 * 100 { // 100 a second for ten minutes
			r.Warn("mad", "refused", "peel", "mad")
			time.Sleep(10 * time.Millisecond)
		}
		r.Warn("calm", "refused", "peel", "calm")
		got := lines()
		if len(got) != 11 || got[0] != "refused peel=mad" || got[1] != "refused peel=mad left_out=5999" || got[9] != got[1] || got[10] != "refused peel=calm" {
			t.Errorf("logged %d lines: %q", len(got), got)
		}
		time.Sleep(time.Hour)
		r.Warn("mad", "refused", "peel", "mad")
		r.Warn("calm", "refused", "peel", "calm")
		if got := lines(); len(got) != 2 || got[0] != "refused peel=mad left_out=5999" || got[1] != "refused peel=calm" {
			t.Errorf("logged an hour later: %q", got)
		}
	})
}

func TestWhoIsRefusedIsRememberedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := New(slog.New(slog.NewTextHandler(&log, nil)))
		flood := func(round int) int {
			log.Reset()
			for range 3 {
				for i := range 5 * maxSenders {
					r.Warn(fmt.Sprint(round, "-", i), "refused")
				}
			}
			if len(r.senders) > maxSenders+1 {
				t.Errorf("%d senders are remembered", len(r.senders))
			}
			return strings.Count(log.String(), "refused")
		}
		if n := flood(1); n != maxSenders+1 {
			t.Errorf("%d lines of as many senders as there is no room for, want one for each of %d and one for the others", n, maxSenders)
		}
		time.Sleep(logEvery)
		if n := flood(2); n != maxSenders && n != maxSenders+1 {
			t.Errorf("%d lines when the first ones' minute was over", n)
		}
	})
}
