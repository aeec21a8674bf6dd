package console

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

func TestPartsOfOneVersionAreMadeOnce(t *testing.T) {
	var k kept
	now := time.Now()
	key := keptKey{"/?part=day", "auditor", 7}
	var made atomic.Int64
	text := func() []byte { made.Add(1); return []byte("day") }
	if k.at(key, now).make(func() []byte { return nil }) != nil {
		t.Error("a text that could not be made")
	}

	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			if got := string(k.at(key, now).make(text)); got != "day" {
				t.Errorf("the text is %q", got)
			}
		})
	}
	wait.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("ten visits make the text %d times", n)
	}
	for i, other := range []keptKey{{"/?part=day", "operator", 7}, {"/?part=day", "auditor", 8}, {"/?part=nav", "auditor", 7}} {
		k.at(other, now).make(text)
		if n := made.Load(); n != int64(i)+2 {
			t.Errorf("%v has the text of another key", other)
		}
	}
	k.at(key, now.Add(keptTime)).make(text)
	if n := made.Load(); n != 5 {
		t.Errorf("an old text is used: %d were made", n)
	}
	if len(k.texts) != 1 {
		t.Errorf("%d texts are kept, want those that are not old", len(k.texts))
	}
	long := func() []byte { return make([]byte, maxKeptText+1) }
	if place := k.at(keptKey{version: 1}, now); len(place.make(long)) != maxKeptText+1 || place.text != nil {
		t.Error("a long text is not made, or is kept")
	}
	for i := range 2 * maxKept {
		k.at(keptKey{version: uint64(i)}, now)
	}
	if len(k.texts) > maxKept {
		t.Errorf("%d texts are kept", len(k.texts))
	}
}

// Kept parts have what a session may read, so sessions that may read something else get parts of their own.
func TestWhoSeesTheSame(t *testing.T) {
	read := []credential.Scope{credential.ScopeRead}
	sessions := map[string]*api.Session{
		"an operator":               {User: "ada", Role: grants.RoleOperator},
		"an auditor":                {User: "eve", Role: grants.RoleAuditor},
		"one with limits":           {User: "lee", Role: grants.RoleLimited},
		"another one with limits":   {User: "kim", Role: grants.RoleLimited},
		"one with rules":            {User: "may", Role: grants.RoleMember},
		"an operator with a group":  {User: "bob", Role: grants.RoleOperator, Groups: []string{"web"}},
		"a token":                   {User: "token:ci", Scopes: read},
		"another of the same scope": {User: "token:cd", Scopes: read},
	}
	seen := map[string]string{}
	for who, s := range sessions {
		audience := (&visit{session: s}).audience()
		if other := seen[audience]; other != "" {
			t.Errorf("%s sees what %s sees", who, other)
		}
		seen[audience] = who
	}
	a, b := &visit{session: sessions["an operator"]}, &visit{session: &api.Session{User: "joe", Role: grants.RoleOperator}}
	if a.audience() != b.audience() {
		t.Error("two operators have parts of their own")
	}
}

// TestCountsAreNoNewerThanTheirVersion: what a page has read before a change is not kept for those who come after it.
func TestCountsAreNoNewerThanTheirVersion(t *testing.T) {
	f := &fleet{}
	c := &Console{live: newWatch(watchOptions{Ask: f})}
	read := func(nav uint64, now *api.Now) int64 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		v := &visit{r: r, ask: f, nav: nav, now: now, session: &api.Session{User: "ann", Role: grants.RoleOperator}}
		before := f.asked.Load()
		c.countsOf(v)
		return f.asked.Load() - before
	}
	for i, row := range []struct {
		nav   uint64
		now   *api.Now
		asked int64
	}{{nav: 1, now: &api.Now{}, asked: 1}, {nav: 1}, {nav: 2, asked: 2}, {nav: 2}} {
		if got := read(row.nav, row.now); got != row.asked {
			t.Errorf("visit %d asks %d times, want %d", i, got, row.asked)
		}
	}
}

func TestPartsAreNamedOnce(t *testing.T) {
	for at, want := range map[string][]string{
		"/": nil, "/?part=": nil, "/?part=nav": {"nav"}, "/?part=nav,day,nav,nav": {"day", "nav"},
	} {
		v := &visit{r: httptest.NewRequest(http.MethodGet, at, nil)}
		if got := v.parts(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}
