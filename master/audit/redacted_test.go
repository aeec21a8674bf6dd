package audit

import (
	"encoding/json"
	"testing"
)

func TestArgumentsThatMayHoldSecretsAreHidden(t *testing.T) {
	for arg, want := range map[string]struct {
		value any
		shown string
	}{
		"content":  {"key: hunter2", `"•••"`},
		"password": {"$6$hunter2", `"•••"`},
		"vars":     {map[string]any{"a": "hunter2"}, `"•••"`},
		"stdin":    {"hunter2", `"•••"`},
		"env":      {map[string]any{"KEY": "hunter2"}, `{"KEY":"•••"}`},
		"path":     {"/etc/motd", `"/etc/motd"`},
	} {
		if got, err := json.Marshal(redacted(arg, want.value)); err != nil || string(got) != want.shown {
			t.Errorf("%s is shown as %s, %v; want %s", arg, got, err, want.shown)
		}
	}
}
