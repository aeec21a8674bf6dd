package staged

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
)

// lfsPointer begins each pointer of Git LFS.
const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// convert returns the content that git add stores for a file with this content. A file whose content a filter or an encoding
// changes in a way that only another program knows is an [*UnknownError].
func (f *Files) convert(rules []attributeRule, name string, data []byte) ([]byte, error) {
	if filter := attribute(rules, name, "filter"); f.filters(filter) {
		if filter != "lfs" {
			return nil, &UnknownError{name, "the filter " + filter}
		}
		if len(data) > 0 && !bytes.HasPrefix(data, []byte(lfsPointer)) {
			return fmt.Appendf(nil, "%soid sha256:%x\nsize %d\n", lfsPointer, sha256.Sum256(data), len(data)), nil
		}
		return data, nil
	}
	switch encoding := attribute(rules, name, "working-tree-encoding"); strings.ToLower(encoding) {
	case "unspecified", "unset", "set", "utf-8", "utf8", "":
	default:
		return nil, &UnknownError{name, "the encoding " + encoding}
	}
	if attribute(rules, name, "ident") == "set" && bytes.Contains(data, []byte("$Id")) {
		return nil, &UnknownError{name, "the attribute ident"}
	}
	if f.normalizes(rules, name, data) {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	return data, nil
}

// filters reports whether Git runs the filter of a name on this machine.
func (f *Files) filters(name string) bool {
	switch name {
	case "unspecified", "unset", "set":
		return false
	}
	return f.config.value("filter."+name+".clean") != "" || f.config.value("filter."+name+".process") != ""
}

// normalizes reports whether ends of lines become LF.
func (f *Files) normalizes(rules []attributeRule, name string, data []byte) bool {
	text, eol := attribute(rules, name, "text"), attribute(rules, name, "eol")
	if text == "unspecified" {
		text = attribute(rules, name, "crlf") // the old name
	}
	if text == "unspecified" && (eol == "lf" || eol == "crlf") {
		text = "set"
	}
	if auto := strings.ToLower(f.config.value("core.autocrlf")); text == "unspecified" && (auto == "true" || auto == "input") {
		text = "auto"
	}
	switch text {
	case "set", "input":
		return true
	case "auto":
		return !isBinary(data)
	}
	return false
}

// isBinary is Git's rule for text=auto: a NUL, a CR without LF, or more than one unprintable byte in 128.
func isBinary(data []byte) bool {
	printable, other := 0, 0
	for i, c := range data {
		switch {
		case c == 0, c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			return true
		case c == '\r', c == '\n':
		case c == 127, c < 32 && c != '\b' && c != '\t' && c != '\f' && c != 27:
			other++
		default:
			printable++
		}
	}
	if n := len(data); n > 0 && data[n-1] == 26 { // the end-of-file sign of DOS
		other--
	}
	return printable>>7 < other
}

// An UnknownError says that only another program knows what Git would commit of a file.
type UnknownError struct {
	Path string // from the top of the working tree
	By   string // "the filter NAME"
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s decides what Git commits of %s; commit it, then read the commit", e.By, e.Path)
}
