package cron

import (
	"strings"
	"testing"
)

func TestExpressionsInEnglish(t *testing.T) {
	for text, want := range map[string]string{
		"* * * * *":          "every minute",
		"*/15 * * * *":       "every 15 minutes",
		"*/7 * * * *":        "every 7 minutes from minute 0 on",
		"*/10 */2 * * *":     "every 10 minutes in every 2 hours",
		"* 8-16 * * *":       "every minute in the hours 8 to 16",
		"*/5 3 * * *":        "every 5 minutes in the hour 3",
		"0 * * * *":          "every hour at minute 0",
		"0,30 * * * *":       "every hour at minutes 0 and 30",
		"0 */4 * * *":        "every 4 hours at minute 0",
		"30 2 * * *":         "every day at 02:30",
		"0 9,17 * * *":       "every day at 09:00 and 17:00",
		"0 9 * * mon-fri":    "at 09:00 on Monday to Friday",
		"0 9 * * sat,sun":    "at 09:00 on Sunday and Saturday",
		"0 9 1 * *":          "at 09:00 on day 1 of the month",
		"0 9 1,15 1,7 *":     "at 09:00 on days 1 and 15 of the month in January and July",
		"0 9 * 6-8 *":        "at 09:00 in June to August",
		"0 9 13 * 5":         "at 09:00 on day 13 of the month or on Friday",
		"0 9 */2 * 1":        "at 09:00 on Monday if it is days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month",
		"0,15,30 8-17 * * *": "every day at minutes 0, 15 and 30 of the hours 8 to 17",
		"0 0 1-31 * 1":       "at 00:00 on days 1 to 31 of the month or on Monday",
		"@weekly":            "at 00:00 on Sunday",
		"@Yearly":            "at 00:00 on day 1 of the month in January",
		"0-59 5 * * *":       "every day at minutes 0 to 59 of the hour 5",
	} {
		e, _, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.English(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := (Expr{}).English(); got != "never" {
		t.Errorf("nothing: %s", got)
	}
	for _, c := range loadCases(t) {
		if e, _, err := Parse(c.text()); err == nil && (e.English() == "" || strings.Contains(e.English(), "  ")) {
			t.Errorf("%q: %q", c.text(), e.English())
		}
	}
}
