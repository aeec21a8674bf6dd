package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A form is a value of -o.
type form string

const (
	formTable form = "table"
	formWide  form = "wide" // a table with more columns, which is not cut
	formJSON  form = "json"
	formJSONL form = "jsonl" // an object a line
	formYAML  form = "yaml"
	formName  form = "name"
)

// forms holds every form.
var forms = []string{"table", "wide", "json", "jsonl", "yaml", "name"}

func (f *form) String() string { return string(*f) }

func (f *form) Type() string { return "format" }

func (f *form) Set(s string) error {
	if slices.Contains(forms, s) {
		*f = form(s)
		return nil
	}
	return fmt.Errorf("it is %s", strings.Join(forms, ", "))
}

// A sink remembers the first error of its writes, so that truncated output is reported. A closed pipe is not an error:
// the reader has read enough.
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

// print prints a result in the form of -o: v as data, the names, or the text that people prints.
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

// printDone prints v as data, its name, or for people a message on stderr.
func (a *app) printDone(v any, name, message string, args ...any) error {
	return a.print(v, []string{name}, func() error {
		_, err := fmt.Fprintf(a.errOut, message+"\n", args...)
		return err
	})
}

// show prints a result that is a table for people. The first column holds the names.
func (a *app) show(v any, t table) error {
	names := make([]string, len(t.rows))
	for i, row := range t.rows {
		names[i] = row[0]
	}
	return a.print(v, names, func() error { return a.printTable(t) })
}

func (a *app) printTable(t table) error {
	return t.print(a.out, a.screen())
}

// screen returns where tables are printed. With -o wide nothing is cut and no column is left out.
func (a *app) screen() screen {
	s := screen{width: a.columns, wide: a.output == formWide, colours: a.colours(), bare: a.noHeaders}
	if s.wide {
		s.width = 0
	}
	return s
}

func encodeJSON(w io.Writer, v any) error { return encode(w, v, "", "  ") }

// encodeLines prints each element of a list as one line of JSON. A value that is not a list is one line.
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

// escapeControls escapes U+007F to U+009F, which JSON allows and terminals act on, and characters that change the
// direction of text.
func escapeControls(doc []byte) []byte {
	control := func(r rune) bool { return r >= 0x7f && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) }
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

// encodeYAML prints v as YAML, with the field names and the order of its JSON.
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

// blockStyle removes the flow style and the quotes that come from JSON. The encoder adds necessary quotes itself,
// except for text that begins with white space.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if strings.HasPrefix(n.Value, "\n") || strings.HasPrefix(n.Value, " ") {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// harmless reports whether all that a terminal does with r is to show it.
func harmless(r rune) bool {
	return r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// plain returns text of peels and repos for a terminal. Control characters other than newline and tab, characters that
// change the direction of text, and bytes that are not UTF-8 become escapes.
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

// when prints a time for people: local, to the second, with the zone.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// clock prints a time for tables: today's to the second, any other with its date and to the minute.
func clock(t time.Time) string {
	local, date := t.Local(), "2006-01-02 "
	switch {
	case t.IsZero():
		return ""
	case local.Format(date) == time.Now().Format(date):
		return local.Format("15:04:05 MST")
	}
	return local.Format(date + "15:04 MST")
}

const day = 24 * time.Hour

// age prints an elapsed time: 45s, 5m, 3h12m, 100d.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < 2*day:
		return strictyaml.FormatDuration(d.Truncate(time.Minute))
	}
	return duration(d.Truncate(day))
}

// duration prints a duration as flags take it: 90s, 24h, 100d.
func duration(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return strictyaml.FormatDuration(d)
}

// count prints a number of things: "1 peel", "2 peels".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
