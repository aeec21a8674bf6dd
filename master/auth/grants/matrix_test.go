package grants_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const jid = wire.JID("2abcdefghijklmnopqrstuvwxyz")

// actors are who tries, a site for its peel of that name; other is a name that nobody has.
var actors = map[grants.Role]string{
	grants.RolePeel:     "peel-a",
	grants.RoleSite:     "peel-s",
	grants.RoleOperator: "ann",
	grants.RoleDirect:   "dan",
	grants.RoleLimited:  "lee",
	grants.RoleAuditor:  "eve",
	grants.RoleMember:   "mia",
	grants.RoleObserver: "prom",
	grants.RoleMaster:   "m1",
}

const other = "other"

func names() []string { return append(slices.Collect(maps.Values(actors)), other, "Peel-a") }

// probes are who may, by subject.
type probes map[string]roles

// expect enters what is decided of a subject for all but masters, who may whatever is of zester, the buckets and the streams.
func (p probes) expect(t *testing.T, subject string, may roles) {
	t.Helper()
	s := jwt.Subject(subject)
	if s.IsContainedIn("zester.>") || s.IsContainedIn("$KV.>") || s.IsContainedIn("$JS.>") {
		may = append(slices.Clone(may), grants.RoleMaster)
	}
	p.exactly(t, subject, may)
}

func (p probes) exactly(t *testing.T, subject string, may roles) {
	t.Helper()
	may = slices.Compact(slices.Sorted(slices.Values(may)))
	if earlier, ok := p[subject]; ok && !slices.Equal(earlier, may) {
		t.Errorf("two things are decided of %s: %v and %v", subject, earlier, may)
	}
	p[subject] = may
}

// of are those of some roles whose actor has a name.
func of(some roles, name string) roles {
	return slices.DeleteFunc(slices.Clone(some), func(r grants.Role) bool { return actors[r] != name })
}

// A system is what runs on a bus, as the bus tells it.
type system struct {
	streams []jetstream.StreamConfig
	heard   []string // subjects of zester and the buckets on which somebody listens
	calls   []string // on which masters answer, without who asks

	say, hear probes // what is tried of all that
}

// publishes is what must happen to everything that can be said.
func (s *system) publishes(t *testing.T) probes {
	p := probes{}
	for _, k := range kinds() {
		for _, name := range append(names(), "peel-a.x") {
			if subject := k.of(jid, name); !strings.ContainsAny(subject, "*>") {
				p.expect(t, subject, of(k.speak, name))
			}
		}
	}
	for _, call := range s.calls {
		may, decided := calls[call]
		if !decided {
			t.Errorf("masters answer on %s, and nobody has decided who may ask", call)
		}
		for _, name := range names() {
			p.expect(t, call+"."+name, of(withMember(may), name))
		}
	}
	apis := streamAPIs(t)
	for _, below := range inspectsAll {
		p.expect(t, "$JS.API."+below, observers)
	}
	for _, c := range s.streams {
		for _, below := range inspects {
			p.expect(t, "$JS.API."+fmt.Sprintf(below, c.Name), observers)
		}
		exceptions, decided := stores[c.Name]
		if !decided {
			t.Errorf("the bus has the stream %s, and nobody has decided who may do what with it", c.Name)
		}
		for below, may := range exceptions {
			p.exactly(t, "$JS.API."+below, may)
		}
		for _, subject := range slices.Concat(apis(c.Name), touch(c)) {
			if _, decided := exceptions[strings.TrimPrefix(subject, "$JS.API.")]; !decided && p[subject] == nil {
				p.expect(t, subject, nobody)
			}
		}
	}
	for subject, may := range publishBeyond {
		p.exactly(t, subject, may)
	}
	return p
}

