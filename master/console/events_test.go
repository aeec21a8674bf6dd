package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

// listen opens a stream, which ends with the test at the latest.
func (b *browser) listen() *http.Response {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.f.address+"/events", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// streams holds that a stream names the parts of all pages, that a session has four at most, and that they end with it.
func streams(t *testing.T, f *fleet) {
	if got := f.browse(t).listen(); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody gets a stream: %s", got.Status)
	}
	b := f.login(t, "lee")
	resp := b.listen()
	lines := bufio.NewScanner(resp.Body)
	var parts map[string]uint64
	for lines.Scan() && parts == nil {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &parts); err != nil {
				t.Fatal(err)
			}
		}
	}
	named := regexp.MustCompile(`data-part="([^"]+)"`)
	var paths []string
	for _, g := range gets {
		paths = append(paths, g.path)
	}
	for _, g := range dataGets {
		paths = append(paths, g.path)
	}
	for _, path := range paths {
		for _, m := range named.FindAllStringSubmatch(b.get(path).body, -1) {
			if parts[m[1]] == 0 && m[1] != "title" {
				t.Errorf("the part %s of %s has no version", m[1], path)
			}
		}
	}

	before := b.get("/?part=audit").body
	if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "a part with the new entry of the audit log", func(context.Context) bool {
		return b.get("/?part=audit").body != before
	})

	for range 3 {
		b.listen()
	}
	if got := b.listen(); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a fifth stream of a session: %s", got.Status)
	}
	began := time.Now()
	if _, err := api.SessionEnd.Ask(t.Context(), f.local, api.SessionEndRequest{User: "lee"}); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		_ = lines.Text()
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("a stream ends %v after its session", d)
	}
}
