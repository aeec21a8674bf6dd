package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, text string) *Node {
	t.Helper()
	n, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return n
}

func TestParseGivesPlainValuesAndPositions(t *testing.T) {
	n := parse(t, "a: 1\nb:\n  - x\n  - {c: true, d: ~}\n")
	want := map[string]any{"a": int64(1), "b": []any{"x", map[string]any{"c": true, "d": nil}}}
	if got := n.Any(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
	if p := n.Get("b").List[1].Map[0].KeyPos.String(); p != "f.yaml:4:6" {
		t.Errorf("key c at %s", p)
	}
	if p := n.Get("b").List[1].Get("c").Pos.String(); p != "f.yaml:4:9" {
		t.Errorf("value of c at %s", p)
	}
	if n.Get("z") != nil || n.Get("a").Get("z") != nil {
		t.Error("Get of an absent key is not nil")
	}
}

func TestPlainScalarsFollowTheCoreSchema(t *testing.T) {
	for text, want := range map[string]any{
		"3": int64(3), "0": int64(0), "127": int64(127), "300": int64(300), "-1": int64(-1), "+5": int64(5),
		"0x1F": int64(31), "0o17": int64(15), "0b11": int64(3), "9223372036854775807": int64(9223372036854775807),
		"1.5": 1.5, ".5": .5, "1e3": 1000., "1.10": 1.1, "-0.0": 0.,
		"true": true, "True": true, "FALSE": false, "null": nil, "~": nil, "": nil,
		"yes": "yes", "no": "no", "on": "on", "off": "off", "y": "y", "NO": "NO",
		"2001-01-01": "2001-01-01", "2001-01-01T10:00:00Z": "2001-01-01T10:00:00Z",
		"08:30": "08:30", "1h30m": "1h30m", "0 4 * * *": "0 4 * * *", "1.2.3": "1.2.3", "10.0.0.0/8": "10.0.0.0/8",
		"-": nil, "0 ": int64(0), "'010'": "010", `"yes"`: "yes", "!!str 5": "5", `!!int "5"`: int64(5), "!!float 5": 5.,
		"'<<'": "<<", "1_": "1_x",
	} {
		switch text {
		case "-":
			want = []any{nil}
		case "1_":
			text = "1_x"
		}
		got := parse(t, text).Any()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
	}
}

// Each file in testdata/bad holds a document that is refused; the file of the same name that ends in
// .want holds the message.
func TestParseRefusesByNameAndPosition(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n, err := Parse(filepath.Base(file), data)
			if err == nil {
				t.Fatalf("accepted as %#v", n.Any())
			}
			if _, ok := errors.AsType[Errors](err); !ok {
				t.Errorf("the error is a %T", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".want", err.Error()+"\n")
		})
	}
}

func TestInvalidTextIsRefusedWithItsPosition(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: \xff\n":          "f:2:4: byte 0xFF is not UTF-8",
		"a: 1\nb: x\x00y\n":        "f:2:5: the text contains a NUL byte",
		"a: \x1b[0m\n":             "f:1:4: control character U+001B; write it as an escape in double quotes",
		"\xff\xfea\x00":            "f:1:1: byte 0xFF is not UTF-8",
		"ä: ö\nü: \x7f":            "f:2:4: control character U+007F; write it as an escape in double quotes",
		"a: 1\r\n\tb: 2\r\nc: 3":   "f:2:2: found a tab character that violates indentation; indent with spaces, not tabs",
		"\uFEFF%TAG !a! b\n--- a":  "f:1:1: a directive (a line that begins with %) is not supported",
		"--- a\n...\n%YAML 1.2\n":  "f:3:1: a directive (a line that begins with %) is not supported",
		"#\u2028%TAG !a! b\n--- a": "f:2:1: a directive (a line that begins with %) is not supported",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestByteOrderMarkAndCRLFAreAccepted(t *testing.T) {
	n := parse(t, "\uFEFFa: 1\r\nb: |\r\n  x\r\n  y\r\n")
	if got := n.Any(); !reflect.DeepEqual(got, map[string]any{"a": int64(1), "b": "x\ny\n"}) {
		t.Errorf("got %#v", got)
	}
	if p := n.Map[1].KeyPos; p.Line != 2 || p.Column != 1 {
		t.Errorf("b at %s", p)
	}
}

func TestEmptyDocumentsAreNull(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "\uFEFF"} {
		if n := parse(t, text); n.Kind != Null {
			t.Errorf("%q is %v", text, n.Kind)
		}
	}
}

func TestLimitsAreExact(t *testing.T) {
	fill := func(n int) string { return "a: " + strings.Repeat("x", n-3) }
	depth := func(n int) string { return strings.Repeat("[", n) + "]" + strings.Repeat("]", n-1) }
	list := func(n int) string { return "[" + strings.Repeat("a,", n-1) + "]" }
	for _, c := range []struct {
		name, text, want string
	}{
		{"1 MiB", fill(MaxSize), ""},
		{"1 MiB + 1", fill(MaxSize + 1), "f: 1048577 bytes; a document has at most 1048576"},
		{"64 levels", depth(64), ""},
		{"65 levels", depth(65), "f:1:65: nested deeper than 64 levels"},
		{"100,000 nodes", list(100_000), ""},
		{"100,001 nodes", list(100_001), "f:1:200000: more than 100000 nodes"},
	} {
		_, err := Parse("f", []byte(c.text))
		if got := fmt.Sprint(err); err != nil && got != c.want || err == nil && c.want != "" {
			t.Errorf("%s: got %.200v", c.name, err)
		}
	}
}

