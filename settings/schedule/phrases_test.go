package schedule_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// TestPhrasesFire has shapes of phrases with their first two times after Saturday 28 November 2026, 10:00 UTC. A phrase
// for one run has one time.
func TestPhrasesFire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct{ text, first, second string }{
		{"on 3 January 2027 at 14:00", "Sun 2027-01-03 14:00", ""},
		{"on January 3, 2027 at 2pm", "Sun 2027-01-03 14:00", ""},
		{"on jan 3rd 2027 at noon", "Sun 2027-01-03 12:00", ""},
		{"2027-01-03 at 14:00", "Sun 2027-01-03 14:00", ""},
		{"on 2027-01-03", "Sun 2027-01-03 00:00", ""},
		{"at 14:00 on 3 January 2027", "Sun 2027-01-03 14:00", ""},
		{"once on 3 January 2027 at 9am", "Sun 2027-01-03 09:00", ""},
		{"on 3 January 2027 at 9am and 5pm", "Sun 2027-01-03 09:00", "Sun 2027-01-03 17:00"},
		{"on the 3rd January 2027 at 9am", "Sun 2027-01-03 09:00", ""},
		{"in 2 hours", "Sat 2026-11-28 12:00", ""},
		{"in 90 minutes", "Sat 2026-11-28 11:30", ""},
		{"in half an hour", "Sat 2026-11-28 10:30", ""},
		{"in an hour", "Sat 2026-11-28 11:00", ""},
		{"in 3 days", "Tue 2026-12-01 10:00", ""},
		{"in 1 hour and 30 minutes", "Sat 2026-11-28 11:30", ""},
		{"in 2 weeks", "Sat 2026-12-12 10:00", ""},
		{"tomorrow at 9am", "Sun 2026-11-29 09:00", ""},
		{"tomorrow", "Sun 2026-11-29 00:00", ""},
		{"today at 18:00", "Sat 2026-11-28 18:00", ""},
		{"next friday at 10am", "Fri 2026-12-04 10:00", ""},
		{"on next monday at noon", "Mon 2026-11-30 12:00", ""},
		{"in 3 days at 9am", "Tue 2026-12-01 09:00", ""},
		{"the day after tomorrow at noon", "Mon 2026-11-30 12:00", ""},
		{"last friday of the month", "Fri 2026-12-25 00:00", "Fri 2027-01-29 00:00"},
		{"last friday of the month at 17:00", "Fri 2026-12-25 17:00", "Fri 2027-01-29 17:00"},
		{"first monday of the month at 9am", "Mon 2026-12-07 09:00", "Mon 2027-01-04 09:00"},
		{"the second tuesday of each month at 3:30am", "Tue 2026-12-08 03:30", "Tue 2027-01-12 03:30"},
		{"third thursday in november", "Thu 2027-11-18 00:00", "Thu 2028-11-16 00:00"},
		{"first and third monday of the month at 8am", "Mon 2026-12-07 08:00", "Mon 2026-12-21 08:00"},
		{"last sunday of march at 1am", "Sun 2027-03-28 01:00", "Sun 2028-03-26 01:00"},
		{"1st friday of january and july at noon", "Fri 2027-01-01 12:00", "Fri 2027-07-02 12:00"},
		{"fifth wednesday of the month at 6am", "Wed 2026-12-30 06:00", "Wed 2027-03-31 06:00"},
		{"last day of the month at 23:30", "Mon 2026-11-30 23:30", "Thu 2026-12-31 23:30"},
		{"on the last day of every month", "Mon 2026-11-30 00:00", "Thu 2026-12-31 00:00"},
		{"last day of february at noon", "Sun 2027-02-28 12:00", "Tue 2028-02-29 12:00"},
		{"every other tuesday", "Tue 2026-12-08 00:00", "Tue 2026-12-22 00:00"},
		{"every other monday at 8am", "Mon 2026-12-07 08:00", "Mon 2026-12-21 08:00"},
		{"every second friday at 8am", "Fri 2026-12-11 08:00", "Fri 2026-12-25 08:00"},
		{"every second tuesday of the month at 8am", "Tue 2026-12-08 08:00", "Tue 2027-01-12 08:00"},
		{"every 2 weeks on tuesday at 9am", "Tue 2026-12-08 09:00", "Tue 2026-12-22 09:00"},
		{"biweekly on monday at 7am", "Mon 2026-12-07 07:00", "Mon 2026-12-21 07:00"},
		{"every other week on friday at 18:00", "Fri 2026-12-11 18:00", "Fri 2026-12-25 18:00"},
		{"twice a day", "Sat 2026-11-28 12:00", "Sun 2026-11-29 00:00"},
		{"three times a day", "Sat 2026-11-28 16:00", "Sun 2026-11-29 00:00"},
		{"4 times a day", "Sat 2026-11-28 12:00", "Sat 2026-11-28 18:00"},
		{"once a day at 6am", "Sun 2026-11-29 06:00", "Mon 2026-11-30 06:00"},
		{"once a week on sunday", "Sun 2026-11-29 00:00", "Sun 2026-12-06 00:00"},
		{"once a month at 4am", "Tue 2026-12-01 04:00", "Fri 2027-01-01 04:00"},
		{"twice an hour", "Sat 2026-11-28 10:30", "Sat 2026-11-28 11:00"},
		{"four times an hour", "Sat 2026-11-28 10:15", "Sat 2026-11-28 10:30"},
		{"once an hour", "Sat 2026-11-28 11:00", "Sat 2026-11-28 12:00"},
		{"quarterly at 6am", "Fri 2027-01-01 06:00", "Thu 2027-04-01 06:00"},
		{"every quarter at 6am", "Fri 2027-01-01 06:00", "Thu 2027-04-01 06:00"},
		{"every half hour", "Sat 2026-11-28 10:30", "Sat 2026-11-28 11:00"},
		{"every quarter of an hour", "Sat 2026-11-28 10:15", "Sat 2026-11-28 10:30"},
		{"every quarter hour on sundays", "Sun 2026-11-29 00:00", "Sun 2026-11-29 00:15"},
		{"nightly at 2am", "Sun 2026-11-29 02:00", "Mon 2026-11-30 02:00"},
		{"every night at 2am", "Sun 2026-11-29 02:00", "Mon 2026-11-30 02:00"},
		{"every morning at 7", "Sun 2026-11-29 07:00", "Mon 2026-11-30 07:00"},
		{"every evening at 8", "Sat 2026-11-28 20:00", "Sun 2026-11-29 20:00"},
		{"at 9 in the morning on mondays", "Mon 2026-11-30 09:00", "Mon 2026-12-07 09:00"},
		{"every day at 6 in the evening", "Sat 2026-11-28 18:00", "Sun 2026-11-29 18:00"},
		{"at half past nine on weekdays", "Mon 2026-11-30 09:30", "Tue 2026-12-01 09:30"},
		{"every day at quarter to six pm", "Sat 2026-11-28 17:45", "Sun 2026-11-29 17:45"},
		{"quarter past 8 every day", "Sun 2026-11-29 08:15", "Mon 2026-11-30 08:15"},
		{"every 15 minutes on weekdays between 9 and 5", "Mon 2026-11-30 09:00", "Mon 2026-11-30 09:15"},
		{"every hour from 9 to 5", "Sat 2026-11-28 11:00", "Sat 2026-11-28 12:00"},
		{"every 30 minutes from 10 to 6 on saturdays", "Sat 2026-11-28 10:30", "Sat 2026-11-28 11:00"},
		{"every day except sunday at 9am", "Mon 2026-11-30 09:00", "Tue 2026-12-01 09:00"},
		{"every weekday except friday at 6pm", "Mon 2026-11-30 18:00", "Tue 2026-12-01 18:00"},
		{"every month except august on the 1st at 9am", "Tue 2026-12-01 09:00", "Fri 2027-01-01 09:00"},
		{"every hour but not on weekends", "Mon 2026-11-30 00:00", "Mon 2026-11-30 01:00"},
		{"every day except december at noon", "Sat 2026-11-28 12:00", "Sun 2026-11-29 12:00"},
		{"on workdays at 7:15", "Mon 2026-11-30 07:15", "Tue 2026-12-01 07:15"},
		{"every january 1st at 00:05", "Fri 2027-01-01 00:05", "Sat 2028-01-01 00:05"},
		{"every 5th of the month at 3am", "Sat 2026-12-05 03:00", "Tue 2027-01-05 03:00"},
		{"25 december at noon", "Fri 2026-12-25 12:00", "Sat 2027-12-25 12:00"},
		{"noon on sundays", "Sun 2026-11-29 12:00", "Sun 2026-12-06 12:00"},
		{"every minute on sundays between 2am and 3am", "Sun 2026-11-29 02:00", "Sun 2026-11-29 02:01"},
		// what people write, tried all at once
		{"every weekday at 8:30", "Mon 2026-11-30 08:30", "Tue 2026-12-01 08:30"},
		{"noon on fridays", "Fri 2026-12-04 12:00", "Fri 2026-12-11 12:00"},
		{"on the 15th and 30th", "Mon 2026-11-30 00:00", "Tue 2026-12-15 00:00"},
		{"hourly between 9 and 17", "Sat 2026-11-28 11:00", "Sat 2026-11-28 12:00"},
		{"at midnight UTC", "Sun 2026-11-29 00:00", "Mon 2026-11-30 00:00"},
		{"every monday through friday at noon", "Mon 2026-11-30 12:00", "Tue 2026-12-01 12:00"},
		{"mondays and thursdays at 7", "Mon 2026-11-30 07:00", "Thu 2026-12-03 07:00"},
		{"every evening at 18:30", "Sat 2026-11-28 18:30", "Sun 2026-11-29 18:30"},
		{"every hour every evening between 8 and midnight", "Sat 2026-11-28 20:00", "Sat 2026-11-28 21:00"},
		{"every afternoon at 12", "Sat 2026-11-28 12:00", "Sun 2026-11-29 12:00"},
		{"every morning at 0:30", "Sun 2026-11-29 00:30", "Mon 2026-11-30 00:30"},
		{"every morning at 12am", "Sun 2026-11-29 00:00", "Mon 2026-11-30 00:00"},
		{"every night at 11", "Sat 2026-11-28 23:00", "Sun 2026-11-29 23:00"},
		{"every night at 12:15", "Sun 2026-11-29 00:15", "Mon 2026-11-30 00:15"},
		{"nightly at 10:30", "Sat 2026-11-28 22:30", "Sun 2026-11-29 22:30"},
		{"nightly at 5", "Sun 2026-11-29 05:00", "Mon 2026-11-30 05:00"},
		{"nightly at 6", "Sat 2026-11-28 18:00", "Sun 2026-11-29 18:00"},
		{"nightly", "Sun 2026-11-29 00:00", "Mon 2026-11-30 00:00"},
		{"monday at 9 at night", "Mon 2026-11-30 21:00", "Mon 2026-12-07 21:00"},
		{"every 20 minutes between 10 at night and 2 in the morning", "Sat 2026-11-28 22:00", "Sat 2026-11-28 22:20"},
		{"tonight at 11", "Sat 2026-11-28 23:00", ""},
		{"tonight at 23:30", "Sat 2026-11-28 23:30", ""},
		{"friday night at 10", "Fri 2026-12-04 22:00", "Fri 2026-12-11 22:00"},
		{"at 08:00 and 8pm", "Sat 2026-11-28 20:00", "Sun 2026-11-29 08:00"},
		{"at 8pm every evening", "Sat 2026-11-28 20:00", "Sun 2026-11-29 20:00"},
		{"at night, daily at 11", "Sat 2026-11-28 23:00", "Sun 2026-11-29 23:00"},
		{"every evening at quarter to 12", "Sat 2026-11-28 23:45", "Sun 2026-11-29 23:45"},
		{"at quarter to 12 in the morning on mondays", "Mon 2026-11-30 11:45", "Mon 2026-12-07 11:45"},
		{"once a fortnight on friday", "Fri 2026-12-11 00:00", "Fri 2026-12-25 00:00"},
		{"twice daily at 8am and 8pm", "Sat 2026-11-28 20:00", "Sun 2026-11-29 08:00"},
		{"at 8am and 8pm twice a day", "Sat 2026-11-28 20:00", "Sun 2026-11-29 08:00"},
		{"twice an hour at minute 5 and 35", "Sat 2026-11-28 10:05", "Sat 2026-11-28 10:35"},
		{"every fortnight", "Sat 2026-12-12 10:00", "Sat 2026-12-26 10:00"},
		{"every fortnight on monday at 9", "Mon 2026-12-07 09:00", "Mon 2026-12-21 09:00"},
		{"twice daily", "Sat 2026-11-28 12:00", "Sun 2026-11-29 00:00"},
		{"4 times daily on mondays", "Mon 2026-11-30 00:00", "Mon 2026-11-30 06:00"},
		{"every second day of the month at 4", "Wed 2026-12-02 04:00", "Sat 2027-01-02 04:00"},
		{"every second day at 4", "Sun 2026-11-29 04:00", "Tue 2026-12-01 04:00"},
		{"every 3rd day at 4am", "Tue 2026-12-01 04:00", "Fri 2026-12-04 04:00"},
		{"every third hour", "Sat 2026-11-28 12:00", "Sat 2026-11-28 15:00"},
		{"every second minute", "Sat 2026-11-28 10:02", "Sat 2026-11-28 10:04"},
		{"every first of the month", "Tue 2026-12-01 00:00", "Fri 2027-01-01 00:00"},
		{"yearly on 1 january", "Fri 2027-01-01 00:00", "Sat 2028-01-01 00:00"},
		{"every 1st and 3rd wednesday at 22:00", "Wed 2026-12-02 22:00", "Wed 2026-12-16 22:00"},
		{"on the hour", "Sat 2026-11-28 11:00", "Sat 2026-11-28 12:00"},
		{"every saturday and sunday at 10am and 10pm", "Sat 2026-11-28 22:00", "Sun 2026-11-29 10:00"},
		{"daily at 7:15 am Europe/Berlin", "Sun 2026-11-29 06:15", "Mon 2026-11-30 06:15"},
		{"workdays 8am", "Mon 2026-11-30 08:00", "Tue 2026-12-01 08:00"},
		{"every 10 minutes between 22:00 and 6:00", "Sat 2026-11-28 22:00", "Sat 2026-11-28 22:10"},
		{"at 08:00 and 20:00 daily", "Sat 2026-11-28 20:00", "Sun 2026-11-29 08:00"},
		{"in january and july on the 2nd at noon", "Sat 2027-01-02 12:00", "Fri 2027-07-02 12:00"},
		{"on december 24 at 6pm", "Thu 2026-12-24 18:00", "Fri 2027-12-24 18:00"},
		{"the 31st of every month", "Thu 2026-12-31 00:00", "Sun 2027-01-31 00:00"},
		{"at 9 o'clock every monday", "Mon 2026-11-30 09:00", "Mon 2026-12-07 09:00"},
		{"mon-fri 9:00-17:00 every 20 minutes", "Mon 2026-11-30 09:00", "Mon 2026-11-30 09:20"},
		{"first day of each month at 4:00", "Tue 2026-12-01 04:00", "Fri 2027-01-01 04:00"},
		{"every six hours", "Sat 2026-11-28 12:00", "Sat 2026-11-28 18:00"},
		{"5 past every hour", "Sat 2026-11-28 10:05", "Sat 2026-11-28 11:05"},
		{"5 minutes past the hour", "Sat 2026-11-28 10:05", "Sat 2026-11-28 11:05"},
		{"half past every hour", "Sat 2026-11-28 10:30", "Sat 2026-11-28 11:30"},
		{"quarter to every hour", "Sat 2026-11-28 10:45", "Sat 2026-11-28 11:45"},
		{"5 minutes before the hour", "Sat 2026-11-28 10:55", "Sat 2026-11-28 11:55"},
		{"every hour at 5 past", "Sat 2026-11-28 10:05", "Sat 2026-11-28 11:05"},
		{"every 2 hours at half past", "Sat 2026-11-28 10:30", "Sat 2026-11-28 12:30"},
		{"every hour at :15", "Sat 2026-11-28 10:15", "Sat 2026-11-28 11:15"},
		{"hourly at :15 and :45", "Sat 2026-11-28 10:15", "Sat 2026-11-28 10:45"},
		{"every hour on the half hour", "Sat 2026-11-28 10:30", "Sat 2026-11-28 11:30"},
		{"at twenty to nine", "Sun 2026-11-29 08:40", "Mon 2026-11-30 08:40"},
		{"every day at 10 past 8", "Sun 2026-11-29 08:10", "Mon 2026-11-30 08:10"},
		{"ten minutes past eight on sundays", "Sun 2026-11-29 08:10", "Sun 2026-12-06 08:10"},
		{"at nine thirty", "Sun 2026-11-29 09:30", "Mon 2026-11-30 09:30"},
		{"at nine fifteen pm on weekdays", "Mon 2026-11-30 21:15", "Tue 2026-12-01 21:15"},
		{"daily starting at 1am", "Sun 2026-11-29 01:00", "Mon 2026-11-30 01:00"},
		{"every monday starting at 9am", "Mon 2026-11-30 09:00", "Mon 2026-12-07 09:00"},
		{"every 4 hours starting at 1am", "Sat 2026-11-28 13:00", "Sat 2026-11-28 17:00"},
		{"every 6 hours starting at 2:30", "Sat 2026-11-28 14:30", "Sat 2026-11-28 20:30"},
		{"every 6 hours starting at 2", "Sat 2026-11-28 14:00", "Sat 2026-11-28 20:00"},
		{"first working day", "Tue 2026-12-01 00:00", "Fri 2027-01-01 00:00"},
		{"first weekday of the month at 9am", "Tue 2026-12-01 09:00", "Fri 2027-01-01 09:00"},
		{"last business day of the month at 18:00", "Mon 2026-11-30 18:00", "Thu 2026-12-31 18:00"},
		{"last weekday of december", "Thu 2026-12-31 00:00", "Fri 2027-12-31 00:00"},
		{"5th working day of each month at 9am", "Mon 2026-12-07 09:00", "Thu 2027-01-07 09:00"},
		{"every 8th working day of the month", "Thu 2026-12-10 00:00", "Tue 2027-01-12 00:00"},
		{"every working day at 7", "Mon 2026-11-30 07:00", "Tue 2026-12-01 07:00"},
		{"weekdays 9-17", "Mon 2026-11-30 09:00", "Mon 2026-11-30 10:00"},
		{"weekdays 9-5 every 30 minutes", "Mon 2026-11-30 09:00", "Mon 2026-11-30 09:30"},
		{"twice a week on monday and thursday at 9am", "Mon 2026-11-30 09:00", "Thu 2026-12-03 09:00"},
		{"twice monthly on the 1st and 15th", "Tue 2026-12-01 00:00", "Tue 2026-12-15 00:00"},
		{"twice a month on the first and third monday", "Mon 2026-12-07 00:00", "Mon 2026-12-21 00:00"},
		{"every 1h30m", "Sat 2026-11-28 11:30", "Sat 2026-11-28 13:00"},
		{"every 1 hour and 30 minutes", "Sat 2026-11-28 11:30", "Sat 2026-11-28 13:00"},
		{"every 2 hours and 20 minutes past", "Sat 2026-11-28 10:20", "Sat 2026-11-28 12:20"},
		{"every weekday of march at 6am", "Mon 2027-03-01 06:00", "Tue 2027-03-02 06:00"},
		{"every 1st of jan, apr, jul, oct at 6am", "Fri 2027-01-01 06:00", "Thu 2027-04-01 06:00"},
		{"every second of january", "Sat 2027-01-02 00:00", "Sun 2028-01-02 00:00"},
		{"first day of january at noon", "Fri 2027-01-01 12:00", "Sat 2028-01-01 12:00"},
		{"every first day in january", "Fri 2027-01-01 00:00", "Sat 2028-01-01 00:00"},
		{"every 10 minutes on weekdays between 6pm and midnight", "Mon 2026-11-30 18:00", "Mon 2026-11-30 18:10"},
		{"every 15 minutes between 8am and 5pm", "Sat 2026-11-28 10:15", "Sat 2026-11-28 10:30"},
		{"every hour from 8 to 5pm", "Sat 2026-11-28 11:00", "Sat 2026-11-28 12:00"},
		{"every fifteen minutes on sundays", "Sun 2026-11-29 00:00", "Sun 2026-11-29 00:15"},
		{"on the 5th of sept", "Sun 2027-09-05 00:00", "Tue 2028-09-05 00:00"},
		{"2nd,third mon,wed,thu of march 17:00", "Mon 2027-03-08 17:00", "Wed 2027-03-10 17:00"},
		{"every 5 minutes from 10:00 to 14:00", "Sat 2026-11-28 10:05", "Sat 2026-11-28 10:10"},
		{"every hour on weekdays from 6pm to 11pm", "Mon 2026-11-30 18:00", "Mon 2026-11-30 19:00"},
		{"1am", "Sun 2026-11-29 01:00", "Mon 2026-11-30 01:00"},
		{"last friday of the month at 17:00 in Europe/London", "Fri 2026-12-25 17:00", "Fri 2027-01-29 17:00"},
	} {
		doc, err := strictyaml.Parse("f", []byte("e: {module: test.ping, when: "+strconv.Quote(phrase.Dated(c.text, now))+"}"))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := schedule.ParseEntry("e", doc.Get("e"))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		timing, err := entry.Timing(time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		timing = timing.Seen(now)
		var got [2]string
		at := now
		for i := range got {
			next, ok := timing.Next(at)
			if !ok {
				break
			}
			got[i] = next.UTC().Format("Mon 2006-01-02 15:04")
			at = next
		}
		if got != [2]string{c.first, c.second} {
			t.Errorf("%q fires at %q, want %q and %q", c.text, got, c.first, c.second)
		}
	}
}
