package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// A table is what people see of an answer: cells are printed as they are but for what a terminal would act on.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// show prints an answer in the form that -o names: the table for people, v for programs.
func (a *app) show(v any, t table) error {
	switch a.output {
	case "table":
		return t.print(a.out, !a.noHeaders)
	case "name":
		for _, row := range t.rows {
			fmt.Fprintln(a.out, plain(row[0]))
		}
		return nil
	}
	return a.encode(v)
}

// encode prints v as JSON or YAML.
func (a *app) encode(v any) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case "yaml":
		return encodeYAML(a.out, v)
	}
	return usageError("unknown output %q: use table, json, yaml or name", a.output)
}

// encodeYAML prints v with the names and the order of its JSON.
func encodeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(&doc), enc.Close())
}

// blockStyle undoes the flow style and the quotes that come from reading JSON; the encoder puts back what is needed.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		blockStyle(c)
	}
}

func (t table) print(w io.Writer, headers bool) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if headers && len(t.rows) > 0 {
		fmt.Fprintln(tw, strings.Join(t.header, "\t"))
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = strings.ReplaceAll(plain(c), "\n", " ")
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// plain makes text of peels and repos harmless to a terminal: control characters but newline and tab, and bytes that
// are not UTF-8, are written as escapes.
func plain(s string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case clean(r):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
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

// took prints a duration with three digits at most.
func took(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
