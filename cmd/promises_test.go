package cmd_test

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A figure is a number that a page prints: an expression over the constants of a package, with those of time.
type figure struct{ pkg, expr string }

const (
	securityPage = "../SECURITY.md"
	guidePages   = "zester/guide/"
)

// figures are sentences of SECURITY.md and the guide about bounds. Each %s is the next figure.
var figures = []struct {
	page, sentence string
	figures        []figure
}{
	{securityPage, "A connection has at most %s subscriptions.", []figure{{"master/auth/grants", "peelSubscriptions"}}},
	{securityPage, "If a peel has more than %s connections, the embedded server closes the oldest.", []figure{{"master", "maxConnections"}}},
	{securityPage, "Beyond that it may use a %s.", []figure{{"master/quota", "parts"}}},
	{
		securityPage, "Of each user %s entries about each noun (jobs, users, tokens) are stored at once and then %s a second",
		[]figure{{"master/audit", "entriesAtOnce"}, {"master/audit", "time.Second / entryEvery"}},
	},
	{
		securityPage, "for each file and for a revision as a whole: %s MiB or %s million values",
		[]figure{{"reconciler/plan", "maxBytes >> 20"}, {"reconciler/plan", "maxValues / 1000000"}},
	},
	{securityPage, "what new facts of peels would take as well, together within %s hours", []figure{{"reconciler/record", "FactsWindow / time.Hour"}}},
	{
		securityPage, "read at most %s KiB of an answer, and wait %s seconds for it",
		[]figure{{"master/login", "maxAnswer >> 10"}, {"master/login", "answerTime / time.Second"}},
	},
	{
		securityPage, "**A credential of a person** ends after %s days unless", []figure{days("master/auth/credential", "UserLife")},
	},
	{securityPage, "for at most %s days at a time, with a proof of its key", []figure{days("master/auth/credential", "UserLife")}},
	{securityPage, "`zester doctor` warns %s days before.", []figure{days("cmd/zester", "endsSoon")}},
	{securityPage, "**A credential of a peel** ends after %s days unless it is renewed", []figure{days("master/auth/enroll", "PeelLife")}},
	{securityPage, "**A credential of a master** without the keys ends after %s days", []figure{days("cmd/zester", "masterLife")}},
	{securityPage, "A token has %s random bits", []figure{{"master/auth/credential", "secretBytes * 8"}}},
	{securityPage, "is a cookie of %s random bits", []figure{{"master/session", "secretBytes * 8"}}},
	{securityPage, "in parts of %s bytes or more", []figure{{"peel/prompt", "hiddenPart"}}},
	{
		securityPage, "%s open actions of one user, %s in seven days",
		[]figure{{"master/api", "HoldMaxOpenUser"}, {"master/api", "HoldMaxKeptUser"}},
	},
	{
		securityPage, "Each user may record %s calls at once and then %s a minute",
		[]figure{{"master/apiserver", "callsAtOnce"}, {"master/apiserver", "time.Minute / callEvery"}},
	},
	{securityPage, "with escapes for what does not show, up to %s KiB", []figure{{"master/mcp", "maxData >> 10"}}},
	{securityPage, "sent again has no effect for %s minutes", []figure{{"reconciler/webhook", "replayWindow / time.Minute"}}},
	{securityPage, "together they take at most a %s of one processor", []figure{{"reconciler/pulls", "restFactor + 1"}}},
	{
		securityPage, "if they have at least %s bytes: as they are", []figure{{"peel/mask", "minSecret"}},
	},
	{
		securityPage, "Secrets of %s to %s bytes that are common words",
		[]figure{{"peel/mask", "minSecret"}, {"peel/mask", "noWord - 1"}},
	},
	{
		securityPage, "which the bus keeps for %s days and other operators and auditors can read",
		[]figure{days("master/natsd", "jobRetention")},
	},
	{securityPage, "Job records keep them for %s days", []figure{days("master/natsd", "jobRetention")}},
	{securityPage, "and the audit log keeps the %s KiB of each", []figure{{"master/audit", "entryValue >> 10"}}},
	{securityPage, "begins more than %s TLS handshakes a second for each processor", []figure{{"master/natsd", "handshakesEach * time.Second / handshakeTime"}}},
	{
		securityPage, "Records are kept for %s days, in 1 GiB for %s records",
		[]figure{days("master/natsd", "jobRetention"), {"master/natsd", "maxMessages"}},
	},
	{securityPage, "each further record of this user is kept for %s minutes", []figure{{"master/dispatch", "shortHistory / time.Minute"}}},

	{
		"api.md", "A token may send %s requests a second. After %s wrong tokens from an address",
		[]figure{{"master/rest", "requestsPerSecond"}, {"master/rest", "guessesAtOnce"}},
	},
	{
		"api.md", "A master accepts %s connections, %s from one address",
		[]figure{{"master/rest", "maxConnections"}, {"master/rest", "maxConnectionsEach"}},
	},
	{
		"api.md", "It serves %s event streams at once, %s of one token and %s of one address",
		[]figure{{"master/rest", "maxStreams"}, {"master/rest", "tokenStreams"}, {"master/rest", "addressStreams"}},
	},
	{"api.md", "entries without metrics, beyond %s", []figure{{"master/coverage", "MaxMetricEntries"}}},
	{"api.md", "with the first %s bytes of the error", []figure{{"master/otel", "maxText"}}},
	{"api.md", "makes one commit, for %s days", []figure{days("reconciler/propose", "keyLife")}},
	{"console.md", "A person has at most %s sessions", []figure{{"master/session", "most"}}},
	{
		"console.md", "A session ends %s minutes after the last page that you opened, after %s hours in any case",
		[]figure{{"master/session", "DefaultIdle / time.Minute"}, {"master/session", "DefaultLife / time.Hour"}},
	},
	{"console.md", "From %s peels on, and for the target `*`, the number has to be typed", []figure{{"master/console", "manyPeels"}}},
	{"alerts.md", "at most once in %s minutes", []figure{{"master/alert/rules", "growEvery / time.Minute"}}},
	{"alerts.md", "when its trouble has been gone for %s minutes", []figure{{"master/alert/rules", "endAfter / time.Minute"}}},
	{
		"alerts.md", "A rule has at most %s alerts about entries: at most %s count against one peel, %s are about one peel alone",
		[]figure{{"master/alert/rules", "MaxOfRule"}, {"master/alert/rules", "maxOfPeel"}, {"master/alert/rules", "maxAlone"}},
	},
	{"assistants.md", "than its limit waits for %s hours", []figure{{"master/api", "HoldLifetime / time.Hour"}}},
	{
		"assistants.md", "A user may make %s calls at once, and then %s a minute",
		[]figure{{"master/apiserver", "callsAtOnce"}, {"master/apiserver", "time.Minute / callEvery"}},
	},
	{"assistants.md", "data beyond %s KiB is left out", []figure{{"master/mcp", "maxData >> 10"}}},
	{"peels.md", "A prompt has up to %s KiB", []figure{{"peel/prompt", "maxPrompt >> 10"}}},
	{"peels.md", "A credential is valid for %s days", []figure{days("master/auth/enroll", "PeelLife")}},
	{"running.md", "A master's credential lasts for %s days", []figure{days("cmd/zester", "masterLife")}},
	{"running.md", "A credential is valid for %s days, or as", []figure{days("master/auth/credential", "UserLife")}},
	{"running.md", "`zester doctor` warns %s days before the end", []figure{days("cmd/zester", "endsSoon")}},
	{
		"running.md", "Entries are kept for `audit_retention` (%s days) or %s GiB",
		[]figure{days("master/natsd", "AuditRetention"), {"master/natsd", "auditBytes >> 30"}},
	},
	{"running.md", "shows what the next %s hours would be like", []figure{{"cmd/zester/horizon", "Length / time.Hour"}}},
	{"login.md", "valid for %s days", []figure{days("master/auth/credential", "UserLife")}},
	{"login.md", "`zester doctor` warns her %s days before", []figure{days("cmd/zester", "endsSoon")}},
	{
		"states.md", "files up to %s MiB, %s MiB in all, of %s runs, for root alone",
		[]figure{{"peel/state", "maxKeptFile >> 20"}, {"peel/state", "maxKept >> 20"}, {"peel/state", "maxKeptRuns"}},
	},
	{
		"states.md", "%s MiB a file, %s MiB a peel.",
		[]figure{{"settings/content", "MaxFile >> 20"}, {"settings/content", "MaxPeel >> 20"}},
	},
	{"review.md", "facts took from peels within %s hours counts together", []figure{{"reconciler/record", "FactsWindow / time.Hour"}}},
	{"review.md", "stored on the bus (at most %s MiB each, compressed)", []figure{{"reconciler/archive", "maxPacked >> 20"}}},
	{"schedules.md", "at most %s KiB of an entry", []figure{{"peel/ledger", "maxPast >> 10"}}},
	{"schedules.md", "with their reasons, for %s days", []figure{days("master/why", "maxBack")}},
	{"salt.md", "if the next %s times by Salt's rule", []figure{{"cmd/zester/movein", "provenTimes"}}},
	{"jobs.md", "which are kept for %s days", []figure{days("master/natsd", "jobRetention")}},
}

