package page

import (
	"fmt"
	"strconv"
	"time"
)

// A Heat is a table of the load by day and hour, with its texts and the class of each cell.
type Heat struct {
	Unit    int      // a cell counts in these
	Columns []string // the hours of a day
	Days    []HeatDay
	Words   string // what the table shows
}

// A HeatDay is a row of a [Heat].
type HeatDay struct {
	Name  string
	Cells []HeatCell // one for each column
}

// A HeatCell is an hour. Level is from 0 to 7, the most; -1: the hour is outside of the time that is shown.
type HeatCell struct {
	Level int
	Text  string
}

// Class is the class of the cell in the style sheet.
func (c HeatCell) Class() string {
	if c.Level < 0 {
		return "hx"
	}
	return "h" + strconv.Itoa(c.Level)
}

const (
	heatLevels  = 7
	heatLongest = 3 // digits of a cell
	dayHours    = 24
)

// heatOf returns the table of hours that follow each other. A day has 24 columns also where the clock is changed: two
// hours of one name are added up.
func heatOf(from time.Time, runs []float64) *Heat {
	h := &Heat{Unit: 1}
	for i := range dayHours {
		h.Columns = append(h.Columns, fmt.Sprintf("%02d", i))
	}
	days := map[string]int{}
	sums := [][dayHours]float64{}
	shown := [][dayHours]bool{}
	for i, n := range runs {
		at := from.Add(time.Duration(i) * time.Hour)
		name := at.Format("Mon 2")
		row, known := days[name]
		if !known {
			row = len(sums)
			days[name] = row
			sums, shown = append(sums, [dayHours]float64{}), append(shown, [dayHours]bool{})
			h.Days = append(h.Days, HeatDay{Name: name})
		}
		sums[row][at.Hour()] += n
		shown[row][at.Hour()] = true
	}
	least, most := bounds(sums, shown)
	for limit := 1.0; most >= limit*1000; limit *= 1000 {
		h.Unit *= 1000
	}
	for row := range h.Days {
		for hour := range dayHours {
			cell := HeatCell{Level: -1}
			if shown[row][hour] {
				cell = cellOf(sums[row][hour], least, most, h.Unit)
			}
			h.Days[row].Cells = append(h.Days[row].Cells, cell)
		}
	}
	return h
}

// bounds returns the least and the most of the hours that are shown.
func bounds(sums [][dayHours]float64, shown [][dayHours]bool) (least, most float64) {
	first := true
	for row := range sums {
		for hour, n := range sums[row] {
			if !shown[row][hour] {
				continue
			}
			if first {
				least, most, first = n, n, false
			}
			least, most = min(least, n), max(most, n)
		}
	}
	return least, most
}

// cellOf returns the cell of an hour. Equal hours have the level 1; an hour without runs has 0.
func cellOf(n, least, most float64, unit int) HeatCell {
	c := HeatCell{Level: 1, Text: strconv.FormatFloat(n/float64(unit), 'g', heatLongest, 64)}
	if n >= float64(unit)*10 || n == 0 {
		c.Text = strconv.FormatFloat(n/float64(unit), 'f', 0, 64)
	}
	switch {
	case n == 0:
		c.Level = 0
	case n < float64(unit)/10:
		c.Text = "<.1"
	case most > least:
		c.Level = 1 + int((n-least)/(most-least)*(heatLevels-1))
	}
	return c
}
