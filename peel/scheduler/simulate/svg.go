package simulate

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Sizes of a drawing in pixels.
const (
	svgNames  = 160 // width of the names on the left
	svgWidth  = 960 // of the load
	svgHeight = 120 // of the load
	svgRow    = 16  // height of an entry
	svgRows   = 40  // entries that are drawn
)

// SVG draws the load of the fleet, and below it one row for each of the 40 entries with the most runs: the darker, the
// more runs.
func (r *Result) SVG(w io.Writer) error {
	entries := sorting.Values(slices.Values(r.Entries), func(a, b Entry) int { return cmp.Compare(b.Runs, a.Runs) })
	entries = entries[:min(len(entries), svgRows)]
	columns := min(len(r.Hours), svgWidth)
	var b strings.Builder
	height := 40 + svgHeight + svgRow*len(entries) + 30
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+
			"\n", svgNames+svgWidth+20, height,
	)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	peak := uint32(0)
	for _, h := range r.Hours {
		peak = max(peak, h.Peak)
	}
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="13">%d peels, %s to %s: at most %d runs begin in a minute</text>`+
		"\n",
		r.Peels, r.From.Format(time.DateTime), r.Until.Format(time.DateTime), peak)
	x := func(column int) float64 { return svgNames + float64(column)*svgWidth/float64(columns) }
	wide := float64(svgWidth) / float64(columns)
	base := 40 + svgHeight
	for c, n := range squeeze(columns, len(r.Hours), func(i int) uint32 { return r.Hours[i].Peak }) {
		if n > 0 {
			tall := max(1, float64(n)*svgHeight/float64(peak))
			fmt.Fprintf(&b, `<rect x="%.2f" y="%.1f" width="%.2f" height="%.1f" fill="#3b6ea5"/>`+"\n", x(c),
				float64(base)-tall, wide, tall)
		}
	}
	for i, e := range entries {
		y := base + 8 + i*svgRow
		fmt.Fprintf(&b, `<text x="8" y="%d">%s</text>`+"\n", y+12, escape(cutName(e.Name)))
		row := squeeze(columns, len(e.Hours), func(i int) uint32 { return e.Hours[i] })
		most := slices.Max(row)
		for c, n := range row {
			if n > 0 {
				fmt.Fprintf(&b, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="#3b6ea5" fill-opacity="%.2f"/>`+
					"\n",
					x(c), y, wide, svgRow-2, 0.2+0.8*float64(n)/float64(most))
			}
		}
	}
	for i := range 5 {
		at := r.From.Add(r.Until.Sub(r.From) * time.Duration(i) / 4)
		anchor := []string{"start", "middle", "middle", "middle", "end"}[i]
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", svgNames+svgWidth*i/4, height-10,
			anchor, at.Format("2006-01-02 15:04"))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// squeeze returns the largest value of each of a number of equal parts of a list.
func squeeze(parts, n int, value func(int) uint32) []uint32 {
	list := make([]uint32, parts)
	for i := range n {
		c := i * parts / n
		list[c] = max(list[c], value(i))
	}
	return list
}

// cutName cuts a name to what fits on the left.
func cutName(name string) string {
	const most = 24
	if len(name) <= most {
		return name
	}
	return name[:most-1] + "…"
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder refuses nothing
	return b.String()
}
