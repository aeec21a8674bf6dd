package forecast

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Dimensions in pixels.
const (
	cellWidth  = 12
	tall, flat = 18, 9 // heights of a row: up to 26 rows, more rows
	gridLeft   = 158
	gridTop    = 84
	gridWidth  = 60 * cellWidth
	legendGap  = 26
	legendCell = 76
	pageWidth  = gridLeft + gridWidth + 24
)

// shades are the colors from no runs to the most runs; each after the second means twice as many runs as the one before.
var shades = []string{"#f3f4f6", "#fdeccb", "#fdd49e", "#fdbb84", "#fc8d59", "#ef6548", "#d7301f", "#8b0000"}

// row is one hour of the wall clock, or the part of it with one offset from UTC.
type row struct {
	at           time.Time
	first, count int  // the minutes of the forecast, Minutes[first:first+count]
	minute       int  // of the hour at first
	changed      bool // the offset differs from the row before
}

// SVG writes the forecast as a heat map: a row for each hour, a column for each minute of it.
func (f *Forecast) SVG(w io.Writer, title string) error {
	rows := f.rows()
	height := tall
	if len(rows) > 26 {
		height = flat
	}
	bottom := gridTop + len(rows)*height
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="11" fill="#374151" shape-rendering="crispEdges">`+"\n",
		pageWidth, bottom+legendGap+54)
	fmt.Fprintf(&b, "<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", escape(title))
	f.drawHead(&b, title)
	top := f.top()
	day, labelled := "", -2
	for i, r := range rows {
		y := gridTop + i*height
		base := y + height/2 + 4
		if d := r.at.Format("Mon 2 Jan"); d != day {
			day = d
			fmt.Fprintf(&b, `<text x="16" y="%d">%s</text>`+"\n", base, day)
		}
		if height == tall || i == 0 || r.changed || r.at.Hour()%6 == 0 && labelled < i-1 {
			labelled = i
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", gridLeft-8, base, escape(r.label(i == 0)))
		}
		f.drawRow(&b, r, y, height-1, top)
	}
	drawScale(&b, bottom)
	drawLegend(&b, bottom+legendGap, top)
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// top returns the number of runs of the darkest shade: the highest of a minute, and at least four times the mean, so that
// an even load does not look like a peak.
func (f *Forecast) top() float64 {
	return max(slices.Max(f.Minutes), 4*f.Total()/float64(len(f.Minutes)))
}

// rows divides the minutes into hours of the wall clock; a row also ends where the offset from UTC changes.
func (f *Forecast) rows() []row {
	var rows []row
	before := 0
	for i := range f.Minutes {
		at := f.From.Add(time.Duration(i) * time.Minute)
		_, offset := at.Zone()
		if i == 0 || at.Minute() == 0 || offset != before {
			rows = append(rows, row{at: at, first: i, minute: at.Minute(), changed: i > 0 && offset != before})
		}
		before = offset
		rows[len(rows)-1].count++
	}
	return rows
}

func (r row) label(first bool) string {
	hour := r.at.Format("15") + ":00"
	if first || r.changed {
		return hour + " " + r.at.Format("MST")
	}
	return hour
}

func (f *Forecast) drawHead(b *bytes.Buffer, title string) {
	fmt.Fprintf(b, `<text x="16" y="28" font-size="16" font-weight="600" fill="#111827">%s</text>`+"\n", escape(title))
	says := fmt.Sprintf("%s runs of %d peels from %s to %s", Number(f.Total()), f.Peels,
		f.From.Format("2006-01-02 15:04 MST"), f.Until().Format("2006-01-02 15:04 MST"))
	if len(f.Worst) > 0 {
		says += fmt.Sprintf("; the most in a minute are %s, at %s", Number(f.Worst[0].Runs), f.Worst[0].At.Format("Mon 15:04"))
	}
	fmt.Fprintf(b, `<text x="16" y="48">%s</text>`+"\n", escape(says))
	for minute := 0; minute < 60; minute += 5 {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">:%02d</text>`+"\n", gridLeft+minute*cellWidth+cellWidth/2, gridTop-6, minute)
	}
}

// drawRow draws consecutive minutes of one shade as one bar.
func (f *Forecast) drawRow(b *bytes.Buffer, r row, y, height int, top float64) {
	for i := 0; i < r.count; {
		shade, peak, n := shadeOf(f.Minutes[r.first+i], top), 0.0, 0
		for ; i+n < r.count && shadeOf(f.Minutes[r.first+i+n], top) == shade; n++ {
			peak = max(peak, f.Minutes[r.first+i+n])
		}
		x := gridLeft + (r.minute+i)*cellWidth
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>%s</title></rect>`+"\n", x, y, n*cellWidth-1, height, shades[shade],
			f.tip(r.first+i, n, peak))
		i += n
	}
	if len(f.Worst) > 0 {
		if i := int(f.Worst[0].At.Sub(f.From)/time.Minute) - r.first; i >= 0 && i < r.count {
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#111827" stroke-width="2"/>`+"\n",
				gridLeft+(r.minute+i)*cellWidth-1, y-1, cellWidth+1, height+2)
		}
	}
}

// tip returns the tooltip of a bar.
func (f *Forecast) tip(minute, n int, peak float64) string {
	at := f.From.Add(time.Duration(minute) * time.Minute)
	text := at.Format("15:04")
	if n > 1 {
		text += at.Add(time.Duration(n-1) * time.Minute).Format(" to 15:04")
	}
	if peak == 0 {
		return text + ": none"
	}
	return text + ": up to " + Number(peak) + " a minute"
}

// drawScale draws a mark for every quarter of an hour below the grid.
func drawScale(b *bytes.Buffer, y int) {
	for minute := 0; minute <= 60; minute += 15 {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="1" height="4" fill="#9ca3af"/>`+"\n", gridLeft+minute*cellWidth, y+1)
	}
}

func drawLegend(b *bytes.Buffer, y int, top float64) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">runs a minute</text>`+"\n", gridLeft-8, y+12)
	for i, color := range shades {
		x := gridLeft + i*legendCell
		text := "none"
		if i > 0 {
			text = "≤ " + Number(top/math.Exp2(float64(len(shades)-1-i)))
		}
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="14" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y, legendCell-1, color, x+2, y+28, text)
		if top == 0 {
			break
		}
	}
}

// shadeOf returns the index of the shade for a number of runs.
func shadeOf(runs, top float64) int {
	if runs <= 0 {
		return 0
	}
	last := len(shades) - 1
	halvings := math.Floor(math.Log2(top/runs) + 1e-9)
	return last - int(min(halvings, float64(last-1)))
}

func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return b.String()
}
