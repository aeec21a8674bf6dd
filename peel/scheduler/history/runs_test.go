package history

import "testing"

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"jid":"37dGm9ITVD7PoboCZWzKYKpKcvi","entry":"e"}` + "\n" + `{"ended":"2026-01-01T00:00:00Z"}` + "\n" + `{"ended`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseOpenRun(data)
		if err != nil && (r.Entry != "" || !r.Ended.IsZero()) {
			t.Errorf("a record that cannot be read is of %q", r.Entry)
		}
	})
}
