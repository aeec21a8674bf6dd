package target

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// raw is a term as written.
type raw string

func (r raw) String() string { return string(r) }

// The terms, except [FactTerm].
type (
	// GlobTerm is a glob on the ID.
	GlobTerm struct {
		raw
		Glob Glob
	}
	// RegexTerm is E@.
	RegexTerm struct {
		raw
		Regexp *regexp.Regexp
	}
	// ListTerm is L@.
	ListTerm struct {
		raw
		IDs []PeelID // sorted
	}
	// NetTerm is S@.
	NetTerm struct {
		raw
		prefix netip.Prefix
	}
	// GroupTerm is N@.
	GroupTerm struct {
		raw
		Expr *Expr
	}
)

// Match reports whether the term selects the peel.
func (t GlobTerm) Match(p *Peel) bool { return t.Glob.Match(string(p.ID)) }

// Match reports whether the term selects the peel.
func (t RegexTerm) Match(p *Peel) bool { return t.Regexp.MatchString(string(p.ID)) }

// Match reports whether the term selects the peel.
func (t GroupTerm) Match(p *Peel) bool { return t.Expr.root.Match(p) }

// Match reports whether the term selects the peel.
func (t ListTerm) Match(p *Peel) bool {
	_, ok := slices.BinarySearch(t.IDs, p.ID)
	return ok
}

// AddressFacts are the facts with the addresses of a peel, for S@.
var AddressFacts = []string{"ipv4", "ipv6"}

// Match reports whether the term selects the peel.
func (t NetTerm) Match(p *Peel) bool {
	for _, name := range AddressFacts {
		v, ok := p.Facts[name]
		if list, isList := v.([]any); isList && slices.ContainsFunc(list, t.holds) || ok && t.holds(v) {
			return true
		}
	}
	return false
}

// holds reports whether v is a scalar that is an address in the network.
func (t NetTerm) holds(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return t.Contains(ValueText(v))
}

// Contains reports whether address is an address in the network.
func (t NetTerm) Contains(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && t.prefix.Contains(a.Unmap().WithZone(""))
}

// wordError is a mistake in a word; offset is its position in bytes.
type wordError struct {
	offset    int
	msg, hint string
}

// word parses the next token as a term.
func (p *parser) word() (Node, *SyntaxError) {
	t := p.peek()
	n, bad := p.term(t)
	if bad != nil {
		if !t.quoted {
			t.offset += bad.offset
		}
		return nil, syntaxError(p.expr, t.offset, bad.msg, bad.hint)
	}
	if p.terms++; p.terms > MaxTerms {
		return nil, p.fail(fmt.Sprintf("the expression and its node groups have more than %d terms", MaxTerms), "")
	}
	p.take()
	return n, nil
}

func (p *parser) term(t token) (Node, *wordError) {
	f, ok := cutForm(t.text)
	if !ok {
		return idGlob(t)
	}
	body := t.text[f.length:]
	if f.custom && !strings.ContainsRune("GPIJ", rune(f.letter)) {
		return nil, &wordError{1, fmt.Sprintf("%c@ takes no delimiter", f.letter), "only G, P, I and J do"}
	}
	if strings.ContainsRune(noDelimiters, f.delimiter) {
		return nil, &wordError{1, fmt.Sprintf("%q cannot be a delimiter", f.delimiter), "use % or |"}
	}
	if body == "" {
		return nil, &wordError{f.length, fmt.Sprintf("nothing follows %c@", f.letter), ""}
	}
	switch f.letter {
	case 'E':
		return idRegex(t, body)
	case 'L':
		return list(t, body)
	case 'S':
		return network(t, body)
	case 'N':
		return p.nodeGroup(t, body)
	case 'G', 'P', 'I', 'J':
		return p.fact(t, f, body)
	}
	hint := "letters are G P I J E L S N"
	if up := strings.ToUpper(string(f.letter)); strings.Contains("GPIJELSN", up) {
		hint = fmt.Sprintf("write %s@", up)
	}
	return nil, &wordError{0, fmt.Sprintf("unknown form %c@", f.letter), hint}
}

