package console_test

import (
	"net/http"
	"testing"
)

func TestMetricsOfTheConsole(t *testing.T) {
	f := theFleet(t)
	b := f.login(t, "eve")
	b.get("/peels")
	b.get("/peels")
	got := b.send(http.MethodGet, "/metrics", nil, map[string]string{"Authorization": "Bearer " + f.token})
	got.has(t, `zester_console_renders_total{page="peels"} 2`, `zester_console_render_seconds_count{page="peels"} 2`,
		"zester_console_streams 0", "zester_console_sessions 1")
}
