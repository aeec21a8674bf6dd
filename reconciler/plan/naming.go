package plan

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	maxNaming     = 100     // places that Naming returns
	maxNamingFile = 1 << 20 // bytes of a file that Naming reads
)

// Naming returns the places of a tree that name a peel, at most 100: file:line, or the file alone if its path has the
// ID. Patterns and expressions that select the peel by something else do not name it.
func Naming(tree fs.FS, id target.PeelID) (places []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if hasID(tree, strings.TrimSuffix(name, path.Ext(name)), id) {
			places = append(places, name)
		}
		if info.Size() <= maxNamingFile {
			data, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			places = append(places, namingLines(tree, name, data, id)...)
		}
		if len(places) >= maxNaming {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot find which lines of the config repo name %s: %w", id, err)
	}
	return places[:min(len(places), maxNaming)], nil
}

func namingLines(tree fs.FS, name string, data []byte, id target.PeelID) (places []string) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil // no text
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if hasID(tree, line, id) {
			places = append(places, fmt.Sprintf("%s:%d", name, number))
		}
	}
	return places
}

// hasID reports whether a text has an ID that is not a part of a longer one, such as web-01 in web-01.example.com. The
// end of a reference to a settings file of the tree, such as hosts.web-01, is an ID.
func hasID(tree fs.FS, text string, id target.PeelID) bool {
	for begin := 0; ; begin++ {
		at := strings.Index(text[begin:], string(id))
		if at < 0 {
			return false
		}
		begin += at
		before, after := text[:begin], text[begin+len(id):]
		if beginsInID(after) {
			continue
		}
		if !endsInID(before) || endsInRef(tree, before, id) {
			return true
		}
	}
}

// endsInID reports whether the end of a text goes on in an ID behind it.
func endsInID(text string) bool { return text != "" && inID(text[len(text)-1]) }

// endsInRef reports whether the end of a text and an ID behind it are a reference to a settings file of the tree.
func endsInRef(tree fs.FS, text string, id target.PeelID) bool {
	if !strings.HasSuffix(text, ".") {
		return false
	}
	folder := text[strings.LastIndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !inID(byte(r)) })+1:]
	_, err := fs.Stat(tree, SettingsPath(folder+string(id)))
	return err == nil
}

// beginsInID reports whether an ID before a text goes on in it. A dot does not if it ends a sentence.
func beginsInID(text string) bool {
	text = strings.TrimLeft(text, ".")
	return text != "" && inID(text[0])
}

func inID(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
