package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A listing prints the targets of a job as data, one at a time, so that its memory does not depend on their number. In
// the forms for people it prints nothing.
type listing struct {
	a     *app
	head  any    // an object with at least one field, printed before the list
	field string // name of the list
	n     int
}

// add prints one target.
func (l *listing) add(o outcome) error {
	l.n++
	switch l.a.output {
	case formName:
		_, err := fmt.Fprintln(l.a.out, plain(string(o.Peel)))
		return err
	case formJSONL:
		return encode(l.a.out, o, "", "")
	case formJSON:
		if err := l.begin(); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := encode(&b, o, "    ", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintf(l.a.out, "\n    %s", bytes.TrimRight(b.Bytes(), "\n"))
		return err
	case formYAML:
		if err := l.begin(); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := encodeYAML(&b, []outcome{o}); err != nil {
			return err
		}
		for line := range strings.Lines(b.String()) {
			if line != "\n" {
				line = "  " + line
			}
			if _, err := fmt.Fprint(l.a.out, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin prints the text before an element.
func (l *listing) begin() error {
	if l.n > 1 {
		if l.a.output == formJSON {
			fmt.Fprint(l.a.out, ",")
		}
		return nil
	}
	return l.open()
}

// open prints the fields of head and the name of the list.
func (l *listing) open() error {
	var b bytes.Buffer
	if l.a.output == formYAML {
		if err := encodeYAML(&b, l.head); err != nil {
			return err
		}
		_, err := fmt.Fprintf(l.a.out, "%s%s:\n", b.Bytes(), l.field)
		return err
	}
	if err := encodeJSON(&b, l.head); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.a.out, "%s,\n  %q: [", bytes.TrimSuffix(b.Bytes(), []byte("\n}\n")), l.field)
	return err
}

// end closes the list.
func (l *listing) end() error {
	closing := map[form]string{formJSON: "\n  ]\n}\n"}
	if l.n == 0 {
		closing = map[form]string{formJSON: "]\n}\n", formYAML: "  []\n"}
		if l.a.output == formJSON || l.a.output == formYAML {
			if err := l.open(); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprint(l.a.out, closing[l.a.output])
	return err
}
