package shell

import (
	"os/exec"
	"testing"
)

func TestAShellReadsTheTextAgain(t *testing.T) {
	for text, want := range map[string]string{
		"web-01": "web-01", "L@a,b": "L@a,b", "a=1": "a=1", "": "''", "web-*": "'web-*'", "it's": `'it'\''s'`,
		"a b": "'a b'", "a;b": "'a;b'", "$(date)": "'$(date)'", "~": "'~'", "a\nb": "'a\nb'", "é": "'é'", "!x": "'!x'",
	} {
		got := Word(text)
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		for _, word := range []string{got, Quote(text)} {
			read, err := exec.Command("sh", "-c", "printf %s "+word).Output()
			if err != nil || string(read) != text {
				t.Errorf("the shell reads %s as %q, %v", word, read, err)
			}
		}
	}
}