func bombs() map[string]string {
	var levels strings.Builder
	levels.WriteString("a0: &a0 [x]\n")
	for i := range 9 {
		fmt.Fprintf(&levels, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	rep := func(s string) string { return strings.Repeat(s, MaxSize/len(s)) }
	many := func(s string) string { return strings.Repeat(s, MaxNodes+1) }
	return map[string]string{
		"alias levels": levels.String(), "self alias": "a: &a [*a]", "aliases": "- &a x\n" + many("- *a\n"),
		"flow": rep("["), "flow maps": rep("{"), "flow closed": strings.Repeat("[", 9999) + strings.Repeat("]", 9999),
		"flow keys": rep("{a: "), "dashes": rep("- "), "dashes short": strings.Repeat("- ", 9999), "questions": rep("? "),
		"question short": strings.Repeat("? ", 9999), "colons": rep(": "), "directives": rep("%TAG !a! b\n"),
		"long scalar": rep("a,"), "wide list": "[" + many("a,") + "]", "syntax error at the end": many("- a\n") + "}",
		"comments": rep("#\n"), "documents": rep("---\n"), "anchors": many("- &a x\n"),
	}
}

func TestHostileTextIsRefused(t *testing.T) {
	for name, text := range bombs() {
		start := time.Now()
		n, err := Parse("f", []byte(text))
		if err == nil && name != "comments" && name != "long scalar" {
			t.Errorf("%s: accepted as %v", name, n.Kind)
		}
		t.Logf("%-24s %8v %.90v", name, time.Since(start).Round(time.Millisecond), err)
	}
}

func TestAllErrorsOfADocumentAreListedUpToFifty(t *testing.T) {
	_, err := Parse("f", []byte(strings.Repeat("- 010\n", 200)))
	errs, _ := errors.AsType[Errors](err)
	if len(errs) != MaxErrors {
		t.Fatalf("%d errors", len(errs))
	}
	for i, e := range errs {
		if e.Pos.Line != i+1 || e.Path != fmt.Sprintf("[%d]", i) {
			t.Fatalf("error %d is %v", i, e)
		}
	}
}

func TestFromValueHasTheSamePlainValue(t *testing.T) {
	v := map[string]any{"b": []any{int64(1), 1.5, "s", nil, true}, "a": map[string]any{}}
	n := FromValue("settings", v)
	if !reflect.DeepEqual(n.Any(), v) {
		t.Errorf("got %#v", n.Any())
	}
	if n.Map[0].Key != "a" || n.Pos.String() != "settings" {
		t.Errorf("first key %s at %s", n.Map[0].Key, n.Pos)
	}
	for in, want := range map[any]any{
		int8(-3): int64(-3), uint32(7): int64(7), uint64(1 << 63): float64(1 << 63), float32(.5): .5, time.Second: "1s",
	} {
		if got := FromValue("", in).Value; got != want {
			t.Errorf("%T: got %#v", in, got)
		}
	}
	if got := FromValue("", []byte("x")).Value; got != "x" {
		t.Errorf("bytes: got %#v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range bombs() {
		f.Add([]byte(text[:min(len(text), 100)]))
	}
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse("f", data)
		if err != nil {
			for _, e := range err.(Errors) {
				if lines := 1 + bytes.Count(data, []byte("\n")); e.Pos.File != "f" || e.Msg == "" || e.Pos.Line < 0 ||
					e.Pos.Line > lines && !bytes.ContainsAny(data, "\r\u0085\u2028\u2029") {
					t.Errorf("error %#v in a text of %d lines", e, lines)
				}
			}
			return
		}
		check(t, n, 1)
		if v := n.Any(); !reflect.DeepEqual(FromValue("", v).Any(), v) {
			t.Errorf("%#v does not survive FromValue", v)
		}
	})
}

func check(t *testing.T, n *Node, depth int) {
	if depth > MaxDepth || n.Pos.Line < 1 || n.Pos.Column < 1 {
		t.Errorf("%v at %v in depth %d", n.Kind, n.Pos, depth)
	}
	for _, e := range n.List {
		check(t, e, depth+1)
	}
	for _, p := range n.Map {
		if n.Get(p.Key) != p.Value {
			t.Errorf("key %q is there twice", p.Key)
		}
		check(t, p.Value, depth+1)
	}
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile("testdata/good/schedule.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("f", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseHostile(b *testing.B) {
	for name, text := range bombs() {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			data := []byte(text)
			for b.Loop() {
				_, _ = Parse("f", data)
			}
		})
	}
}

func TestOtherLimits(t *testing.T) {
	large := "[" + strings.Repeat("a,", MaxNodes+1) + "]"
	if _, err := Parse("f", []byte(large)); err == nil {
		t.Fatal("it is within the limits of every document")
	}
	if n, err := ParseWithin("f", []byte(large), Limits{Size: MaxSize, Nodes: 2 * MaxNodes}); err != nil || len(n.List) != MaxNodes+1 {
		t.Errorf("%v", err)
	}
	_, err := ParseWithin("f", []byte(large), Limits{Size: 1000, Nodes: 2 * MaxNodes})
	if want := "f: 200004 bytes; a document has at most 1000"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
