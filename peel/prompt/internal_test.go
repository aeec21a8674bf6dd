package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestThePauseIsThatOfTheServer(t *testing.T) {
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	for after, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, "4294967295": 24 * time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.AddDate(1, 0, 0).Format(http.TimeFormat): 24 * time.Hour,
	} {
		if got := pause(after, 1, now); got != want {
			t.Errorf("%q: %v, want %v", after, got, want)
		}
	}
	for _, after := range []string{"", "-1", "soon", "1.5", "99999999999"} {
		for sent, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second} {
			if got := pause(after, sent, now); got < want*8/10 || got > want*12/10 {
				t.Errorf("%q after %d requests: %v, want about %v", after, sent, got, want)
			}
		}
	}
}

func TestARequestCountsForAnHour(t *testing.T) {
	l := &limits{file: filepath.Join(t.TempDir(), "prompts"), requests: 2}
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	take := func(at time.Time) error {
		t.Helper()
		_, err := l.take(at, 0)
		return err
	}
	if err := take(now); err != nil {
		t.Fatal(err)
	}
	if err := take(now.Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := take(now.Add(59 * time.Minute)); err == nil || !strings.HasSuffix(err.Error(), "the next may be sent at 2026-06-01T10:00:00Z") {
		t.Errorf("a third: %v", err)
	}
	if err := take(now.Add(hour)); err != nil {
		t.Errorf("after an hour: %v", err)
	}
	if err := take(now.AddDate(-1, 0, 0)); err == nil {
		t.Error("the clock was set back by a year, and the limits are gone")
	}
	if err := take(now.AddDate(-1, 0, 0).Add(hour)); err != nil {
		t.Errorf("an hour after the clock was set back: %v", err)
	}
}

func TestEachRequestIsSettledByItself(t *testing.T) {
	l := &limits{file: filepath.Join(t.TempDir(), "prompts"), requests: 10, cost: 1}
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	first, err := l.take(now, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.take(now, 0.5)
	if err != nil || first == second {
		t.Fatal(second, err)
	}
	if err := l.settle(now, first, 0.1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.take(now, 0.5); err == nil || !strings.Contains(err.Error(), "of the 1 for an hour 0.6 are used") {
		t.Errorf("the second was settled too: %v", err)
	}
	if err := l.settle(now, second, 0.1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.take(now, 0.5); err != nil {
		t.Error(err)
	}
}

func TestTheMostThatARequestCanCostCountsAllThatIsSent(t *testing.T) {
	c := Config{Prices: Prices{Input: 1_000_000, Output: 10_000_000}}
	if got := c.dearest([]message{{"system", "Be brief."}, {"user", "Wow."}}, 3); got != 9+64+4+64+30 {
		t.Errorf("%v", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"model": "m", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}`,
		`{"error": {"message": "x"}}`, `{"error": "x"}`, `{"error": {"a": [1]}}`, `{"choices": [{"message": {"refusal": "no"}}]}`, `[]`, `{"choices": [{}]}`, `{"detail": [1]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if err != nil {
			if len(err.Error()) > 4000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if r.text == "" || len(r.model) > maxName || len(r.finish) > maxName || r.promptTokens < 0 || r.completionTokens < 0 {
			t.Errorf("%+v", r)
		}
		c := Config{Prices: Prices{1, 1}}
		if cost := c.cost(r); cost < 0 || math.IsInf(cost, 0) || math.IsNaN(cost) {
			t.Errorf("cost %v", cost)
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, null, "x", true]}`, "```json\n1\n```", "```", `1e999`, `[[[[]]]]`, `9223372036854775808`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := decodeJSON(text)
		if err != nil {
			return
		}
		n, err := canon.Normalize(map[string]any{"answer": v})
		if err != nil {
			t.Fatalf("%v cannot be sent: %v", v, err)
		}
		if _, err := json.Marshal(n); err != nil {
			t.Error(err)
		}
	})
}

// FuzzHide holds that nothing is left of a key, and that a text without it stays as it is.
func FuzzHide(f *testing.F) {
	const key = "sk-0123456789abcdef"
	f.Add("before ", " after", uint8(0), uint8(19), uint8(0))
	f.Add(`\\`, `\u0073`, uint8(2), uint8(9), uint8(1))
	f.Add("%", "%7", uint8(1), uint8(8), uint8(2))
	k := newSecretKey(key)
	f.Fuzz(func(t *testing.T, before, after string, from, length, how uint8) {
		if plain, _ := unescape(before + after); !holdsPart(k, plain) && !holdsPart(k, []byte(before+after)) && k.hide(before+after) != before+after {
			t.Errorf("%q became %q", before+after, k.hide(before+after))
		}
		begin := int(from) % (len(key) - hiddenPart + 1)
		part := key[begin : begin+hiddenPart+int(length)%(len(key)-begin-hiddenPart+1)]
		var written strings.Builder
		for _, c := range []byte(part) {
			switch how % 4 {
			case 0:
				written.WriteByte(c)
			case 1:
				fmt.Fprintf(&written, `\u%04x`, c)
			case 2:
				fmt.Fprintf(&written, "%%%02X", c)
			case 3:
				fmt.Fprintf(&written, `\\\u%04X`, c)
			}
		}
		hidden := k.hide(before + written.String() + after)
		if bytes.Contains([]byte(hidden), []byte(part)) {
			t.Errorf("%q is left in %q", part, hidden)
		}
		if plain, at := unescape(hidden); holdsPart(k, plain) || at[len(at)-1] != len(hidden) {
			t.Errorf("a part is left in %q", hidden)
		}
	})
}

func holdsPart(k secretKey, plain []byte) bool {
	for i := 0; i+hiddenPart <= len(plain); i++ {
		if bytes.Contains([]byte(k.text), plain[i:i+hiddenPart]) {
			return true
		}
	}
	return false
}
