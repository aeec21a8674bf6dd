package join_test

import "testing"

// What fires of a wrong clock answer, and what they do not.
func TestAFireOfAnotherClock(t *testing.T) {
	for _, s := range []scene{
		{
			name: "a run by a clock that was set back over it counts, although its time is to come", fields: quarter,
			marks: "starts 00:00, clock 11:00:30 10:59", made: "10:59:30",
			fires: "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
			want:  "10:15 ran, 10:30 ran, 10:45 ran, 11:00 ran",
		},
		{
			name:   "a run by need counts alone, at its true time",
			fields: fields{"needs": fields{"entry": "a", "on": "done"}},
			marks:  "starts 00:00, clock 10:20 15:20, clock 15:40 10:40",
			needed: "10:15 ran, era 2, 15:30 ran, era 3, 10:45 ran",
			fires:  "10:15 needs ran, era 2, 15:30 needs failed, era 3, 10:45 needs ran",
			want:   "10:15 ran, 10:30 failed, 10:45 ran",
		},
		{
			name: "the numbers of an hour are of no hour", fields: quarter, begins: "09:00",
			marks: "starts 00:00, clock 10:20 09:20, clock 09:40 10:40",
			fires: "09:15 ran, 09:30 ran, 09:45 ran, 10:00 ran, 10:15 ran, era 2, 09:00 hour 200 ran, era 3, 10:45 ran, 11:00 ran",
			want:  "09:15 ran, 09:30 ran, 09:45 ran, 10:00 ran, 10:15 ran, 10:30 unknown clock, 10:45 ran, 11:00 ran",
		},
		{
			name:  "without a plan, what was missed by a wrong clock is nothing",
			marks: "starts 00:00, clock 10:20 05:20, clock 05:40 10:40",
			fires: "10:15 ran, era 2, 05:30 missed deadline_exceeded, era 3, 10:45 ran",
			want:  "10:15 ran, 10:45 ran",
		},
		{
			name: "of two runs the one by the right clock answers", fields: quarter, era: 2, begins: "10:30",
			marks: "starts 11:00, clock 12:10 10:10",
			fires: "11:00 ran late, era 2, 10:45 ran, 11:00 ran",
			want:  "10:45 ran, 11:00 ran, 11:00 unexpected repeated",
		},
	} {
		t.Run(s.name, s.run)
	}
}
