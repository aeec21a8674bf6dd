package target_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var fleet = []target.Peel{
	{ID: "web-01", Facts: target.Facts{
		"os": "Ubuntu", "mem_mb": int64(8192), "virtual": true, "load": 2.0, "name": "Red Hat (old)",
		"ipv4": []any{"10.1.2.3", "192.168.0.1"}, "ipv6": []any{"2001:db8::1", "fe80::1%eth0"},
		"disks": []any{
			map[string]any{"dev": "sda", "gb": int64(100)},
			map[string]any{"dev": "sdb", "gb": int64(900)},
		},
		"net": map[string]any{"eth0": map[string]any{"mac": "aa:bb:cc"}, "Key": "x"},
		"url": "http://a:80", "empty": "", "null": nil, "ports": []any{int64(22), int64(80)},
	}, Settings: map[string]any{"role": "front", "tier": []any{"a", "b"}}},
	{ID: "web-02.dc1", Facts: target.Facts{"os": "Debian", "mem_mb": "4096", "virtual": false, "ipv4": "10.200.0.1"}},
	{ID: "db-01", Facts: target.Facts{"os": "Debian", "mem_mb": "a lot"}},
	{ID: "and"},
}

func matching(e *target.Expr) string {
	var ids []string
	for _, p := range fleet {
		if e.Match(p) {
			ids = append(ids, string(p.ID))
		}
	}
	return strings.Join(ids, " ")
}

// expressions are expressions with the peels of fleet that they select.
var expressions = []struct{ expr, want string }{
	{"*", "web-01 web-02.dc1 db-01 and"},
	{"web-0[1-3]", "web-01"},
	{"[d-wa]*", "web-01 web-02.dc1 db-01 and"},
	{"[!w]*-01", "db-01"},
	{"Web-*", ""},
	{"@x", ""},
	{"'and'", "and"},
	{`web-\01`, "web-01"},
	{"E@web", "web-01 web-02.dc1"},
	{"E@eb", ""},
	{"E@(web|db)-01$", "web-01 db-01"},
	{"E@x|db", "db-01"},
	{"(E@([a-z)]+)-01$)", "web-01 db-01"},
	{"L@db-01,nowhere,db-01", "db-01"},
	{"G@os:UBUNTU", "web-01"},
	{"G@OS:ubuntu", ""},
	{"G@os", "web-01 web-02.dc1 db-01"},
	{"G@null", "web-01"},
	{"G@null:*", "web-01"},
	{"G@empty:''", "web-01"},
	{"G@os:deb* and web*", "web-02.dc1"},
	{"not G@os:Debian", "web-01 and"},
	{"G@virtual:True", "web-01"},
	{"G@load:2.0", "web-01"},
	{`G@name:Red\ Hat*`, "web-01"},
	{`G@name:"red hat (old)"`, "web-01"},
	{`(G@name:'red hat (old)' or db-01)`, "web-01 db-01"},
	{`G@name:*(old)`, "web-01"},
	{"G@net:eth0:mac:aa:bb:cc", "web-01"},
	{"G@net:*:mac:aa:*", "web-01"},
	{"G|@net|eth0|mac|aa:bb:cc", "web-01"},
	{"G@net:eth0", "web-01"},
	{"G@net:key", ""},
	{"G@url:http://a:80", "web-01"},
	{"G@disks:dev:sdb", "web-01"},
	{"G@disks:1:dev:sdb", "web-01"},
	{"G@disks:0:dev:sdb", ""},
	{"G@disks:*:dev:sdb", "web-01"},
	{"G@ports:80", "web-01"},
	{"G@ports:1", ""},
	{"G@mem_mb:>=4096", "web-01 web-02.dc1"},
	{"G@mem_mb:>4096", "web-01"},
	{"G@mem_mb:<=4096.0", "web-02.dc1"},
	{"G@mem_mb:<1e4", "web-01 web-02.dc1"},
	{"G@mem_mb:!=4096", "web-01"},
	{"G@disks:gb:>500", "web-01"},
	{"P@os:(deb|ubu)", "web-01 web-02.dc1 db-01"},
	{"P@os:u", "web-01"},
	{"P@os:untu", ""},
	{"P@url:http://.:80$", "web-01"},
	{"I@role:FRONT", "web-01"},
	{"J@tier:[ab]$", "web-01"},
	{"S@10.0.0.0/8", "web-01 web-02.dc1"},
	{"S@10.1.2.3 or S@::ffff:10.200.0.1", "web-01 web-02.dc1"},
	{"S@2001:db8::/32", "web-01"},
	{"S@fe80::1", "web-01"},
	{"N@some", "web-01 db-01"},
	{"N@both", "web-02.dc1"},
	{"N@deb not 'and'", "web-02.dc1 db-01"},
	{"web-01 or db-01 and G@os:ubuntu", "web-01"},
	{"(web-01 or db-01) and G@os:debian", "db-01"},
	{"not(web-* or db-*)", "and"},
	{"not not db-01", "db-01"},
	{"((db-01))", "db-01"},
	{"* not web-01 not db-01", "web-02.dc1 and"},
}

