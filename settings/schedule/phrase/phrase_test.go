package phrase_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
)

type natCase struct {
	ID, Kind, Phrase string
	Expect           json.RawMessage `json:"expect_cron"`
}

// expected gives the expressions of a case and the zone behind them.
func (c natCase) expected(t *testing.T) (crons []string, zone string) {
	t.Helper()
	var one string
	if err := json.Unmarshal(c.Expect, &one); err != nil {
		if err := json.Unmarshal(c.Expect, &crons); err != nil {
			t.Fatal(err)
		}
		return crons, ""
	}
	fields := strings.Fields(one)
	if last := fields[len(fields)-1]; len(fields) == 6 && strings.Trim(last, "0123456789*/,") != "" {
		fields, zone = fields[:5], last
	}
	return []string{strings.Join(fields, " ")}, zone
}

// deviations are the phrases that get another answer here than the case says, which answer, and why.
var deviations = map[string]struct{ cron, interval, refused, why string }{
	"nat-0023": {interval: "15s", why: "seconds are an interval"},
	"nat-0024": {interval: "15s", why: "seconds are an interval"},
	"nat-0089": {interval: "1s", why: "seconds are an interval"},
	"nat-0090": {interval: "1s", why: "seconds are an interval"},
	"nat-0105": {refused: "secs", why: "cron has no seconds, and an interval no marks"},
	"nat-0126": {refused: "second", why: "cron has no seconds, and an interval no start on the clock"},
	"nat-0042": {refused: "last", why: "the last day of a month is no field of cron"},
	"nat-0071": {cron: "0 0 * * *", why: "midnight is hour 0; cron has no hour 24"},
	"nat-0073": {cron: "15 0 * * *", why: "midnight is hour 0; cron has no hour 24"},
	"nat-0122": {cron: "0 12 25-31 * *", why: "the same days: L is no field of cron, and 31 is the end of every month"},
	"nat-0123": {cron: "0 0 25-31 * *", why: "the same days: L is no field of cron, and 31 is the end of every month"},
	"nat-0158": {interval: "336h", why: "what is no even step of cron is an interval"},
	"nat-0161": {interval: "27h", why: "what is no even step of cron is an interval"},
	"nat-0162": {interval: "90m", why: "what is no even step of cron is an interval"},
}

func TestPhrasesOfFugit(t *testing.T) {
	data, err := os.ReadFile("testdata/fugit.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []natCase }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) != 83 {
		t.Fatal(len(file.Cases), err)
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			got, err := phrase.Parse(c.Phrase)
			d, deviates := deviations[c.ID]
			switch {
			case d.refused != "" || c.Kind == "nat_reject" && !deviates:
				if err == nil || !strings.Contains(err.Error(), `"`+d.refused) {
					t.Errorf("%q: got %+v, %v; want it refused for %q", c.Phrase, got, err, d.refused)
				}
			case err != nil:
				t.Errorf("%q: %v", c.Phrase, err)
			case d.interval != "":
				if want, _ := time.ParseDuration(d.interval); got.Interval != want || got.Cron != nil {
					t.Errorf("%q: got %+v", c.Phrase, got)
				}
			case d.cron != "":
				compare(t, c.Phrase, got, []string{d.cron}, "")
			default:
				want, zone := c.expected(t)
				compare(t, c.Phrase, got, want, zone)
			}
		})
	}
}

// compare asks for the same masks, and for the same answer where clocks change.
func compare(t *testing.T, text string, got phrase.Timing, want []string, zone string) {
	t.Helper()
	masks := func(crons []string) (out []string) {
		for _, c := range crons {
			e, _, err := cron.Parse(c)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(e.Append(nil)))
		}
		slices.Sort(out)
		return out
	}
	if got.Zone != zone || got.Interval != 0 || !slices.Equal(masks(got.Cron), masks(want)) {
		t.Errorf("%q: got %+v, want %q in %q", text, got, want, zone)
	}
}

