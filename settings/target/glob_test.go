package target

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// asRegexp says in a regular expression what a glob of literals, stars,
// question marks and plain classes means.
func asRegexp(pattern string) *regexp.Regexp {
	q := strings.NewReplacer("*", ".*", "?", ".", "[!", "[^", ".", `\.`, `\`, `\\`,
		"(", `\(`, ")", `\)`, "{", `\{`, "}", `\}`, "+", `\+`, "|", `\|`, "^", `\^`, "$", `\$`).Replace(pattern)
	return regexp.MustCompile(`(?s)\A` + q + `\z`)
}

func TestGlobMatchesAsTheSameRegularExpression(t *testing.T) {
	patterns := []string{
		"", "*", "?", "a", "ab*", "*ab", "*ab*", "a*b*c", "a?c", "[ab]*", "*[!a]", "a*[b-c]?b", "*a*a*a*", "?*?", "**a", "ab*ab", "[a-bc]c*",
	}
	texts := []string{""}
	for from := 0; len(texts[len(texts)-1]) < 6; from++ {
		for _, c := range "abc" {
			texts = append(texts, texts[from]+string(c))
		}
	}
	for _, p := range patterns {
		g, err := CompileGlob(p)
		if err != nil {
			t.Fatal(err)
		}
		re := asRegexp(p)
		for _, s := range texts {
			if got, want := g.Match(s), re.MatchString(s); got != want {
				t.Errorf("%q matches %q: %v, want %v", p, s, got, want)
			}
		}
	}
}

func TestGlobClassesAndEscapes(t *testing.T) {
	for _, c := range []struct {
		pattern, yes, no string
	}{
		{"[]a]", "] a", "b"},
		{"[!]a]", "b [", "] a"},
		{"[a-]", "a -", "b"},
		{"[a-cx0-9]", "b x 5", "d -"},
		{`[\]a]`, "] a", `\`},
		{`[a\-c]`, "a - c", "b"},
		{`\*\?`, "*?", "ab"},
		{"é?", "éé éa", "é"},
		{"[à-ü]", "é", "e"},
		{"{a,b}", "{a,b}", "a b"},
		{"a]", "a]", "a"},
	} {
		g, err := CompileGlob(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for s := range strings.FieldsSeq(c.yes) {
			if !g.Match(s) {
				t.Errorf("%q does not match %q", c.pattern, s)
			}
		}
		for s := range strings.FieldsSeq(c.no) {
			if g.Match(s) {
				t.Errorf("%q matches %q", c.pattern, s)
			}
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*[b-c]?", "axbc")
	f.Add(`\**[!]]`, "*]")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		g, err := CompileGlob(pattern)
		if err != nil {
			return
		}
		if lit, ok := g.Literal(); ok && utf8.ValidString(text) && g.Match(text) != (lit == text) {
			t.Fatalf("%q is the literal %q, but not for %q", pattern, lit, text)
		}
		plain := !strings.ContainsAny(pattern, `[\`) && utf8.ValidString(pattern) && utf8.ValidString(text)
		if plain && g.Match(text) != asRegexp(pattern).MatchString(text) {
			t.Fatalf("%q on %q: %v", pattern, text, g.Match(text))
		}
	})
}