func days(pkg, name string) figure { return figure{pkg, name + " / (24 * time.Hour)"} }

// TestPagesPrintTheBoundsOfTheCode holds the figures of SECURITY.md and the guide to the constants that the programs use.
func TestPagesPrintTheBoundsOfTheCode(t *testing.T) {
	packages := map[string]constants{}
	pages := map[string]string{}
	for _, f := range figures {
		if pages[f.page] == "" {
			pages[f.page] = pageText(t, f.page)
		}
		want := [3]string{f.sentence, f.sentence, f.sentence}
		for _, g := range f.figures {
			if packages[g.pkg] == nil {
				packages[g.pkg] = constantsOf(t, g.pkg)
			}
			for i, number := range printed(packages[g.pkg].value(t, g.expr)) {
				want[i] = strings.Replace(want[i], "%s", number, 1)
			}
		}
		says := func(sentence string) bool { return strings.Contains(pages[f.page], sentence) }
		if !slices.ContainsFunc(want[:], says) {
			t.Errorf("%s does not say %q", path.Base(f.page), want[0])
		}
	}
}

// pageText returns a page with one space between words, as lines of the guide are wrapped.
func pageText(t *testing.T, page string) string {
	t.Helper()
	if page != securityPage {
		page = guidePages + page
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// printed returns a number in digits, as a cardinal and as an ordinal, where the pages use the word.
func printed(n int64) [3]string {
	number := strconv.FormatInt(n, 10)
	for i := len(number) - 3; i > 0; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	cardinals := map[int64]string{3: "three", 4: "four", 5: "five", 8: "eight", 10: "ten"}
	ordinals := map[int64]string{1: "first", 5: "fifth", 16: "sixteenth"}
	return [3]string{number, cmp.Or(cardinals[n], number), cmp.Or(ordinals[n], number)}
}

// constants are the constants of a package by name.
type constants map[string]ast.Expr

func constantsOf(t *testing.T, pkg string) constants {
	t.Helper()
	all := constants{}
	files, err := filepath.Glob("../" + pkg + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no package %s: %v", pkg, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				all.add(g)
			}
		}
	}
	return all
}

