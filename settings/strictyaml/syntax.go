package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

var linePrefix = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// syntaxError returns the library's error with the line of the mistake. The library names the right line if its scanner
// fails. If its parser fails, it names the line before the start of the collection, which may be far above; we then
// name the first line with which the text no longer parses.
func syntaxError(file string, data []byte, err error) Error {
	if line := conflictLine(data); line > 0 {
		return Error{
			Pos: Pos{File: file, Line: line, Column: 1},
			Msg: "a merge conflict is not resolved: keep one side and remove the lines that begin with <<<<<<<, " +
				"======= and >>>>>>>",
		}
	}
	m := linePrefix.FindStringSubmatch(err.Error())
	msg := strings.TrimPrefix(err.Error(), m[0])
	line, _ := strconv.Atoi(m[1])
	line = max(line, 1)
	switch {
	case strings.Contains(msg, "exceeded max depth"):
		return Error{Pos: Pos{File: file}, Msg: "nested deeper than " + strconv.Itoa(MaxDepth) + " levels"}
	case strings.Contains(msg, "',' or"):
		if m[1] != "" {
			line = min(line+1, 1+bytes.Count(data, []byte("\n")))
		}
	case strings.HasPrefix(msg, "did not find expected key"),
		strings.HasPrefix(msg, "did not find expected '-'"),
		strings.HasPrefix(msg, "did not find expected node"),
		strings.HasPrefix(msg, "did not find expected <"),
		strings.HasPrefix(msg, "unknown anchor"):
		line = failingLine(data)
	}
	text := nthLine(data, line)
	indent := len(text) - len(bytes.TrimLeft(text, " \t"))
	return Error{Pos: Pos{File: file, Line: line, Column: indent + 1}, Msg: msg + advice(msg, text)}
}

// conflictMarker matches the first and last line of a merge conflict of Git.
var conflictMarker = regexp.MustCompile(`(?m)^(<{7}|>{7})( |$)`)

// conflictLine returns the number of the first conflict marker, 0 if there is none.
func conflictLine(data []byte) int {
	at := conflictMarker.FindIndex(data)
	if at == nil {
		return 0
	}
	return 1 + bytes.Count(data[:at[0]], []byte("\n"))
}

// colonValue matches a key with an unquoted value that contains another colon.
var colonValue = regexp.MustCompile(`^\s*(?:- )?([\w.-]+):\s+([^'"\s\[{|>&*!][^\n]*: .*)$`)

// noBlank matches a key and value with no blank between them.
var noBlank = regexp.MustCompile(`^\s*[\w.-]+:[^\s:]`)

const writeBlank = "; write a blank after the colon"

// advice returns what to write instead, for messages of the library that do not say it.
func advice(msg string, line []byte) string {
	switch {
	case bytes.Contains(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], []byte("\t")):
		return "; indent with spaces, not tabs"
	case strings.Contains(msg, "alphabetic or numeric character") && bytes.ContainsAny(line, "*&"):
		return "; quote a value that begins with * or &"
	case strings.HasPrefix(msg, "could not find expected ':'") && noBlank.Match(line):
		return writeBlank
	case strings.HasPrefix(msg, "could not find expected ':'"):
		return "; a key needs a colon and a blank behind it, here or on the line above"
	case strings.HasPrefix(msg, "did not find expected key") && bytes.ContainsAny(line, `"'{}[]`):
		return "; check the indentation and the quotes"
	case strings.HasPrefix(msg, "did not find expected key"):
		return "; check the indentation, and the colon of the line above"
	case strings.HasPrefix(msg, "did not find expected '-'"):
		return "; check the indentation"
	case strings.HasPrefix(msg, "unknown anchor"):
		return "; quote a value that begins with *"
	case strings.Contains(msg, "cannot start any token") && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{%")):
		return "; Jinja is not evaluated: zester import salt converts what Salt makes of it"
	case strings.Contains(msg, "cannot start any token"):
		return "; quote a value that begins with @, % or `"
	case strings.Contains(msg, "mapping values are not allowed") && colonValue.Match(line):
		// The value itself is not repeated: it may be a secret.
		key := colonValue.FindSubmatch(line)[1]
		return "; check the indentation, or put the value of " + string(key) + " in quotes: it contains \": \""
	case strings.Contains(msg, "mapping values are not allowed"):
		return "; check the indentation, or quote a value that contains \": \""
	}
	return ""
}

// failingLine returns the first line with which the text no longer parses. It feeds the text to the library byte by
// byte to learn where it stopped, at most a few lines too far, and goes up from there while the text still fails.
func failingLine(data []byte) int {
	r := &byteReader{data: data}
	decodeAll(r)
	line := 1 + bytes.Count(data[:r.read], []byte("\n"))
	// Hostile text of MaxSize takes 0.4 s to parse, so the search reads at most twice MaxSize.
	for range min(20, 1+MaxSize/len(data)) {
		if line <= 1 || decodeAll(bytes.NewReader(data[:lineStart(data, line)])) == nil {
			break
		}
		line--
	}
	return line
}

func decodeAll(r io.Reader) error {
	d := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// byteReader returns one byte per call and counts them.
type byteReader struct {
	data []byte
	read int
}

func (r *byteReader) Read(p []byte) (int, error) {
	if r.read == len(r.data) {
		return 0, io.EOF
	}
	p[0] = r.data[r.read]
	r.read++
	return 1, nil
}

func lineStart(data []byte, line int) int {
	start := 0
	for range line - 1 {
		i := bytes.IndexByte(data[start:], '\n')
		if i < 0 {
			return len(data)
		}
		start += i + 1
	}
	return start
}

func nthLine(data []byte, line int) []byte {
	text, _, _ := bytes.Cut(data[lineStart(data, line):], []byte("\n"))
	return text
}