func TestPhrases(t *testing.T) {
	for text, want := range map[string][]string{
		"every monday at 9am":                           {"0 9 * * 1"},
		"every 15 minutes between 8am and 6pm":          {"*/15 8-17 * * *"},
		"first of the month at noon":                    {"0 12 1 * *"},
		"Every Monday At 9 AM":                          {"0 9 * * 1"},
		"every 15 minutes between 8:30am and 6:20pm":    {"30,45 8 * * *", "*/15 9-17 * * *", "0,15 18 * * *"},
		"every 20 minutes from 10pm to 2am":             {"*/20 22,23,0,1 * * *"},
		"every 10 minutes on weekdays":                  {"*/10 * * * 1-5"},
		"every hour on the hour":                        {"0 * * * *"},
		"every hour from 8:30am to 5pm":                 {"30 8-16 * * *"},
		"every 2 hours between 9am and 5pm on weekdays": {"0 9,11,13,15,17 * * 1-5"},
		"every 12 hours at minute 50":                   {"50 */12 * * *"},
		"every 6 hours starting at hour 3":              {"0 3/6 * * *"},
		"hourly":                                        {"0 * * * *"},
		"daily at 3:30":                                 {"30 3 * * *"},
		"weekly":                                        {"0 0 * * 0"},
		"weekly on friday at 18:00":                     {"0 18 * * 5"},
		"monthly":                                       {"0 0 1 * *"},
		"monthly on the 15th at 6am":                    {"0 6 15 * *"},
		"yearly":                                        {"0 0 1 1 *"},
		"every year on march 3rd at 8am":                {"0 8 3 3 *"},
		"every day in january and july at 12:30":        {"30 12 * 1,7 *"},
		"every day from march to may at midnight":       {"0 0 * 3-5 *"},
		"at midnight and noon":                          {"0 0,12 * * *"}, // no step: fixed times when clocks change
		"at minutes 0 and 30":                           {"0,30 * * * *"},
		"every other day at 4am":                        {"0 4 */2 * *"},
		"every 15 days at 4am":                          {"0 4 */15 * *"},
		"every hour from 9 to 9":                        {"0 9-21 * * *"},
		"every day at quarter to midnight":              {"45 23 * * *"},
		"every 60 minutes":                              {"0 * * * *"},
		"every 24 hours":                                {"0 0 * * *"},
		"on weekends at 10:15":                          {"15 10 * * 0,6"},
		"every sat-mon at 5 o'clock":                    {"0 5 * * 0,1,6"},
		"every day at nine":                             {"0 9 * * *"},
		"on the 1st, 10th and 20th at 23:59":            {"59 23 1,10,20 * *"},
		"each tuesday, thursday at 8am, 1pm and 5:45pm": {"0 8,13 * * 2,4", "45 17 * * 2,4"},
		"every 3 months on the 2nd at 1am":              {"0 1 2 */3 *"},
	} {
		got, err := phrase.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		compare(t, text, got, want, "")
	}
	for text, want := range map[string]time.Duration{
		"every 90 minutes": 90 * time.Minute, "every 27h": 27 * time.Hour, "every 2 weeks": 14 * 24 * time.Hour, "every 45 days": 45 * 24 * time.Hour,
		"every 30 seconds": 30 * time.Second, "every 7 minutes": 7 * time.Minute,
	} {
		if got, err := phrase.Parse(text); err != nil || got.Interval != want || got.Cron != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	got, err := phrase.Parse("every day at 5pm in Europe/London")
	if err != nil || got.Zone != "Europe/London" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheFirstWordNotUnderstoodIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `the phrase is empty; write it like "every monday at 9am"`,
		"nada":                 `column 1: "nada" is not understood; write it like "every monday at 9am"`,
		"every tuseday at 9am": `column 7: "tuseday" is not understood; the nearest phrase is "every tuesday at 9am"`,
		"on 25th december and 1st january at noon":    `column 26: other days and times begin at "january"; write two entries`,
		"evry monday at 9am":                          `column 1: "evry" is not understood; the nearest phrase is "every monday at 9am"`,
		"tomorow at 9am":                              `column 1: "tomorow" is not understood; the nearest phrase is "tomorrow at 9am"`,
		"tomorow at nooon":                            `column 1: "tomorow" is not understood; the nearest phrase is "tomorrow at noon"`,
		"every wenesday, fridy at 9am":                `column 7: "wenesday" is not understood; the nearest phrase is "every wednesday, friday at 9am"`,
		"evry wenesday":                               `column 1: "evry" is not understood; the nearest phrase is "every wednesday"`,
		"evry wenesday at at":                         `column 1: "evry" is not understood; did you mean "every"?`,
		"every Fnord at 9am":                          `column 7: "Fnord" is not understood; write it like "every monday at 9am"`,
		"every monday at 9am please":                  `column 21: "please" is not understood; write "every monday at 9am"`,
		"every monday at":                             `the phrase ends too early, after "at"`,
		"every":                                       `the phrase ends too early, after "every"`,
		"every monday and":                            `the phrase ends too early, after "and"`,
		"every monday at teatime":                     `column 17: "teatime" is not understood; write it like "every monday at 9am"`,
		"every day at 25:00":                          `column 14: "25:00" is not understood; write it like "every day except sunday at 9am"`,
		"every day at 13 pm":                          `column 14: "13" is not understood; write it like "every day except sunday at 9am"`,
		"every monday between 9 and 24":               `column 28: "24" is not understood; write it like "every 15 minutes between 8am and 6pm"`,
		"first monday of each quarter":                `column 14: "of" is not understood; write "first monday of january, april, july and october"`,
		"every hour in business hours":                `column 15: "business" is not understood; write "every hour on weekdays from 9am to 5pm"`,
		"at 7.30 every day":                           `column 4: "7.30" is not understood; write "at 7:30 every day"`,
		"end of month":                                `column 1: "end" is not understood; write "last day of the month at 23:30"`,
		"every fortnigt":                              `column 7: "fortnigt" is not understood; the nearest phrase is "every fortnight"`,
		"evry fortnight on monday":                    `column 1: "evry" is not understood; the nearest phrase is "every fortnight on monday"`,
		"evry 15m on mon-fri":                         `column 1: "evry" is not understood; the nearest phrase is "every 15m on mon-fri"`,
		"every evening at 9am":                        `column 18: the evening has no 9am; write a time with am or pm, noon or midnight`,
		"every evening at 9 am":                       `column 18: the evening has no 9; write a time with am or pm, noon or midnight`,
		"every evening between 8 and 12":              `column 29: the evening has no 12; write a time with am or pm, noon or midnight`,
		"at 12 in the evening":                        `column 4: the evening has no 12; write a time with am or pm, noon or midnight`,
		"every evening at 0:30":                       `column 18: the evening has no 0:30; write a time with am or pm, noon or midnight`,
		"every afternoon at 9am":                      `column 20: the afternoon has no 9am; write a time with am or pm, noon or midnight`,
		"every morning at 12":                         `column 18: the morning has no 12; write a time with am or pm, noon or midnight`,
		"every morning at 17:00":                      `column 18: the morning has no 17:00; write a time with am or pm, noon or midnight`,
		"every morning at 5pm":                        `column 18: the morning has no 5pm; write a time with am or pm, noon or midnight`,
		"every night at 3pm":                          `column 16: the night has no 3pm; write a time with am or pm, noon or midnight`,
		"every evening at noon":                       `column 18: the evening has no noon; write a time with am or pm, noon or midnight`,
		"every evening at midnight":                   `column 18: the evening has no midnight; write a time with am or pm, noon or midnight`,
		"every afternoon at 11":                       `column 20: the afternoon has no 11; write a time with am or pm, noon or midnight`,
		"at 9am every evening":                        `column 4: the evening has no 9am; write a time with am or pm, noon or midnight`,
		"at 11 every night":                           `column 4: the night has no 11; write a time with am or pm, noon or midnight`,
		"twice a day between 9 and 5":                 `column 1: 2 runs per day do not say when; name all 2`,
		"monday at 9am and friday at 5pm":             `column 19: other days and times begin at "friday"; write two entries`,
		"at 9am on monday and 5pm on friday":          `column 22: other days and times begin at "5pm"; write two entries`,
		"weekdays at 9am and weekends at 11am":        `column 21: other days and times begin at "weekends"; write two entries`,
		"the 1st at 3am and the 15th at 5am":          `column 24: other days and times begin at "15th"; write two entries`,
		"last day of the month at 3am and monday":     `column 34: other days and times begin at "monday"; write two entries`,
		"every day at 9am and on sunday at noon":      `column 35: other days and times begin at "noon"; write two entries`,
		"every monday and every second friday at 9am": `column 31: "friday" begins a second choice of weekdays`,
		"at 6 and 8 in the evening":                   `column 4: "6" has neither am nor pm, and a later time of the list has; write it with one of them`,
		"at 8 and 10 pm":                              `column 4: "8" has neither am nor pm, and a later time of the list has; write it with one of them`,
		"friday night at 2am":                         `a night of certain days has the first hours of the next day; write "friday at 2am" for these days, or name the days after them`,
		"monday at 12 at night":                       `a night of certain days has the first hours of the next day; write the day of the time, like "saturday at 2am"`,
		"thursday night between 1am and 4am":          `"between 1am and 4am" does not say how often; write "every hour between 1am and 4am", or the time of one run, with a splay`,
		"every evening":                               `the evening does not say at what time; name the time, or between which times`,
		"every hour in the evening":                   `the evening does not say at what time; name the time, or between which times`,
		"every 10 minutes at night":                   `the night does not say at what time; name the time, or between which times`,
		"3 times a day at 9":                          `column 1: 3 runs per day do not say when; name all 3`,
		"twice an hour at minute 5":                   `column 1: 2 runs per hour do not say when; name all 2`,
		"7 times an hour":                             `column 1: 7 runs per hour do not say when; name all 7`,
		"twice a week":                                `column 1: 2 runs per week do not say on which days; name all 2`,
		"twice a day 4 times an hour":                 `column 13: "4" begins a second count`,
		"tonight at 11":                               `column 1: "tonight" counts from a day that a file does not have; write the date like "on 3 January 2027 at 14:00"`,
		"each tuesday 14h":                            `column 14: "14h" is not understood; write "each tuesday 14:00"`,
		"twice weekly":                                `column 1: 2 runs per week do not say on which days; name all 2`,
		"every 4M":                                    `column 7: "4M" is not understood; write it like "every monday at 9am"`,
		"every 0 minutes":                             `every 0 minutes is not a period`,
		"UTC":                                         `it does not say when; write it like "every monday at 9am"`,
		"every monday to the last":                    `column 21: "last" is not understood; write it like "every monday at 9am"`,
		"every hour every minute":                     `"minute" is a second period; the first is every hour`,
		"every 90 minutes at noon":                    `every 90 minutes is an interval that does not follow the wall clock; only a zone may stand beside it`,
		"every 5 minutes at noon":                     `every minute and a time of day do not go together; say between which times`,
		"every monday 10pm to 6am":                    `a range of hours over midnight would end on another day; write two entries`,
		"in january from 10pm to 2am":                 `a range of hours over midnight would end on another day; write two entries`,
		"on 3 may 2027 and 4 may 2028":                `column 25: "2028" begins a second date with a year`,
		"on monday 3 May 2027 at 9am":                 `a date with a year is for one run; write it like "on 3 January 2027 at 14:00"`,
		"every 5 months":                              `every 5 months do not come at the same time each year; name the months`,
		"every 2 years":                               `every 2 years is too long; the longest period is a year`,
		"every day at minute 5":                       `every day needs a time of day, not a minute of the hour`,
		"every hour starting at day 3":                `a start at a certain day needs a period in days`,
		"between 8am and 8am":                         `the range of hours is empty: start and end are equal`,
		"on the 20th to the 3rd":                      `the range from "20th" runs backwards`,
		"every day UTC in Europe/London":              `"Europe/London" is a second zone`,
		"every day at 5 to 9":                         `column 14: "5 to 9" may be a time or a range; write "at 8:55", or "between" for a range`,
		"at 5 to 9pm":                                 `column 4: "5 to 9pm" may be a time or a range; write "at 20:55", or "between" for a range`,
		"daily between 1am and 5am":                   `"between 1am and 5am" does not say how often; write "every hour between 1am and 5am", or the time of one run, with a splay`,
		"on sundays between 2 and 4":                  `"between 2 and 4" does not say how often; write "every hour between 2 and 4", or the time of one run, with a splay`,
		"between 1 and 5pm":                           `column 9: "1" has neither am nor pm, and the end of its range has; write it with one of them`,
		"from 11 to 2am":                              `column 6: "11" has neither am nor pm, and the end of its range has; write it with one of them`,
		"9-17 every 10 minutes":                       `column 1: the numbers from 9 to 17 may be hours or dates; write "from 9 to 17", or "day 9 to 17"`,
		"every hour at 15":                            `a period of hours and a time of day do not go together; write "every hour at minute 15", or "every day at 15:00"`,
		"hourly at 8:15":                              `a period of hours and a time of day do not go together; write "every hour at minute 15", or "every day at 8:15"`,
		"every 4 hours at 8am":                        `a period of hours and a time of day do not go together; write "every 4 hours starting at 0:00", or "every day at 8:00"`,
		"every 15 minutes starting at 9am":            `a start at 9:00 does not say when the day's last run is; write "every 15 minutes between 9:00 and midnight"`,
		"every 4 hours starting at 10am":              `a start at 10:00 does not say when the day's last run is; write "every 4 hours between 10:00 and midnight"`,
		"starting at 1am":                             `a start needs one period; write it like "every 4 hours starting at 1am"`,
		"daily at 9 starting 2027-01-01":              `column 21: "2027-01-01" is not understood; the field not_before says when an entry begins`,
		"daily at 9 from monday":                      `column 12: this range has no end; the field not_before says when an entry begins`,
		"every 15 mins starting 9:05 to 9:55":         `column 29: "to" is not understood; write "every 15 mins from 9:05 to 9:55"`,
		"at half seven":                               `column 4: "half" is not understood; write the time in digits, like "at 7:30"`,
		"end of month at 11pm":                        `column 1: "end" is not understood; write "last day of the month at 11pm"`,
		"at the end of the month":                     `column 8: "end" is not understood; write "on the last day of the month at 23:30"`,
		"month-end":                                   `column 1: "month" is not understood; write "last day of the month at 23:30"`,
		"weeknights at 10":                            `column 1: "weeknights" is not understood; write "monday to friday night at 10"`,
		"on weeknights at 2am":                        `column 4: "weeknights" is not understood; write it like "every 3 months on the 2nd at 1am"`,
		"office hours":                                `column 1: "office" is not understood; write "weekdays from 9am to 5pm"`,
		"every 10 minutes during business hours":      `column 18: "during" is not understood; write "every 10 minutes on weekdays from 9am to 5pm"`,
		"bimonthly":                                   `column 1: "bimonthly" is not understood; write "every 2 months", or "on the 1st and 15th"`,
		"bi-monthly":                                  `column 1: "bi" is not understood; write "every 2 months", or "on the 1st and 15th"`,
		"semiweekly":                                  `column 1: "semiweekly" is not understood; name the days, like "on monday and thursday"`,
		"first monday and 3rd thursday":               `column 22: "thursday" begins a second choice of weekdays in a month; write two entries`,
		"nightly at 2 on weekdays":                    `a night of certain days has the first hours of the next day; write "at 2 on weekdays" for these days, or name the days after them`,
		"every night at 2am on weekdays":              `a night of certain days has the first hours of the next day; write "at 2am on weekdays" for these days, or name the days after them`,
		"every third weekday":                         `a date and a weekday together mean either of them; write two entries`,
		"mon..fri 10:00":                              `column 1: "mon..fri" is not understood; write "mon to fri 10:00"`,
		"Mon..Fri *-*-* 09:00:00":                     `column 1: "Mon..Fri" is not understood; a cron expression goes in the field cron`,
		"H/15 * * * *":                                `column 6: "*" is not understood; a cron expression goes in the field cron`,
		"rate(5 minutes)":                             `column 1: "rate(5" is not understood; write "every 5 minutes"`,
		"cron(0 12 * * ? *)":                          `column 1: "cron(0" is not understood; a cron expression goes in the field cron`,
		"@every 1h30m":                                `column 1: "@every" is not understood; write "every 1 h 30 m"`,
		"every hour and a half":                       `column 16: "a" is not understood; write "every 90 minutes"`,
		"run every day at 9":                          `column 1: "run" is not understood; write "every day at 9"`,
		"daily at 0300":                               `column 10: "0300" is not understood; write "daily at 03:00"`,
		"daily at 15h30":                              `column 10: "15h30" is not understood; write "daily at 15:30"`,
		"daily at 3h":                                 `column 10: "3h" is not understood; write "daily at 3:00"`,
		"daily at 3am PST":                            `column 14: "PST" is not understood; write a zone like "Europe/London"`,
		"daily at 03:00 UTC+2":                        `column 16: "UTC+2" is not understood; write a zone like "Europe/London"`,
		"at 24:00":                                    `column 4: "24:00" is not understood; midnight is 0:00 of the next day`,
		"on 25/12/2026 at noon":                       `column 4: "25/12/2026" is not understood; write a date like "on 3 January 2027"`,
		"monday/wednesday/friday at 9am":              `column 1: "monday/wednesday/friday" is not understood; write "monday and wednesday and friday at 9am"`,
		"every hour until 5pm":                        `column 12: "until" is not understood; say between which times, or when the entry ends in the field until`,
		"every hour after 6pm":                        `column 12: "after" is not understood; say between which times`,
		"on boot":                                     `column 4: "boot" is not understood; the field run_on_start says whether an entry runs when the peel starts`,
		"at 5 and 35 past the hour":                   `column 18: "the" is not understood; write it like "every hour at minute 5 and 35"`,
		"every hour at :75":                           `column 15: ":75" is not understood; write it like "every hour at minute 5 and 35"`,
		"overnight at 2am":                            `column 1: "overnight" is not understood; write "nightly at 2am"`,
		"first day of the quarter":                    `column 11: "of" is not understood; write "first day of january, april, july and october"`,
		"daily except holidays":                       `column 14: "holidays" is not understood; the field not_on leaves days out`,
		"twice a month":                               `column 1: 2 runs per month do not say on which days; name all 2`,
		"3 times a week on monday":                    `column 1: 3 runs per week do not say on which days; name all 3`,
		"twice quarterly":                             `column 1: "twice" is not understood; write it like "twice a day"`,
		"twice nightly":                               `column 1: "twice" is not understood; write it like "twice a day"`,
		"every 10 minutes past the hour":              `column 18: "past" is not understood; write it like "every 15 minutes between 8am and 6pm"`,
		"ten":                                         `column 1: "ten" is not understood; write it like "every monday at 9am"`,
		"any day at 9 in Europe/London":               `column 1: "any" is not understood; write "every day at 9 in Europe/London"`,
		"at nightly":                                  `column 4: "nightly" is not understood; write it like "every monday at 9am"`,
		strings.Repeat("x", 201):                      `the phrase has 201 characters; the most are 200`,
	} {
		if got, err := phrase.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/fugit.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct{ Cases []natCase }
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(c.Phrase)
	}
	for _, s := range []string{"every 15 minutes between 8:30am and 6:20pm", "monday to the last", "every sat-mon,wed at 5 o'clock or 11 pm UTC", "on the 1st to 31st in jan", "in 2 hours", "every night between 10 and 4", "twice a day at 8 and 20:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := phrase.Parse(text)
		if err != nil {
			return
		}
		timings := 0
		for _, has := range []bool{len(got.Cron) > 0, got.Interval > 0, got.After > 0} {
			if has {
				timings++
			}
		}
		if timings != 1 {
			t.Fatalf("%q: %+v", text, got)
		}
		for _, c := range got.Cron {
			if _, _, err := cron.Parse(c); err != nil && !strings.Contains(err.Error(), "never fires") {
				t.Errorf("%q: %v", text, err)
			}
		}
		again, err := phrase.Parse(strings.ToUpper(text))
		if err == nil && (!slices.Equal(got.Cron, again.Cron) || got.Interval != again.Interval) {
			t.Errorf("%q: in capitals %+v, not %+v", text, again, got)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := phrase.Parse("every 15 minutes between 8am and 6pm on weekdays"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheNextWeekdayIsNotToday(t *testing.T) {
	t.Parallel()
	friday := time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"next friday at 9am":   "on 8 January 2027 at 9am",
		"next saturday at 9am": "on 2 January 2027 at 9am",
		"next thursday at 9am": "on 7 January 2027 at 9am",
	} {
		if got := phrase.Dated(text, friday); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestAPhraseThatExceptsAllItsDays(t *testing.T) {
	t.Parallel()
	if got, err := phrase.Parse("every monday except monday at 9am"); err == nil {
		t.Errorf("it is %v", got)
	}
}
