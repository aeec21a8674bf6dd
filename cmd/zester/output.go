package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// A form is a value of -o.
type form string

const (
	formTable form = "table"
	formWide  form = "wide" // a table that is not cut
	formJSON  form = "json"
	formJSONL form = "jsonl" // an object a line
	formYAML  form = "yaml"
	formName  form = "name"
)

func (f *form) String() string { return string(*f) }

func (f *form) Type() string { return "form" }

func (f *form) Set(s string) error {
	switch form(s) {
	case formTable, formWide, formJSON, formJSONL, formYAML, formName:
		*f = form(s)
		return nil
	}
	return errors.New("there is table, wide, json, jsonl, yaml and name")
}

// A sink keeps the first error of what it writes to, so that what was cut short is not taken for all of it. That a reader
// has gone is none: it has what it wanted.
type sink struct {
	io.Writer
	err error
}

func (c *sink) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.err == nil && !errors.Is(err, syscall.EPIPE) {
		c.err = err
	}
	return n, err
}

// print prints an answer in the form that was asked for: as people calls for, v as data, or the names alone.
func (a *app) print(v any, names []string, people func() error) error {
	switch a.output {
	case formJSON:
		return encodeJSON(a.out, v)
	case formJSONL:
		return encodeLines(a.out, v)
	case formYAML:
		return encodeYAML(a.out, v)
	case formName:
		for _, name := range names {
			fmt.Fprintln(a.out, plain(name))
		}
		return nil
	}
	return people()
}

// show prints an answer that people see as a table, with the names in the first column.
func (a *app) show(v any, t table) error {
	names := make([]string, len(t.rows))
	for i, row := range t.rows {
		names[i] = row[0]
	}
	return a.print(v, names, func() error { return a.printTable(t) })
}

func (a *app) printTable(t table) error {
	if a.noHeaders {
		t.header = nil
	}
	if a.output == formWide {
		return t.print(a.out, 0)
	}
	return t.print(a.out, width(a.out))
}

func encodeJSON(w io.Writer, v any) error { return encode(w, v, "", "  ") }

// encodeLines prints the elements of a list, or what is none, as a line of JSON each.
func encodeLines(w io.Writer, v any) error {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return encode(w, v, "", "")
	}
	for _, e := range list.Seq2() {
		if err := encode(w, e.Interface(), "", ""); err != nil {
			return err
		}
	}
	return nil
}

// encode prints v as JSON and ends the line. Lines after the first begin with the prefix.
func encode(w io.Writer, v any, prefix, indent string) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeControls(buf.Bytes()))
	return err
}

// escapeControls escapes the control characters above ASCII's first 32, which JSON allows and terminals act on.
func escapeControls(doc []byte) []byte {
	control := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if bytes.IndexFunc(doc, control) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if control(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// encodeYAML prints v with the names and the order of its JSON.
func encodeYAML(w io.Writer, v any) error {
	var data bytes.Buffer
	if err := encodeJSON(&data, v); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data.Bytes(), &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

// blockStyle undoes the flow style and the quotes that come from reading JSON; the encoder puts back what is needed,
// except that a block of text that begins with blank space would not be read back as it was.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if strings.HasPrefix(n.Value, "\n") || strings.HasPrefix(n.Value, " ") {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// harmless reports whether a terminal shows r and does nothing else.
func harmless(r rune) bool {
	return r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// plain makes text of peels and repos harmless to a terminal: control characters but newline and tab, those that turn
// the direction of text, and bytes that are not UTF-8 are written as escapes.
func plain(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case harmless(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// when prints a time for people: local, to the second.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// clock is when, without the date if that is today's: for tables.
func clock(t time.Time) string {
	text := when(t)
	if rest, today := strings.CutPrefix(text, time.Now().Format("2006-01-02 ")); today {
		return rest
	}
	return text
}

// age is a time that has passed, to the minute once there is one and to the day after two.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
}

// count prints a number of things: "1 peel", "2 peels".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