// touch are subjects that reach a stream without its API.
func touch(c jetstream.StreamConfig) []string {
	subjects := []string{"$JS.ACK." + c.Name + ".c.1.1.1.1.0", "$JS.FC." + c.Name + ".c.x", "$JS.API.DIRECT.GET." + c.Name + ".$KV.settings.other"}
	if bucket, ok := strings.CutPrefix(c.Name, "KV_"); ok {
		for _, name := range names() {
			subjects = append(subjects, "$KV."+bucket+"."+name)
		}
		subjects = append(subjects, "$KV."+bucket+"."+string(jid)+".peel-a", "$KV."+bucket+"."+string(jid), "$KV."+bucket+".targets."+string(jid)+".0")
	}
	return subjects
}

// subscriptions is what must happen to everything that can be listened to.
func (s *system) subscriptions(t *testing.T) probes {
	p := probes{}
	for _, k := range kinds() {
		for _, which := range []wire.JID{jid, "*"} {
			for _, name := range names() {
				p.expect(t, k.of(which, name), append(of(k.own, name), k.all...))
			}
			p.expect(t, k.of(which, "*"), k.all)
		}
	}
	for _, call := range s.calls {
		if p[call+".*"] == nil {
			p.expect(t, call+".*", nobody)
		}
	}
	for _, c := range s.streams {
		for _, subject := range append(touch(c), "$KV."+strings.TrimPrefix(c.Name, "KV_")+".>", "$JS.EVENT.METRIC."+c.Name, "$JS.API.*."+c.Name) {
			p.expect(t, subject, nobody)
		}
	}
	for subject, may := range hearBeyond {
		p.exactly(t, subject, may)
	}
	return p
}

func kinds() []kind { return slices.Concat(append(slices.Collect(maps.Values(subjects)), beyond)...) }

// streamAPIs reads from the source of the server that go.mod names what can be asked of a stream, and returns the subjects
// for one.
func streamAPIs(t *testing.T) func(stream string) []string {
	t.Helper()
	var patterns []string
	for _, value := range declared(t, dirOf(t, "github.com/nats-io/nats-server/v2/server")+"/jetstream_api.go").constants {
		if strings.HasPrefix(value, "$JS.API.") && !strings.HasSuffix(value, ".") {
			patterns = append(patterns, strings.ReplaceAll(value, "%s", "*"))
		}
	}
	if len(patterns) < 50 {
		t.Fatalf("the server's source tells of %d calls alone", len(patterns))
	}
	return func(stream string) (subjects []string) {
		for _, pattern := range patterns {
			subject := strings.Replace(pattern, "*", stream, 1)
			subjects = append(subjects, strings.NewReplacer("*", "c", ">", "c").Replace(subject))
		}
		slices.Sort(subjects)
		return slices.Compact(subjects)
	}
}

func dirOf(t *testing.T, pkg string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// declarations are a file's constants of text, and its functions whose only result is one.
type declarations struct {
	constants map[string]string
	functions []string
}

func declared(t *testing.T, file string) declarations {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := declarations{constants: map[string]string{}}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if r := n.Type.Results; n.Recv == nil && n.Name.IsExported() && r != nil && len(r.List) == 1 {
				if result, ok := r.List[0].Type.(*ast.Ident); ok && result.Name == "string" {
					d.functions = append(d.functions, n.Name.Name)
				}
			}
			return false
		case *ast.ValueSpec:
			for i, value := range n.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					d.constants[n.Names[i].Name], _ = strconv.Unquote(literal.Value)
				}
			}
		}
		return true
	})
	return d
}

// What is tried is what is in the table, so whatever peel/wire names has to be there.
func TestEverySubjectIsDecided(t *testing.T) {
	files, err := filepath.Glob("../../../peel/wire/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		d := declared(t, file)
		for _, name := range d.functions {
			found[name] = true
		}
		for name, value := range d.constants {
			if ast.IsExported(name) && (strings.HasPrefix(value, "zester.") && name != "MastersQueue" || strings.HasPrefix(value, "$")) {
				found[name] = true
			}
		}
	}
	for name := range found {
		if _, decided := subjects[name]; !decided {
			t.Errorf("nobody has decided who may publish and hear what wire.%s names", name)
		}
	}
	for name := range subjects {
		if !found[name] {
			t.Errorf("it is decided of wire.%s, which is not there", name)
		}
	}
}

