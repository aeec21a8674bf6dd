package credential

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// checkError fails if an error is there and want is empty, or if it does not have the words of want.
func checkError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v, want %q", name, err, want)
	}
}

func TestRequestsOfJoinTokens(t *testing.T) {
	good := JoinRequest{Name: "ci", Hash: Hash{1}, Peel: "web-*", Uses: 1, TTL: time.Hour}
	for name, c := range map[string]struct {
		change func(*JoinRequest)
		err    string
	}{
		"as it is":          {func(*JoinRequest) {}, ""},
		"no name":           {func(q *JoinRequest) { q.Name = "" }, "a token's name has"},
		"no glob":           {func(q *JoinRequest) { q.Peel = "[" }, "is not a glob"},
		"no hash":           {func(q *JoinRequest) { q.Hash = Hash{} }, "no hash"},
		"for no host":       {func(q *JoinRequest) { q.Uses = 0 }, "for 0 hosts"},
		"for the most":      {func(q *JoinRequest) { q.Uses = 100_000 }, ""},
		"for too many":      {func(q *JoinRequest) { q.Uses = 100_001 }, "for 100001 hosts"},
		"ends at once":      {func(q *JoinRequest) { q.TTL = 0 }, "end after 0s"},
		"ends in a year":    {func(q *JoinRequest) { q.TTL = 366 * 24 * time.Hour }, ""},
		"ends too late":     {func(q *JoinRequest) { q.TTL = 366*24*time.Hour + 1 }, "is the most"},
		"ended in the past": {func(q *JoinRequest) { q.TTL = -time.Hour }, "end after -1h"},
	} {
		q := good
		c.change(&q)
		checkError(t, name, q.Check(), c.err)
	}
}

func TestRequestsOfTokens(t *testing.T) {
	good := TokenRequest{Name: "ci", Hash: Hash{1}, Scopes: []Scope{ScopeRead}}
	limits := grants.Limits{Target: "web-*"}
	const year = 366 * 24 * time.Hour
	for name, c := range map[string]struct {
		change func(*TokenRequest)
		err    string
		scopes string
	}{
		"as it is":                     {change: func(*TokenRequest) {}},
		"no name":                      {change: func(q *TokenRequest) { q.Name = "a.b" }, err: "a token's name has"},
		"no hash":                      {change: func(q *TokenRequest) { q.Hash = Hash{} }, err: "no hash"},
		"a minute":                     {change: func(q *TokenRequest) { q.TTL = time.Minute }},
		"less":                         {change: func(q *TokenRequest) { q.TTL = time.Minute - 1 }, err: "is the least"},
		"in the past":                  {change: func(q *TokenRequest) { q.TTL = -1 }, err: "is the most"},
		"ten years":                    {change: func(q *TokenRequest) { q.TTL = 10 * year }},
		"more":                         {change: func(q *TokenRequest) { q.TTL = 10*year + 1 }, err: "is the most"},
		"a grace of a week":            {change: func(q *TokenRequest) { q.Grace = 7 * 24 * time.Hour }},
		"a longer one":                 {change: func(q *TokenRequest) { q.Grace = 7*24*time.Hour + 1 }, err: "old secret"},
		"a negative one":               {change: func(q *TokenRequest) { q.Grace = -1 }, err: "old secret"},
		"no scope":                     {change: func(q *TokenRequest) { q.Scopes = nil }, scopes: "it has no scope"},
		"an unknown scope":             {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeRead, "root"} }, scopes: `no scope "root"`},
		"an assistant that reads":      {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeMCP, ScopeRead} }},
		"an assistant of nothing":      {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeMCP} }, scopes: "needs read or dispatch"},
		"an assistant that syncs":      {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeMCP, ScopeRead, ScopeSync} }, scopes: "neither admin nor sync"},
		"metrics and more":             {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeMetrics, ScopeRead} }, scopes: "with no other scope"},
		"an assistant with everything": {change: func(q *TokenRequest) { q.Scopes = []Scope{ScopeMCP, ScopeRead, ScopeAdmin} }, scopes: "neither admin nor sync"},
		"limits":                       {change: func(q *TokenRequest) { q.Scopes, q.Limits = []Scope{ScopeDispatch}, limits }},
		"limits of functions":          {change: func(q *TokenRequest) { q.Limits = grants.Limits{Functions: []string{"test.*"}} }, scopes: "limits are for"},
		"limits without dispatch":      {change: func(q *TokenRequest) { q.Limits = limits }, scopes: "limits are for"},
		"limits and admin":             {change: func(q *TokenRequest) { q.Scopes, q.Limits = []Scope{ScopeDispatch, ScopeAdmin}, limits }, scopes: "limits are for"},
		"limits and sync":              {change: func(q *TokenRequest) { q.Scopes, q.Limits = []Scope{ScopeDispatch, ScopeSync}, limits }, scopes: "limits are for"},
		"limits that cannot be read": {change: func(q *TokenRequest) {
			q.Scopes, q.Limits = []Scope{ScopeDispatch}, grants.Limits{Functions: []string{"["}}
		}, scopes: "cannot"},
	} {
		q := good
		c.change(&q)
		checkError(t, name, q.Check(), c.err)
		checkError(t, name, q.CheckScopes(), c.scopes)
	}
}

