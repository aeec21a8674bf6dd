package alert_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestAnAlertHasTheOutputOfAFailedRun(t *testing.T) {
	inBubble(t, func(b *bench) {
		var read []string
		b.output = func(_ context.Context, entry string, peel target.PeelID) (o notify.Output, err error) {
			b.set(func() { read = append(read, fmt.Sprintf("%s %s", entry, peel)) })
			switch {
			case entry == "broken":
				return o, errors.New("the bus does not reply")
			case peel == "db-2":
				return notify.Output{Peel: peel, Ended: time.Now(), Lines: []string{"no data of yesterday"}}, nil
			}
			return o, nil
		}
		b.receive(notify.ReceiverOptions{Name: "am", Provider: notify.ReceiverAlertmanager, URL: "http://desk.example/am"})
		b.start("m1")
		b.trouble(append(failed("backup", "db-1", "db-2"), append(failed("broken", "db-1"),
			verdict.Problem{Kind: verdict.Missed, Entry: "report", Peel: "db-1"})...)...)
		b.after(20 * time.Second)
		b.was("/ops began default/backup", "/ops began default/broken", "/ops began default/report", "/am/api/v2/alerts")
		for _, body := range b.desk.read() {
			if got, want := strings.Count(body, "no data of yesterday"), strings.Count(body, `default/backup"`); strings.Contains(body, "specversion") && got != min(want, 1) {
				t.Errorf("%d outputs in %s", got, body)
			}
		}
		// The alert without an output that can be read, and the one that is not about a failed run, are sent without it.
		b.set(func() {
			slices.Sort(read) // once for both receivers, and what fails for each
			read = slices.Compact(read)
			if want := "backup db-1, backup db-2, broken db-1"; strings.Join(read, ", ") != want {
				t.Errorf("read %q, want %q", read, want)
			}
			read = nil
		})
		if !strings.Contains(b.log.String(), "output of a failed run not read") {
			t.Error("the log does not say what was not read")
		}
		// Alertmanager is told again each minute, with the same output, which is not read again.
		b.desk.forget()
		b.after(3 * time.Minute)
		b.was("/am/api/v2/alerts", "/am/api/v2/alerts", "/am/api/v2/alerts")
		for _, body := range b.desk.read() {
			if body != "" && !strings.Contains(body, "| no data of yesterday") {
				t.Errorf("a repeated alert lacks the output: %s", body)
			}
		}
		b.set(func() {
			if slices.ContainsFunc(read, func(of string) bool { return of != "broken db-1" }) {
				t.Errorf("read again: %q", read)
			}
		})
	})
}

// All receivers together read a few outputs, so many alerts at once are neither late nor a load because of them.
func TestFewOutputsAreReadForManyAlerts(t *testing.T) {
	inBubble(t, func(b *bench) {
		read := 0
		b.output = func(context.Context, string, target.PeelID) (notify.Output, error) {
			b.set(func() { read++ })
			return notify.Output{Peel: "db-1", Lines: []string{"x"}}, nil
		}
		b.receive(notify.ReceiverOptions{Name: "desk", Provider: notify.ReceiverWebhook, URL: "http://desk.example/desk"})
		b.start("m1")
		var all []verdict.Problem
		for i := range 9 {
			all = append(all, failed(fmt.Sprintf("backup-%d", i), "db-1")...)
		}
		b.trouble(all...)
		b.after(20 * time.Second)
		var total int
		b.set(func() { total = read })
		if told := len(b.desk.take()); total != 5 || told < 18 {
			t.Errorf("%d outputs read for %d alerts", total, told)
		}
	})
}

// A text about several alerts has their titles alone: nothing is read for it.
func TestATextAboutSeveralAlertsReadsNoOutput(t *testing.T) {
	inBubble(t, func(b *bench) {
		read := 0
		b.output = func(context.Context, string, target.PeelID) (notify.Output, error) {
			b.set(func() { read++ })
			return notify.Output{}, nil
		}
		b.receivers = nil
		b.receive(notify.ReceiverOptions{Name: "chat", Provider: notify.ReceiverSlack, URL: "http://desk.example/chat"})
		b.start("m1")
		b.trouble(append(failed("backup", "db-1"), failed("report", "db-1")...)...)
		b.after(20 * time.Second)
		b.was("/chat")
		b.set(func() {
			if read != 0 {
				t.Errorf("%d outputs read", read)
			}
		})
		if body := strings.Join(b.desk.read(), ""); !strings.Contains(body, "next: zester alert list") {
			t.Errorf("no command: %s", body)
		}
	})
}

// A bus that does not reply delays an alert by seconds.
func TestAnAlertDoesNotWaitForAnOutput(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.output = func(ctx context.Context, _ string, _ target.PeelID) (o notify.Output, err error) {
			<-ctx.Done()
			return o, ctx.Err()
		}
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(20 * time.Second)
		b.was("/ops began default/backup")
	})
}

func TestAnOutputThatCouldNotBeReadIsReadForTheNextAttempt(t *testing.T) {
	inBubble(t, func(b *bench) {
		reads := 0
		b.output = func(_ context.Context, _ string, peel target.PeelID) (o notify.Output, err error) {
			b.set(func() { reads++ })
			if reads == 1 {
				return o, errors.New("no leader")
			}
			return notify.Output{Peel: peel, Lines: []string{"no data of yesterday"}}, nil
		}
		b.desk.answers(503, "")
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(2 * time.Minute)
		b.desk.answers(0, "")
		b.after(10 * time.Minute)
		if body := strings.Join(b.desk.read(), ""); strings.Count(body, "no data of yesterday") != 1 {
			t.Errorf("the output is not in %s", body)
		}
	})
}

// Another attempt to send a message does not read its output again, whether there was one or none.
func TestAnotherAttemptReadsNoOutput(t *testing.T) {
	inBubble(t, func(b *bench) {
		var read []string
		b.output = func(_ context.Context, entry string, peel target.PeelID) (o notify.Output, err error) {
			b.set(func() { read = append(read, entry) })
			if entry == "backup" {
				o = notify.Output{Peel: peel, Lines: []string{"no data of yesterday"}}
			}
			return o, nil
		}
		b.desk.answers(503, "")
		b.start("m1")
		b.trouble(append(failed("backup", "db-1"), failed("report", "db-1")...)...)
		b.after(2 * time.Minute)
		if b.desk.asked() < 5 {
			t.Errorf("%d attempts", b.desk.asked())
		}
		b.desk.answers(0, "")
		b.after(10 * time.Minute)
		b.was("/ops began default/backup", "/ops began default/report")
		b.set(func() {
			if slices.Sort(read); strings.Join(read, " ") != "backup report" {
				t.Errorf("read %q", read)
			}
		})
		if body := strings.Join(b.desk.read(), ""); strings.Count(body, "no data of yesterday") != 1 {
			t.Errorf("the output is not in %s", body)
		}
	})
}