// notInIDs maps characters that IDs do not have to a hint about the form that was probably meant.
var notInIDs = map[rune]string{
	'{': "braces do not expand, use L@web-01,web-02 or E@web-(01|02)$",
	'}': "braces do not expand, use L@web-01,web-02 or E@web-(01|02)$",
	',': "a list of IDs is L@web-01,web-02",
	':': "a fact is G@key:value",
}

func idGlob(t token) (Node, *wordError) {
	if t.text == "" {
		return nil, &wordError{0, "the word is empty", "'*' selects every peel"}
	}
	g, err := compileWithin(t.text)
	if err != nil {
		return nil, &wordError{0, err.Error(), ""}
	}
	var open int
	for _, op := range g.ops {
		for _, r := range op.text {
			if hint, bad := notInIDs[r]; bad {
				return nil, &wordError{
					strings.IndexRune(t.text, r), fmt.Sprintf("a peel ID cannot contain %q", r), hint,
				}
			}
		}
		open += strings.Count(op.text, "(") - strings.Count(op.text, ")")
	}
	if open != 0 {
		return nil, &wordError{
			0, "a parenthesis in this word has no partner",
			"put a blank before a ( that opens a group and after a ) that closes one",
		}
	}
	return GlobTerm{raw(t.raw), g}, nil
}

func compileWithin(pattern string) (Glob, error) {
	if len(pattern) > MaxPattern {
		return Glob{}, fmt.Errorf("the pattern has %d bytes, more than %d", len(pattern), MaxPattern)
	}
	return CompileGlob(pattern)
}

func idRegex(t token, body string) (Node, *wordError) {
	re, err := compileRegex(body, 0)
	if err != nil {
		return nil, &wordError{2, err.Error(), ""}
	}
	return RegexTerm{raw(t.raw), re}, nil
}

// maxProgram limits the instructions of a compiled regular expression. The time of a match is proportional to them, and
// a short pattern such as x{1000} has many.
const maxProgram = 5000

// compileRegex anchors pattern at the start, as Salt does.
func compileRegex(pattern string, flags syntax.Flags) (*regexp.Regexp, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("the regular expression has %d bytes, more than %d", len(pattern), MaxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl|flags)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the regular expression: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, fmt.Errorf("the regular expression is too complex")
	}
	prefix := "^(?:"
	if flags&syntax.FoldCase != 0 {
		prefix = "^(?i:"
	}
	return regexp.Compile(prefix + pattern + ")")
}

func list(t token, body string) (Node, *wordError) {
	words := strings.Split(body, ",")
	if len(words) > MaxList {
		return nil, &wordError{2, fmt.Sprintf("the list has %d IDs, more than %d", len(words), MaxList), ""}
	}
	ids := make([]PeelID, len(words))
	offset := 2
	for i, w := range words {
		id, err := ParsePeelID(w)
		if w == "" {
			return nil, &wordError{offset, "an ID is missing in the list", "a list has no blanks and no empty elements"}
		}
		if err != nil {
			return nil, &wordError{offset, err.Error(), "a list has only IDs, no globs"}
		}
		ids[i] = id
		offset += len(w) + 1
	}
	slices.Sort(ids)
	return ListTerm{raw(t.raw), slices.Compact(ids)}, nil
}

func network(t token, body string) (Node, *wordError) {
	if a, err := netip.ParseAddr(body); err == nil {
		a = a.Unmap().WithZone("")
		return NetTerm{raw(t.raw), netip.PrefixFrom(a, a.BitLen())}, nil
	}
	prefix, err := netip.ParsePrefix(body)
	if err != nil {
		return nil, &wordError{
			2, fmt.Sprintf("%q is neither an address nor a network", body), "S@10.0.0.0/8 or S@2001:db8::/32",
		}
	}
	if prefix != prefix.Masked() {
		return nil, &wordError{
			2, fmt.Sprintf("%q has bits set after its prefix", body), "write S@" + prefix.Masked().String(),
		}
	}
	return NetTerm{raw(t.raw), prefix}, nil
}