func TestWhatATokenMayDo(t *testing.T) {
	read := Token{Name: "ci", Scopes: []Scope{ScopeRead}}
	if !read.Has(ScopeRead) || read.Has(ScopeDispatch) || read.Has(ScopeAdmin) || read.Purpose() != "" {
		t.Error("a token that reads")
	}
	admin := Token{Scopes: []Scope{ScopeAdmin}}
	if !admin.Has(ScopeSync) || !admin.Has(ScopeRead) || admin.Purpose() != "" {
		t.Error("a token with everything")
	}
	if assistant := (Token{Scopes: []Scope{ScopeMCP, ScopeRead}}); assistant.Purpose() != ScopeMCP || assistant.Has(ScopeDispatch) {
		t.Error("a token of an assistant")
	}
	if name, ok := TokenNameOf(read.User()); !ok || name != "ci" {
		t.Errorf("the token of %s is %q, %v", read.User(), name, ok)
	}
	if name, ok := TokenNameOf("ada"); ok {
		t.Errorf("ada is the token %q", name)
	}
}

func TestStatesOfTokensAndUsers(t *testing.T) {
	for name, c := range map[string]struct {
		expires, revoked time.Time
		want             string
	}{
		"for ever":           {want: "active"},
		"until later":        {expires: noon.Add(1), want: "active"},
		"until now":          {expires: noon, want: "expired"},
		"revoked":            {revoked: noon.Add(-time.Hour), want: "revoked"},
		"revoked and ended":  {revoked: noon, expires: noon, want: "revoked"},
		"ended an hour ago":  {expires: noon.Add(-time.Hour), want: "expired"},
		"revoked and lasted": {revoked: noon, expires: noon.Add(time.Hour), want: "revoked"},
	} {
		token := Token{Expires: c.expires, Revoked: c.revoked}
		if got := token.State(noon); got != c.want {
			t.Errorf("token, %s: %s, want %s", name, got, c.want)
		}
		user := User{Keys: []Key{{Public: "a", Expires: c.expires}}, Revoked: c.revoked}
		if got := user.State(noon); got != c.want {
			t.Errorf("user, %s: %s, want %s", name, got, c.want)
		}
	}
	if got := (&User{}).State(noon); got != "active" {
		t.Errorf("a user without keys is %s", got)
	}
}

func TestAUserEndsWithTheLastKey(t *testing.T) {
	early, late := Key{Public: "a", By: "ada", Expires: noon}, Key{Public: "b", Expires: noon.Add(time.Hour)}
	for _, keys := range [][]Key{{early, late}, {late, early}} {
		if got := (&User{Keys: keys}).Expires(); !got.Equal(late.Expires) {
			t.Errorf("%v", got)
		}
	}
	if got := (&User{Keys: []Key{early, {Public: "c"}}}).Expires(); !got.IsZero() {
		t.Errorf("with a key that does not expire: %v", got)
	}
	if u := (&User{Keys: []Key{late, early}}); !u.HasKeyBy("ada") || u.HasKeyBy("bob") {
		t.Error("who requested the keys")
	}
}

