package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A table is output for people. An empty cell below a header is printed as "-".
type table struct {
	header []string
	rows   [][]string
	narrow []string // columns whose text may be cut, by their header
	drop   []string // columns that are left out where the rest does not fit, the first one first
	wide   []string // columns that only -o wide prints
	short  int      // characters to which the first column is cut if the table does not fit; 0: it is not cut
	states []string // columns that hold states, which have colours
	legend string   // of signs in cells, printed below the table on a terminal
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// remove removes columns, by their header.
func (t *table) remove(headers ...string) {
	for j := len(t.header) - 1; j >= 0; j-- {
		if !slices.Contains(headers, t.header[j]) {
			continue
		}
		t.header = slices.Delete(t.header, j, j+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], j, j+1)
		}
	}
}

const columnGap = 2

// Widths below which no column is cut: readable while columns can still be left out, least after that.
const (
	readable = 12
	least    = 6
)

// A screen is where a table is printed.
type screen struct {
	width   int  // characters in a line; 0: no limit
	wide    bool // print the columns of -o wide
	colours bool
	bare    bool // without headers and legend
}

// print prints the table, nothing if it has no rows.
func (t table) print(w io.Writer, s screen) error {
	if len(t.rows) == 0 {
		return nil
	}
	if s.bare {
		t.legend = ""
	}
	var b strings.Builder
	columns := t.columns(s)
	for i := range len(t.rows) + 1 {
		if i == 0 && (t.header == nil || s.bare) {
			continue
		}
		var line strings.Builder
		for _, c := range columns {
			line.WriteString(c.cell(i, s.colours))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if t.legend != "" && s.width > 0 {
		b.WriteString(t.legend + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A column is a column of a table. The first of its cells is the header.
type column struct {
	cells        []string
	full         int // characters of the longest cell
	width        int // characters that are printed
	first, state bool
}

// columns lays out the table for a screen.
func (t table) columns(s screen) []*column {
	var columns []*column
	for j := range t.rows[0] {
		if t.header != nil && !s.wide && slices.Contains(t.wide, t.header[j]) {
			continue
		}
		c := &column{first: j == 0, cells: []string{""}}
		if t.header != nil {
			c.cells[0], c.state = t.header[j], slices.Contains(t.states, t.header[j])
		}
		if !s.bare {
			c.full = utf8.RuneCountInString(c.cells[0])
		}
		for _, row := range t.rows {
			text := strings.NewReplacer("\n", " ", "\t", " ").Replace(plain(row[j]))
			if text == "" && t.header != nil {
				text = "-"
			}
			c.cells, c.full = append(c.cells, text), max(c.full, utf8.RuneCountInString(text))
		}
		c.width, columns = c.full, append(columns, c)
	}
	if s.width > 0 {
		columns = t.fit(columns, s.width)
	}
	return columns
}

// cell returns a cell with the spaces after it.
func (c *column) cell(i int, colours bool) string {
	text := cut(c.cells[i], c.width)
	if c.first { // commands accept the beginning of an ID, so it gets no "…"
		text = string([]rune(c.cells[i])[:min(c.width, utf8.RuneCountInString(c.cells[i]))])
	}
	space := strings.Repeat(" ", c.width+columnGap-utf8.RuneCountInString(text))
	if c.state && i > 0 && colours {
		text = painted(stateColour(c.cells[i]), text)
	}
	return text + space
}

// fit returns the columns that fit into a line. It shortens the first column and cuts text down to readable, then
// leaves out columns, then cuts text down to least. Columns that are neither in narrow nor in drop are printed in full.
func (t table) fit(columns []*column, line int) []*column {
	if first := columns[0]; t.short > 0 && !t.cutTo(columns, readable, line) {
		first.full = min(first.full, t.short)
	}
	for _, name := range append([]string{""}, t.drop...) {
		columns = slices.DeleteFunc(columns, func(c *column) bool { return c.cells[0] == name && name != "" })
		if t.cutTo(columns, readable, line) {
			return columns
		}
	}
	t.cutTo(columns, least, line)
	return columns
}

// cutTo narrows the widest of the columns that may be cut until a line fits, but none below the least width. It starts
// at their full width, and reports whether the line fits.
func (t table) cutTo(columns []*column, least, line int) bool {
	excess := -columnGap - line
	for _, c := range columns {
		c.width = c.full
		excess += c.full + columnGap
	}
	for ; excess > 0; excess-- {
		var widest *column
		for _, c := range columns {
			if slices.Contains(t.narrow, c.cells[0]) && c.width > least && (widest == nil || c.width > widest.width) {
				widest = c
			}
		}
		if widest == nil {
			return false
		}
		widest.width--
	}
	return true
}

// cut shortens s to at most the given number of characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:max(most-1, 0)]) + "…"
}