func (p *parser) nodeGroup(t token, name string) (Node, *wordError) {
	g, ok := p.options.Groups[name]
	if !ok {
		return nil, &wordError{
			2, fmt.Sprintf("there is no node group %q", name), "nodegroups in zester.yaml defines them",
		}
	}
	if g.err != nil {
		if inner, ok := errors.AsType[*SyntaxError](g.err); ok {
			return nil, &wordError{2, fmt.Sprintf("node group %q: %s", name, inner.Msg), inner.Hint}
		}
		return nil, &wordError{2, fmt.Sprintf("node group %q: %v", name, g.err), ""}
	}
	if g.expr.usesSettings && p.options.NoSettings {
		return nil, &wordError{2, fmt.Sprintf("node group %q uses settings, which are not allowed here", name), ""}
	}
	p.usesSettings = p.usesSettings || g.expr.usesSettings
	p.terms += g.expr.terms
	return GroupTerm{raw(t.raw), g.expr}, nil
}

func (p *parser) fact(t token, f form, body string) (Node, *wordError) {
	term := &FactTerm{raw: raw(t.raw)}
	if f.letter == 'I' || f.letter == 'J' {
		if p.options.NoSettings {
			return nil, &wordError{
				0, fmt.Sprintf("%c@ uses settings, which are not allowed here", f.letter), "use facts: G@ or P@",
			}
		}
		term.source, p.usesSettings = inSettings, true
	}
	words, bad := splitPath(body, f)
	if bad != nil {
		return nil, bad
	}
	if key, value, found := strings.Cut(body, "="); found && len(words) == 1 && !t.quoted {
		hint := fmt.Sprintf("write %c@%s%c%s; a key that contains = needs quotes", f.letter, key, f.delimiter, value)
		return nil, &wordError{f.length + len(key), "= does not separate a key from its value", hint}
	}
	if len(words) == 2 && words[1] == "" && !t.quoted {
		return nil, &wordError{
			f.length + len(body), "the value is missing",
			fmt.Sprintf("%c@%s selects peels with any value, '' is the empty value", f.letter, words[0]),
		}
	}
	term.Values = make([]ValueMatcher, len(words))
	for i, w := range words {
		term.Parts = append(term.Parts, makePart(w))
		if i == 0 {
			continue
		}
		value := strings.Join(words[i:], string(f.delimiter))
		m, bad := valueFor(f.letter, value)
		if bad != nil && (i == 1 || !strings.ContainsRune("PJ", rune(f.letter))) {
			bad.offset += f.length + len(body) - len(value)
			return nil, bad
		}
		term.Values[i] = m
	}
	return term, nil
}

// splitPath splits body at its delimiters, except escaped ones.
func splitPath(body string, f form) ([]string, *wordError) {
	var words []string
	start := 0
	for i, r := range body {
		if r == f.delimiter && !escaped(body[start:i]) {
			words = append(words, body[start:i])
			start = i + len(string(r))
		}
	}
	words = append(words, body[start:])
	if len(words) > MaxParts {
		return nil, &wordError{f.length, fmt.Sprintf("the path has %d parts, more than %d", len(words), MaxParts), ""}
	}
	if words[0] == "" {
		return nil, &wordError{f.length, "the path begins with its delimiter", ""}
	}
	return words, nil
}

// escaped reports whether s ends with a backslash that escapes the next character.
func escaped(s string) bool { return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1 }

// valueFor compiles the matcher of a value.
func valueFor(letter byte, value string) (ValueMatcher, *wordError) {
	if letter == 'P' || letter == 'J' {
		re, err := compileRegex(value, syntax.FoldCase)
		if err != nil {
			return nil, &wordError{0, err.Error(), ""}
		}
		return regexValue{re}, nil
	}
	if op, operand := cutOperator(value); op != "" {
		n, ok := parseNumber(strings.ToLower(operand))
		if !ok {
			return nil, &wordError{
				len(op), fmt.Sprintf("%s compares with a number, not with %q", op, operand),
				`for a value that begins with it write \` + op,
			}
		}
		return comparison{op, n}, nil
	}
	g, err := compileWithin(strings.ToLower(value))
	if err != nil {
		return nil, &wordError{0, err.Error(), ""}
	}
	return g, nil
}
