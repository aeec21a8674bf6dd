package target

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenAnd
	tokenOr
	tokenNot
	tokenOpen
	tokenClose
)

var operatorKinds = map[string]tokenKind{"and": tokenAnd, "or": tokenOr, "not": tokenNot}

// token is a word or operator; offset is its position in bytes.
type token struct {
	kind   tokenKind
	offset int
	raw    string // as written
	text   string // without the quotes
	quoted bool
}

const (
	blanks = " \t\r\n"
	quotes = `"'`
	// noDelimiters are characters with another meaning in words.
	noDelimiters = `\"'()[]*?`
)

// lex splits expr into tokens; the last one is tokenEnd.
func lex(expr string) ([]token, *SyntaxError) {
	var tokens []token
	for i := 0; ; {
		i += len(expr[i:]) - len(strings.TrimLeft(expr[i:], blanks))
		if i == len(expr) {
			return append(tokens, token{kind: tokenEnd, offset: i}), nil
		}
		t := token{offset: i}
		switch op, isOp := operatorBefore(expr[i:]); {
		case expr[i] == '(':
			t.kind, t.raw = tokenOpen, "("
		case expr[i] == ')':
			t.kind, t.raw = tokenClose, ")"
		case isOp:
			t.kind, t.raw = operatorKinds[op], op
		default:
			var err *SyntaxError
			if t, err = lexWord(expr, i); err != nil {
				return nil, err
			}
		}
		tokens = append(tokens, t)
		i += len(t.raw)
	}
}

// operatorBefore returns the operator at the beginning of s if a blank, a parenthesis or the end follows. IDs have no
// parentheses, so "not(a)" is never a word.
func operatorBefore(s string) (string, bool) {
	for op := range operatorKinds {
		if rest, ok := strings.CutPrefix(s, op); ok && (rest == "" || strings.ContainsAny(rest[:1], blanks+"()")) {
			return op, true
		}
	}
	return "", false
}

// wordScan finds the end of a word.
type wordScan struct {
	expr    string
	i       int
	depth   int  // parentheses opened within the word
	inClass bool // between [ and ]
}

func lexWord(expr string, start int) (token, *SyntaxError) {
	t := token{kind: tokenWord, offset: start}
	w := wordScan{expr: expr, i: start}
	mayQuote := quotePlaces(expr[start:])
	for ; w.i < len(expr) && !w.ends(); w.next() {
		if !strings.ContainsRune(quotes, rune(expr[w.i])) || !mayQuote(w.i-start) {
			continue
		}
		n := strings.IndexByte(expr[w.i+1:], expr[w.i])
		if n < 0 {
			return t, syntaxError(expr, w.i, "the quote is never closed", "")
		}
		t.text, t.quoted = expr[start:w.i]+expr[w.i+1:w.i+1+n], true
		if w.i += n + 2; w.i < len(expr) && !strings.ContainsAny(expr[w.i:w.i+1], blanks+")") {
			return t, syntaxError(expr, w.i, "the word goes on after its closing quote",
				"quotes reach to the end of a word")
		}
		break
	}
	t.raw = expr[start:w.i]
	if !t.quoted {
		t.text = t.raw
	}
	return t, nil
}

// quotePlaces returns a function that reports whether a quote may open at byte i of a word: at its beginning, after
// "X@", and after each delimiter.
func quotePlaces(word string) func(i int) bool {
	f, isForm := cutForm(word)
	return func(i int) bool {
		return i == 0 || isForm && (i == f.length || i > f.length && strings.HasSuffix(word[:i], string(f.delimiter)))
	}
}

// ends reports whether the word ends before i: at a blank, or if only closing parentheses follow that were not opened
// in the word.
func (w *wordScan) ends() bool {
	rest := w.expr[w.i:]
	if strings.ContainsAny(rest[:1], blanks) {
		return true
	}
	if rest[0] != ')' || w.depth > 0 || w.inClass {
		return false
	}
	rest = strings.TrimLeft(rest, ")")
	return rest == "" || strings.ContainsAny(rest[:1], blanks)
}

// next skips one character, one escape, or the opening of a class with a ] that belongs to it.
func (w *wordScan) next() {
	c := w.expr[w.i]
	w.i++
	switch {
	case c == '\\':
		w.skip()
	case w.inClass:
		w.inClass = c != ']'
	case c == '[':
		w.inClass = true
		if w.i < len(w.expr) && strings.ContainsAny(w.expr[w.i:w.i+1], "!^") {
			w.i++
		}
		if w.i < len(w.expr) && w.expr[w.i] == ']' {
			w.i++
		}
	case c == '(':
		w.depth++
	case c == ')' && w.depth > 0:
		w.depth--
	}
}

func (w *wordScan) skip() {
	_, n := utf8.DecodeRuneInString(w.expr[w.i:])
	w.i += n
}

// form is the "X@" or "X%@" at the beginning of a word.
type form struct {
	letter    byte
	delimiter rune
	length    int  // in bytes, including the @
	custom    bool // the word names the delimiter
}

func cutForm(word string) (form, bool) {
	if word == "" || !isLetter(word[0]) {
		return form{}, false
	}
	f := form{letter: word[0], delimiter: ':', length: 2}
	if strings.HasPrefix(word[1:], "@") {
		return f, true
	}
	r, n := utf8.DecodeRuneInString(word[1:])
	if n == 0 || strings.ContainsRune(blanks, r) || !strings.HasPrefix(word[1+n:], "@") {
		return form{}, false
	}
	f.delimiter, f.custom = r, true
	f.length += n
	return f, true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