func TestExpressionsSelectAndAreWrittenAgain(t *testing.T) {
	groups, errs := target.ParseGroups(map[string][]string{
		"web": {"web-*"}, "some": {"web-01", "db-01"}, "deb": {"G@os:debian or 'and'"}, "both": {"N@web", "and", "N@deb"},
	})
	if errs != nil {
		t.Fatal(errs)
	}
	for _, c := range expressions {
		e, err := target.Parse(c.expr, target.Options{Groups: groups})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		if got := matching(e); got != c.want {
			t.Errorf("%s matches %q, want %q", c.expr, got, c.want)
		}
		again, err := target.Parse(e.String(), target.Options{Groups: groups})
		if err != nil || matching(again) != c.want || again.String() != e.String() {
			t.Errorf("%s is written as %s, which means something else (%v)", c.expr, e, err)
		}
	}
}

var longPattern = strings.Repeat("x", target.MaxPattern+1)

// mistakes are expressions with what is wrong with them.
var mistakes = []struct {
	expr   string
	column int
	msg    string
}{
	{"", 1, "the expression is empty ('*' selects every peel)"},
	{"  ", 3, "the expression is empty"},
	{"and true", 1, `"and" needs a term before it`},
	{"a and", 6, "the expression ends where a term must follow"},
	{"a or or b", 6, `"or" needs a term before it`},
	{"not", 4, "the expression ends"},
	{"a b", 3, "two terms without an operator (write and or or between them"},
	{"a AND b", 3, "two terms without an operator (write and in lower case)"},
	{"a (b)", 3, "two terms without an operator"},
	{"(a) (b)", 5, "two terms without an operator"},
	{"ä* b", 4, "two terms without an operator"},
	{"G@os:Red Hat", 10, "two terms without an operator"},
	{"G@true and (I@true", 12, "this ( is never closed"},
	{"a)", 2, "this ) has no ("},
	{"()", 2, "a term is missing before this )"},
	{"a(b or c)", 1, "a parenthesis in this word has no partner"},
	{"web-[1", 1, "has no closing ]"},
	{"web-[3-1]", 1, "range 3-1 runs backwards"},
	{"web-[^1]", 1, `a glob is negated by "[!"`},
	{`web-\`, 1, `"web-\\" ends with a backslash`},
	{"web-{1,2}", 5, `a peel ID cannot contain '{' (braces do not expand`},
	{"a or web1,web2", 10, `a peel ID cannot contain ',' (a list of IDs is L@web-01,web-02)`},
	{"os:ubuntu", 3, `a peel ID cannot contain ':' (a fact is G@key:value)`},
	{"''", 1, "the word is empty"},
	{"a or 'b", 6, "the quote is never closed"},
	{"G@a:'b'c", 8, "the word goes on after its closing quote"},
	{"E@(a", 3, "missing closing )"},
	{"a and P@os:(a", 12, "missing closing )"},
	{"E@" + longPattern, 3, "the regular expression has 1025 bytes, more than 1024"},
	{"E@(x{1000}y){1}{9}", 3, "invalid nested repetition"},
	{`E@[\pL]{900}` + strings.Repeat("x{900}", 9), 3, "too complex"},
	{longPattern, 1, "the pattern has 1025 bytes, more than 1024"},
	{"L@a, b", 5, "an ID is missing in the list (a list has no blanks and no empty elements)"},
	{"L@a,b*", 5, `peel ID "b*" has '*' at 2`},
	{"L@" + strings.Repeat("a,", target.MaxList) + "a", 3, "the list has 10001 IDs, more than 10000"},
	{"S@not-an-ip", 3, `"not-an-ip" is neither an address nor a network`},
	{"S@10.0.0.1/8", 3, `"10.0.0.1/8" has bits set after its prefix (write S@10.0.0.0/8)`},
	{"N@nowhere", 3, `there is no node group "nowhere"`},
	{"N@loop", 3, `node group "loop": it uses itself: loop > loop2 > loop`},
	{"a or N@loop2", 8, `node group "loop2": node group "loop": it uses itself`},
	{"R@a", 1, "unknown form R@ (letters are G P I J E L S N)"},
	{"g@os:x", 1, "unknown form g@ (write G@)"},
	{"G@", 3, "nothing follows G@"},
	{"G@os:", 6, "the value is missing (G@os selects peels with any value, '' is the empty value)"},
	{"G@:x", 3, "the path begins with its delimiter"},
	{"G@a:b:>=x", 9, `>= compares with a number, not with "x" (for a value that begins with it write \>=)`},
	{"G@a:[", 5, "has no closing ]"},
	{"E%@a", 2, "E@ takes no delimiter"},
	{"G*@a*b", 2, "'*' cannot be a delimiter"},
	{"G@" + strings.Repeat("a:", target.MaxParts) + "a", 3, "the path has 65 parts, more than 64"},
	{strings.Repeat("(", 200), target.MaxDepth + 1, "nested deeper than 100"},
	{strings.Repeat("not ", 200), 4*target.MaxDepth + 1, "nested deeper than 100"},
	{"a\xff", 2, "not valid UTF-8"},
	{strings.Repeat("a", target.MaxLength+1), 1, "the expression has 262145 bytes, more than 262144"},
	{strings.Repeat("a or ", target.MaxTerms) + "a", 5*target.MaxTerms + 1, "more than 10000 terms"},
}

func TestMistakesNameTheirColumn(t *testing.T) {
	groups, _ := target.ParseGroups(map[string][]string{"loop": {"N@loop2"}, "loop2": {"N@loop"}})
	for _, c := range mistakes {
		_, err := target.Parse(c.expr, target.Options{Groups: groups})
		syntax, ok := err.(*target.SyntaxError)
		if !ok || syntax.Column != c.column || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%.40s gives %v, want column %d: %s", c.expr, err, c.column, c.msg)
		}
	}
}

func TestExpressionsOnSettingsAreRefusedWithNoSettings(t *testing.T) {
	groups, _ := target.ParseGroups(map[string][]string{"s": {"I@a:b"}})
	others, _ := target.ParseGroups(map[string][]string{"s": {"web-*"}})
	for _, expr := range []string{"a or I@a:b", "a or J@a:b", "a or N@s"} {
		e, err := target.Parse(expr, target.Options{Groups: groups})
		if err != nil || !e.UsesSettings() {
			t.Errorf("%s: %v", expr, err)
		}
		if _, err := target.Parse(expr, target.Options{Groups: groups, NoSettings: true}); err == nil {
			t.Errorf("%s was not refused", expr)
		}
	}
	if e, err := target.Parse("a or N@s", target.Options{Groups: others}); err != nil || e.UsesSettings() {
		t.Errorf("settings are used without I@ and J@ (%v)", err)
	}
}

func TestGroupsThatAreFineAreUsableBesideBrokenOnes(t *testing.T) {
	groups, errs := target.ParseGroups(map[string][]string{
		"ok": {"db-*"}, "none": nil, "bad": {"a b"}, "globs": {"a", "b*"}, "unknown": {"N@x"},
	})
	want := []string{
		`node group "bad": cannot parse target "a b": column 3: two terms without an operator (write and or or between them; a value with a blank needs quotes)`,
		`node group "globs": a list without operators is a list of IDs: peel ID "b*" has '*' at 2, allowed are letters, digits, '.', '_' and '-'`,
		`node group "none": it is empty`,
		`node group "unknown": cannot parse target "N@x": column 3: there is no node group "x" (nodegroups in zester.yaml defines them)`,
	}
	for i, err := range errs {
		if i >= len(want) || err.Error() != want[i] {
			t.Errorf("error %d is %v", i, err)
		}
	}
	if len(errs) != len(want) {
		t.Errorf("%d errors, want %d", len(errs), len(want))
	}
	e, err := target.Parse("N@ok", target.Options{Groups: groups})
	if err != nil || matching(e) != "db-01" {
		t.Errorf("%v", err)
	}
}

func TestGroupsCannotMultiply(t *testing.T) {
	defs := map[string][]string{"g0": {"a or a"}}
	for i := range 30 {
		defs[fmt.Sprint("g", i+1)] = []string{fmt.Sprintf("N@g%d or N@g%d", i, i)}
	}
	groups, _ := target.ParseGroups(defs)
	if _, err := target.Parse("N@g10", target.Options{Groups: groups}); err != nil {
		t.Error(err)
	}
	if _, err := target.Parse("N@g30", target.Options{Groups: groups}); err == nil || !strings.Contains(err.Error(), "more than 10000 terms") {
		t.Errorf("a group of 2^30 terms gives %v", err)
	}
}

func TestListsReturnsAllPeelsOfLists(t *testing.T) {
	groups, _ := target.ParseGroups(map[string][]string{"g": {"z", "a"}})
	e, err := target.Parse("L@c,b and (not N@g or L@b,d) and web-*", target.Options{Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(e.Lists()); got != "[a b c d z]" {
		t.Errorf("Lists = %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"*", "web-* and G@os:ubuntu", "(a or b) not c", "E@(a|b)$", "L@a,b", "G%@a%b", "P@a:b:(c)", "S@10.0.0.0/8", "N@g",
		`G@a:"b c"`, `G@a:b\ c`, "not(a)", "a(b)c", "[a-z]x", "G@a:>=1", "I@x or J@y:z", `'and' or "or"`, "((a)) or (G@x:(y))",
		`G@a\:b:c`, "E@[)]x", "G@a:b)c", "(G@a:[)])", "@x", "G@a:>1:!=2",
	} {
		f.Add(s)
	}
	groups, _ := target.ParseGroups(map[string][]string{"g": {"a"}})
	f.Fuzz(func(t *testing.T, s string) {
		e, err := target.Parse(s, target.Options{Groups: groups})
		if err != nil {
			if syntax := err.(*target.SyntaxError); syntax.Column < 1 || syntax.Column > len(s)+1 || syntax.Msg == "" {
				t.Fatalf("%q: %#v", s, err)
			}
			return
		}
		again, err := target.Parse(e.String(), target.Options{Groups: groups})
		if err != nil {
			t.Fatalf("%q is written as %q: %v", s, e, err)
		}
		if again.String() != e.String() {
			t.Fatalf("%q is written as %q, then as %q", s, e, again)
		}
		ix := peelindex.New()
		for _, p := range fleet {
			if e.Match(p) != again.Match(p) {
				t.Fatalf("%q and %q differ on %s", s, e, p.ID)
			}
			ix.Put(p.ID, p.Facts)
			ix.PutSettings(p.ID, p.Settings)
		}
		for _, p := range fleet {
			if _, ok := slices.BinarySearch(ix.Select(e), p.ID); ok != e.Match(p) {
				t.Fatalf("%q: index says %v on %s", s, ok, p.ID)
			}
		}
	})
}

func TestExpandedNeedsNoGroups(t *testing.T) {
	groups, errs := target.ParseGroups(map[string][]string{
		"web": {"web-*"}, "both": {"N@web", "or", "db-1"}, "ids": {"db-1", "db-2"}, "not": {"not N@both"},
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for text, want := range map[string]string{
		"N@web":               "web-*",
		"N@both and G@os:x":   "( web-* or db-1 ) and G@os:x",
		"not N@both or N@ids": "not ( web-* or db-1 ) or L@db-1,db-2",
		"not N@not":           "not not ( web-* or db-1 )",
		"a* and N@web":        "a* and web-*",
	} {
		e, err := target.Parse(text, target.Options{Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Expanded(); got != want {
			t.Errorf("%s is written out as %s, want %s", text, got, want)
		}
		alone, err := target.Parse(e.Expanded(), target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []target.PeelID{"web-1", "db-1", "db-2", "a1", "x"} {
			p := target.Peel{ID: id, Facts: target.Facts{"os": "x"}}
			if e.Match(p) != alone.Match(p) {
				t.Errorf("%s and %s differ about %s", text, e.Expanded(), id)
			}
		}
	}
}