func TestEveryRoleTries(t *testing.T) {
	found := 0
	for name, value := range declared(t, "permission.go").constants {
		if !strings.HasPrefix(name, "Role") {
			continue
		}
		found++
		if actors[grants.Role(value)] == "" {
			t.Errorf("nobody tries what %s may do", name)
		}
	}
	if found != len(actors) {
		t.Errorf("%d roles, %d try", found, len(actors))
	}
}

// party is a connection whose refusals are seen at once.
type party struct{ *nats.Conn }

func connect(t *testing.T, b *natstest.Bus, role grants.Role, name string) *party {
	return &party{b.Conn(t, role, name, nats.ErrorHandler(notViolation(t, name)))}
}

func notViolation(t *testing.T, name string) nats.ErrHandler {
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// allows reports whether the server let through what try sent. A refusal is a new error, which is there before the answer to
// the flush.
func (p *party) allows(t *testing.T, try func() error) bool {
	t.Helper()
	before := p.LastError()
	if err := errors.Join(try(), p.FlushTimeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return p.LastError() == before
}

func (p *party) allowsPublish(t *testing.T, subject string) bool {
	t.Helper()
	return p.allows(t, func() error { return p.PublishMsg(&nats.Msg{Subject: subject, Data: []byte("probe")}) })
}

func (p *party) allowsSubscribe(t *testing.T, subject, queue string) bool {
	t.Helper()
	var sub *nats.Subscription
	allowed := p.allows(t, func() (err error) {
		sub, err = p.QueueSubscribeSync(subject, queue)
		return err
	})
	_ = sub.Unsubscribe() // fails where it was refused
	return allowed
}

// checkGrants fails unless each grant of a role lets something through that is tried, so that none comes without a decision
// who else may not.
func (s *system) checkGrants(t *testing.T) {
	for role, name := range actors {
		g := grants.Permissions(role)
		for kind, p := range map[string]struct {
			grants []string
			probes probes
		}{"publish": {g.Publish, s.say}, "subscribe": {g.Subscribe, s.hear}} {
			if len(p.grants) == 0 {
				t.Errorf("%s: no grant to %s, which to the server means all", role, kind)
			}
			for _, grant := range p.grants {
				own := jwt.Subject(strings.NewReplacer("{{name()}}", name, "{{tag(peel)}}", name).Replace(grant))
				probed := false
				for subject, may := range p.probes {
					probed = probed || slices.Contains(may, role) && jwt.Subject(subject).IsContainedIn(own)
				}
				if !probed {
					t.Errorf("%s: grant to %s %s is for nothing that there is", role, kind, grant)
				}
			}
		}
	}
}

func TestAGrantWithAnothersNameInItIsRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for role, name := range actors {
			if role == grants.RoleMaster || role == grants.RoleSite {
				continue
			}
			p, g := connect(t, b, role, name), grants.Permissions(role)
			for _, other := range []string{"other", name + "x", name[:1], strings.ToUpper(name)} {
				for _, grant := range g.Publish {
					if s := instance(grant, other); s != instance(grant, name) && p.allowsPublish(t, s) {
						t.Errorf("%s may publish to %s", name, s)
					}
				}
			}
			for _, other := range []string{"other", name + "x", "*", ">"} {
				for _, grant := range g.Subscribe {
					s := strings.ReplaceAll(grant, "{{name()}}", other)
					s, _, wild := strings.Cut(s, ">.>")
					if wild {
						s += ">"
					}
					if strings.Contains(grant, "{{name()}}") && p.allowsSubscribe(t, s, "") {
						t.Errorf("%s may subscribe to %s", name, s)
					}
				}
			}
		}
	})
}

// instance is a subject that a grant covers for one name.
func instance(grant, name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(grant, "{{name()}}", name), "*", string(jid))
}
