package alert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The text of an alert ends with the commit that explains it, in the words of package cause.
func TestAnAlertNamesTheCommit(t *testing.T) {
	inBubble(t, func(b *bench) {
		asked := map[string]int{}
		b.cause = func(kind verdict.Kind, entry string) cause.Finding {
			asked[fmt.Sprint(kind, " ", entry)]++
			switch entry {
			case "":
				return cause.Finding{Word: cause.None, Text: "common; no commit explains it", Common: "all 3 silent peels are in site:berlin"}
			case "backup":
				return cause.Finding{Word: cause.Likely, Commit: "9b1c8f0e", Text: "likely commit 9b1c8f0e by Ada: 7 of 7 runs failed with it, 0 of 89 without"}
			case "long":
				return cause.Finding{Word: cause.None, Commit: "4f2a9c1d", Text: "no commit explains it: 4 of 5 peels with 4f2a9c1d are well"}
			}
			return cause.Finding{Word: cause.None, Text: "no commit explains it: none is known that reached the peels before"}
		}
		b.start("m1")
		long := verdict.Problem{Kind: verdict.Failed, Entry: "long", Peel: "db-1", Text: strings.Repeat("x", 300)}
		paused := verdict.Problem{Kind: verdict.Paused, Entry: "held", Peel: "db-1", Text: "3 failures in a row"}
		bare := verdict.Problem{Kind: verdict.Failed, Entry: "bare", Peel: "db-1", Text: "exit status 1"}
		away := verdict.Problem{Kind: verdict.NotReporting, Peel: "db-3", Text: "it is offline"}
		b.trouble(append(failed("backup", "db-1", "db-2"), long, paused, bare, away)...)
		b.after(62 * time.Second)
		texts := map[string]string{}
		for _, a := range b.list().Alerts {
			texts[a.Subject] = a.Text
		}
		for entry, want := range map[string]string{
			"backup": "exit code 3; likely commit 9b1c8f0e by Ada: 7 of 7 runs failed with it, 0 of 89 without",
			"bare":   "exit status 1",

			"not_reporting": "it is offline; all 3 silent peels are in site:berlin",
		} {
			if texts[entry] != want {
				t.Errorf("%s: %s, want %s", entry, texts[entry], want)
			}
		}
		if text := texts["long"]; !strings.HasPrefix(text, "xxx") || !strings.HasSuffix(text, "; no commit explains it: 4 of 5 peels with 4f2a9c1d are well") {
			t.Errorf("long: %s", text)
		}
		if asked["failed backup"] == 0 || asked["failed backup"] > 3 || asked["paused held"] > 0 {
			t.Errorf("asked %v within a minute", asked)
		}
		b.desk.take()
	})
}

// Twelve entries fail at once: at most five causes are computed in a step, and in the end all have one.
func TestManyCausesAreFoundOneAfterTheOther(t *testing.T) {
	inBubble(t, func(b *bench) {
		steps := map[time.Time]int{}
		b.cause = func(_ verdict.Kind, entry string) cause.Finding {
			steps[time.Now()]++
			return cause.Finding{Word: cause.Possible, Commit: "9b1c8f0e", Text: "possibly commit 9b1c8f0e, of " + entry}
		}
		b.start("m1")
		var all []verdict.Problem
		for i := range 12 {
			all = append(all, failed(fmt.Sprintf("e%02d", i), target.PeelID(fmt.Sprint("db-", i%2)))...)
		}
		b.trouble(all...)
		b.after(32 * time.Second)
		for at, n := range steps {
			if n > 5 {
				t.Errorf("%d causes at %s", n, at)
			}
		}
		alerts := b.list().Alerts
		for _, a := range alerts {
			if !strings.HasSuffix(a.Text, "possibly commit 9b1c8f0e, of "+a.Subject) {
				t.Errorf("%s: %s", a.Subject, a.Text)
			}
		}
		if len(alerts) != 12 {
			t.Errorf("%d alerts", len(alerts))
		}
		b.desk.take()
	})
}
