package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
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
