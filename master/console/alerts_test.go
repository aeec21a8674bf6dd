package console_test

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// TestALineOfAnAlertLeadsOn follows each link of the lines about an entry that fails, on Alerts and on Now: to the entry,
// to why it failed on each peel, and to the commit that may be the cause.
func TestALineOfAnAlertLeadsOn(t *testing.T) {
	f := newFleetOf(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  dump: {module: test.fail, args: {message: no disk}, interval: 1s}\n")},
	}, "web-01", "web-02")
	f.repo = f.work.Dir()
	f.start(t)
	f.problems(t, "failures", func(p *api.Problems) bool { return p.By[verdict.Failed] == 2 })
	ann := &crawler{browser: f.login(t, "ann")}
	line := regexp.MustCompile(`(?s)<li data-testid="alert"[^>]*>(.*?)</li>`)
	href := regexp.MustCompile(`<a [^>]*href="([^"]*)"`)
	commit := "/commits/" + f.inForce(t)
	for _, path := range []string{"/alerts", "/"} {
		var links []string
		f.until(t, "the line of an alert with its cause on "+path, func(context.Context) bool {
			links = nil
			for _, l := range line.FindAllStringSubmatch(ann.patient(path).body, -1) {
				if !strings.Contains(l[1], ">dump<") {
					continue
				}
				for _, m := range href.FindAllStringSubmatch(l[1], -1) {
					links = append(links, html.UnescapeString(m[1]))
				}
			}
			return slices.Contains(links, commit)
		})
		want := []string{"/entries/dump", "/entries/dump/why?peel=web-01", "/entries/dump/why?peel=web-02", commit}
		if !slices.Equal(links, want) {
			t.Errorf("%s has the links %q, want %q", path, links, want)
		}
		for _, link := range links {
			if got := ann.patient(link); got.status != http.StatusOK {
				t.Errorf("%s leads to %s: %d", path, link, got.status)
			}
		}
	}
}
