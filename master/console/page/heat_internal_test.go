package page

import (
	"testing"
	"time"
)

func TestTheLoadIsATableOfDays(t *testing.T) {
	runs := make([]float64, 7*24)
	for i := range runs {
		runs[i] = 60_000
	}
	runs[0], runs[1], runs[12] = 0, 50, 94_000
	h := heatOf(noon, runs)
	if h.Unit != 1000 || len(h.Days) != 8 || len(h.Columns) != 24 {
		t.Fatalf("%+v", h)
	}
	for _, c := range []struct {
		day, hour   int
		class, text string
	}{
		{0, 11, "hx", ""},
		{0, 12, "h0", "0"},
		{0, 13, "h1", "<.1"},
		{0, 14, "h4", "60"},
		{1, 0, "h7", "94"},
		{7, 11, "h4", "60"},
		{7, 12, "hx", ""},
	} {
		cell := h.Days[c.day].Cells[c.hour]
		if cell.Class() != c.class || cell.Text != c.text {
			t.Errorf("%s %02d: %s %q, want %s %q", h.Days[c.day].Name, c.hour, cell.Class(), cell.Text, c.class, c.text)
		}
	}
}

// Where a clock is set back, two hours have one name.
func TestTheLoadOfADayOf25Hours(t *testing.T) {
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	h := heatOf(time.Date(2026, 10, 25, 0, 0, 0, 0, london), []float64{1, 2, 3, 4, 5})
	cells := h.Days[0].Cells
	if len(h.Days) != 1 || cells[1].Text != "5" || cells[2].Text != "4" || cells[4].Level != -1 {
		t.Errorf("%+v", h)
	}
}