func (c constants) add(g *ast.GenDecl) {
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		for i, name := range v.Names {
			if i < len(v.Values) {
				c[name.Name] = v.Values[i]
			}
		}
	}
}

// value returns the value of an expression, which must be a whole number.
func (c constants) value(t *testing.T, expr string) int64 {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := constant.Int64Val(constant.ToInt(c.eval(e)))
	if !ok {
		t.Fatalf("%s is no whole number, or has a constant that is not in the package", expr)
	}
	return n
}

var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

func (c constants) eval(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return c.eval(e.X)
	case *ast.Ident:
		if c[e.Name] != nil {
			return c.eval(c[e.Name])
		}
	case *ast.SelectorExpr:
		if u := units[e.Sel.Name]; u != 0 {
			return constant.MakeInt64(int64(u))
		}
	case *ast.BinaryExpr:
		x, y := c.eval(e.X), c.eval(e.Y)
		if x.Kind() == constant.Unknown || y.Kind() == constant.Unknown {
			return constant.MakeUnknown()
		}
		if e.Op == token.SHL || e.Op == token.SHR {
			s, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(s))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	return constant.MakeUnknown()
}

// TestSecurityNamesTestsThatExist reads which tests SECURITY.md names.
func TestSecurityNamesTestsThatExist(t *testing.T) {
	var sources strings.Builder
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		sources.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(pageText(t, securityPage), -1)
	if len(named) < 20 {
		t.Errorf("%s names %d tests", securityPage, len(named))
	}
	for _, name := range named {
		if !strings.Contains(sources.String(), "\nfunc "+name[1]+"(t *testing.T)") {
			t.Errorf("%s names %s, which is no test", securityPage, name[1])
		}
	}
}
