package module

import (
	"bytes"
	"strings"
	"testing"
)

func TestMaskerHidesSecretsThatComeInParts(t *testing.T) {
	secrets := []Secret{{Plain: "hunter2-longer", Shown: "<long>"}, {Plain: "hunter2", Shown: "<short>"}, {Plain: "\xff\x00bin", Shown: "<bin>"}}
	for text, want := range map[string]string{
		"":                              "",
		"hunter2":                       "<short>",
		"hunter2-longer":                "<long>",
		"hunter2-longex":                "<short>-longex",
		"a hunter2-hunter2-longer\n":    "a <short>-<long>\n",
		"hunhunter2":                    "hun<short>",
		"hunter":                        "hunter",
		"\xff\xff\x00bin\xff\x00":       "\xff<bin>\xff\x00",
		strings.Repeat("x", 100) + "hu": strings.Repeat("x", 100) + "hu",
	} {
		for size := 1; size <= len(text)+1; size++ {
			var out bytes.Buffer
			m := newMasker(&out, secrets)
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if _, err := m.Write(rest[:min(size, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Close(); err != nil || out.String() != want {
				t.Errorf("%q in parts of %d: %q, want %q, %v", text, size, out.String(), want, err)
			}
		}
	}
}

func FuzzMasker(f *testing.F) {
	f.Add("say hunter2 and hunter2-longer", "hunter2", "hunter2-longer", 3)
	f.Add("aaaaab", "aab", "aaab", 1)
	f.Fuzz(func(t *testing.T, text, a, b string, size int) {
		if a == "" || b == "" || size < 1 {
			return
		}
		if len(a) < len(b) {
			a, b = b, a
		}
		var out bytes.Buffer
		m := newMasker(&out, []Secret{{Plain: a, Shown: "<>"}, {Plain: b, Shown: "[]"}})
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = m.Write(rest[:min(size, len(rest))])
			if len(m.pending) >= len(a) {
				t.Fatalf("%d bytes are kept back for a secret of %d", len(m.pending), len(a))
			}
		}
		_ = m.Close()
		if want := strings.NewReplacer(a, "<>", b, "[]").Replace(text); out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}