func TestListsOfKeys(t *testing.T) {
	ended, now, later, always := Key{Public: "a", Expires: noon.Add(-1)}, Key{Public: "b", Expires: noon}, Key{Public: "c", Expires: noon.Add(1)}, Key{Public: "d"}
	if got := Current([]Key{ended, now, later, always}, noon); !slices.Equal(got, []Key{later, always}) {
		t.Errorf("%v", got)
	}
	if got := Merge([]Key{ended, now}, []Key{now, later}); !slices.Equal(got, []Key{ended, now, later}) {
		t.Errorf("%v", got)
	}
	if got := Ends([]Key{later, always}, noon); len(got) != 2 || got["c"] != (End{At: noon, Expires: later.Expires}) || got["d"] != (End{At: noon}) {
		t.Errorf("%v", got)
	}
}

func TestSecretsOfTokens(t *testing.T) {
	text, hash := NewSecret("ci")
	name, got, ok := ParseToken(text)
	if !ok || name != "ci" || !got.Equal(hash) || got.Equal(Hash{}) {
		t.Errorf("%q, %v", name, ok)
	}
	if other, _ := NewSecret("ci"); other == text {
		t.Error("two secrets are the same")
	}
	for _, wrong := range []string{"", "zester.ci", text + "x", text[:len(text)-1], strings.TrimPrefix(text, "zester."), "zester.." + text[10:], "zester.a b." + text[10:]} {
		if name, hash, ok := ParseToken(wrong); ok || name != "" || hash != (Hash{}) {
			t.Errorf("%q is the token %q", wrong, name)
		}
	}
}

func TestRequestsOfUsers(t *testing.T) {
	key, err := MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	limits := grants.Limits{Functions: []string{"test.*"}}
	good := UserRequest{Name: "ada", Role: grants.RoleOperator, Public: key.Public()}
	const year = 366 * 24 * time.Hour
	for name, c := range map[string]struct {
		change func(*UserRequest)
		err    string
		role   grants.Role
	}{
		"operator":               {change: func(*UserRequest) {}, role: grants.RoleOperator},
		"auditor":                {change: func(q *UserRequest) { q.Role = grants.RoleAuditor }, role: grants.RoleAuditor},
		"direct":                 {change: func(q *UserRequest) { q.Role = grants.RoleDirect }, role: grants.RoleDirect},
		"limited functions":      {change: func(q *UserRequest) { q.Limits = limits }, role: grants.RoleLimited},
		"limited target":         {change: func(q *UserRequest) { q.Limits = grants.Limits{Target: "web-*"} }, role: grants.RoleLimited},
		"a limit without sense":  {change: func(q *UserRequest) { q.Limits = grants.Limits{Functions: []string{"["}} }, err: "cannot"},
		"limited, as a role":     {change: func(q *UserRequest) { q.Role = grants.RoleLimited }, err: "there is no role"},
		"a master":               {change: func(q *UserRequest) { q.Role = grants.RoleMaster }, err: "there is no role"},
		"a limited auditor":      {change: func(q *UserRequest) { q.Role, q.Limits = grants.RoleAuditor, limits }, err: "auditors only read"},
		"a limited direct":       {change: func(q *UserRequest) { q.Role, q.Limits = grants.RoleDirect, limits }, err: "only masters check limits"},
		"secrets":                {change: func(q *UserRequest) { q.Secrets = true }, role: grants.RoleOperator},
		"secrets for an auditor": {change: func(q *UserRequest) { q.Role, q.Secrets = grants.RoleAuditor, true }, err: "auditors ask them nothing"},
		"no name":                {change: func(q *UserRequest) { q.Name = "" }, err: "name"},
		"the reserved name":      {change: func(q *UserRequest) { q.Name = LocalUser }, err: "is reserved"},
		"no key":                 {change: func(q *UserRequest) { q.Public = "UX" }, err: "not the key of a user"},
		"ten years":              {change: func(q *UserRequest) { q.TTL = 10 * year }, role: grants.RoleOperator},
		"more":                   {change: func(q *UserRequest) { q.TTL = 10*year + 1 }, err: "is the most"},
		"in the past":            {change: func(q *UserRequest) { q.TTL = -1 }, err: "is the most"},
	} {
		q := good
		c.change(&q)
		checkError(t, name, q.Check(), c.err)
		if c.err == "" && q.Role != c.role {
			t.Errorf("%s: the role is %s, want %s", name, q.Role, c.role)
		}
	}
}

