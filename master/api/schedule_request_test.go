package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestARequestBecomesTheFieldsOfAnEntry(t *testing.T) {
	for request, want := range map[string]string{
		`{"name": "n", "target": "web-*", "prompt": "p", "cron": "@daily", "opts": {}}`:                     `{"name":"n","target":"web-*","fields":{"cron":"@daily","pause_after_errors":10,"prompt":"p","return_job":true}}`,
		`{"function": "test.ping", "every": 300000, "return_job": false}`:                                   `{"name":"test.ping","fields":{"interval":"5m","module":"test.ping","pause_after_errors":10,"return_job":false}}`,
		`{"function": "test.ping", "every": "5m", "breaker": {"threshold": 3}}`:                             `{"name":"test.ping","fields":{"breaker":{"threshold":3},"interval":"5m","module":"test.ping","return_job":true}}`,
		`{"module": "test.ping", "prompt": "", "at": 1795471200000, "delete_after_run": true, "name": "x"}`: `{"name":"x","fields":{"at":"2026-11-23T22:00:00Z","delete_after_run":true,"module":"test.ping","pause_after_errors":10,"return_job":true}}`,
		`{"prompt": "` + strings.Repeat("é", 50) + `", "schedule": "daily", "pause_after_errors": 3}`:       `{"name":"` + strings.Repeat("é", 40) + `","fields":{"pause_after_errors":3,"prompt":"` + strings.Repeat("é", 50) + `","return_job":true,"when":"daily"}}`,
		`{"name": "n"}`:   "prompt is missing",
		`{"prompt": "p"}`: "0 timings",
		`{"prompt": "p", "cron": "x", "interval": "1h"}`:         "2 timings",
		`{"prompt": "p", "every": 0}`:                            "every: 0 ms is not a time",
		`{"prompt": "p", "every": true}`:                         "every is a number of milliseconds",
		`{"prompt": "p", "at": 1795471200}`:                      "at: 1795471200 is not a time in milliseconds",
		`{"prompt": "p", "cron": "x", "delete_after_run": true}`: "delete_after_run is for a schedule with at",
		`{"function": "a.b", "module": "c.d", "cron": "x"}`:      "function and module are two names",
	} {
		q, err := api.NewScheduleAdd(decode(t, request))
		got, _ := json.Marshal(q)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.HasPrefix(string(got), want) {
			t.Errorf("%s becomes\n%s, want\n%s", request, got, want)
		}
	}
}

// decode reads a JSON object with whole numbers, as the REST API does.
func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		t.Skip(err)
	}
	for key, value := range fields {
		if n, ok := value.(json.Number); ok {
			if fields[key] = n.String(); !strings.ContainsAny(n.String(), ".eE") {
				fields[key], _ = n.Int64()
			}
		}
	}
	return fields
}

func FuzzNewAdd(f *testing.F) {
	f.Add(`{"name": "n", "target": "web-*", "prompt": "p", "every": 300000, "model": "m", "opts": {"a": 1}}`)
	f.Add(`{"function": "test.ping", "at": 1795471200000, "delete_after_run": true, "args": {"x": [1]}}`)
	f.Add(`{"module": 3, "schedule": ["x"], "prompt": {}, "name": 7}`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := api.NewScheduleAdd(decode(t, text))
		if err != nil {
			return
		}
		for _, field := range []string{"name", "target", "function", "every", "schedule"} {
			if _, there := q.Fields[field]; there {
				t.Errorf("%s is no field of an entry", field)
			}
		}
		if q.Fields["module"] == nil && q.Fields["prompt"] == nil || !utf8.ValidString(q.Name) && utf8.ValidString(text) {
			t.Errorf("%+v", q)
		}
	})
}
