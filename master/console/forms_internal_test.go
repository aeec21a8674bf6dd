package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestFieldsAreNotCut(t *testing.T) {
	long := strings.Repeat("text=äöü ", 1000)
	sent := url.Values{"args": {long}}.Encode()
	post := httptest.NewRequest(http.MethodPost, "/entries/new", strings.NewReader(sent))
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	get := httptest.NewRequest(http.MethodGet, "/entries/new?"+sent, nil)
	for _, r := range []*http.Request{post, get} {
		v := &visit{r: r}
		if got := v.field("args"); got != long {
			t.Errorf("%s: %d bytes of %d: …%q", r.Method, len(got), len(long), got[max(0, len(got)-20):])
		}
	}
}

func TestCommandsAreQuoted(t *testing.T) {
	for _, row := range []struct {
		d    dispatch
		want string
	}{
		{dispatch{target: "*", function: "test.ping"}, "zester '*' test.ping"},
		{dispatch{target: "it's; id", function: "cmd.run"}, `zester 'it'\''s; id' cmd.run`},
		{dispatch{target: "web-01", function: "a;b"}, "zester web-01 'a;b'"},
		{
			dispatch{target: "web-01", function: "cmd.run", args: "cmd=ls -l\r\n\r\n$(id)\r\nn=1\r\n"},
			"zester web-01 cmd.run 'cmd=ls -l' '$(id)' n=1",
		},
		{dispatch{target: "web-01", function: "test.ping", batch: "1; id"}, "zester web-01 test.ping --batch '1; id'"},
	} {
		if got := row.d.command(); got != row.want {
			t.Errorf("%+v: %s, want %s", row.d, got, row.want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("name", "ci; id")
	f, err := revokeForm(&visit{r: r, session: &api.Session{User: "ann"}})
	if err != nil || f.Command != "zester auth token revoke 'ci; id'" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestRemains(t *testing.T) {
	for _, row := range []struct {
		names  []string
		unread error
		want   []string // in each row of the page
	}{
		{nil, nil, nil},
		{[]string{"rack", "webs"}, nil, []string{"the code rack still", "the code webs still"}},
		{nil, errors.New("the bus is away"), []string{"is not known, look at the list of codes: the bus is away"}},
	} {
		var got [][2]string
		if f := remains(&api.Decommissioned{Peel: "web-01", JoinTokens: row.names}, row.unread); f != nil {
			got = f.What
		}
		if len(got) != len(row.want) {
			t.Fatalf("%v, %v: %q", row.names, row.unread, got)
		}
		for i, want := range row.want {
			if !strings.Contains(got[i][1], want) {
				t.Errorf("%q lacks %q", got[i][1], want)
			}
		}
	}
}