func TestTheHistoryOfAPeel(t *testing.T) {
	e := Enrolled{}
	for n := range 25 {
		e.Enter(Pending, string(rune('a'+n)))
	}
	if len(e.History) != 20 || e.History[0].By != "f" || e.History[19].By != "y" {
		t.Errorf("%d steps, from %v to %v", len(e.History), e.History[0], e.History[len(e.History)-1])
	}
	for name, c := range map[string]struct {
		peel            Enrolled
		unused, enrolls bool
	}{
		"asks":                       {peel: Enrolled{State: Pending}, unused: true},
		"was rejected":               {peel: Enrolled{State: Rejected, History: []Step{{State: Rejected, By: "ada"}}}, unused: true},
		"was accepted":               {peel: Enrolled{State: Accepted, History: []Step{{State: Accepted, By: "ada"}}}, enrolls: true},
		"was issued beside the keys": {peel: Enrolled{State: Accepted, History: []Step{{State: Accepted}}}},
		"asks again":                 {peel: Enrolled{State: Pending, History: []Step{{State: Accepted, By: "ada"}, {State: Pending}}}, enrolls: true},
		"asks after a revocation":    {peel: Enrolled{State: Pending, History: []Step{{State: Revoked}, {State: Pending}}}},
		"had a credential":           {peel: Enrolled{State: Pending, Expires: noon}},
		"had a key":                  {peel: Enrolled{State: Pending, Ended: map[string]End{"a": {}}}},
		"is revoked":                 {peel: Enrolled{State: Revoked}},
	} {
		if got := c.peel.Unused(); got != c.unused {
			t.Errorf("%s: unused is %v", name, got)
		}
		if got := c.peel.Enrolls(); got != c.enrolls {
			t.Errorf("%s: enrolls is %v", name, got)
		}
	}
}

// A credential is renewed by a JWT for the same key and name that ends later, and by nothing else.
func TestTheOwnCredentialIsRenewed(t *testing.T) {
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	key, err := MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	public := key.Public()
	token := func(subject, name string, expires int64) string {
		c := jwt.NewUserClaims(subject)
		c.Name, c.Expires = name, expires
		text, err := c.Encode(account)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text, err := key.Creds(token(public, "m1", noon.Unix()))
	if err != nil {
		t.Fatal(err)
	}
	o, err := ReadOwn(text)
	if err != nil || o.Name != "m1" || !o.Expires.Equal(noon) || time.Since(o.Issued) > time.Minute {
		t.Fatalf("%+v, %v", o, err)
	}
	q, err := o.Renewal()
	pair, _ := nkeys.FromPublicKey(public)
	if err != nil || q.Token != o.token || pair.Verify(RenewalText(q.Token), q.Proof) != nil {
		t.Errorf("the request is not signed: %v", err)
	}

	later := token(public, "m1", noon.Unix()+1)
	renewed, err := o.Renew(Renewed{later})
	if err != nil || !bytes.Contains(renewed, []byte(later)) || bytes.Contains(renewed, []byte(o.token)) {
		t.Errorf("%v", err)
	}
	if again, err := ReadOwn(renewed); err != nil || !again.Expires.Equal(noon.Add(time.Second)) {
		t.Errorf("%v", err)
	}
	other, err := MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]string{
		"another key":   token(other.Public(), "m1", noon.Unix()+1),
		"another name":  token(public, "m2", noon.Unix()+1),
		"an end before": token(public, "m1", noon.Unix()-1),
		"no JWT":        "x",
	} {
		if text, err := o.Renew(Renewed{wrong}); err == nil || text != nil {
			t.Errorf("%s is taken", name)
		}
	}

	everText, err := other.Creds(token(other.Public(), "m2", 0))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := ReadOwn(everText); err != nil || !o.Expires.IsZero() {
		t.Errorf("%v, %v", o.Expires, err)
	}
	for name, wrong := range map[string][]byte{
		"nothing": nil, "no key": []byte(strings.SplitN(string(text), "-----BEGIN USER", 2)[0]),
		"no JWT": bytes.Replace(text, []byte(o.token), []byte("eyJ.e.x"), 1),
	} {
		if _, err := ReadOwn(wrong); err == nil {
			t.Errorf("%s is read as a credential", name)
		}
	}
}
