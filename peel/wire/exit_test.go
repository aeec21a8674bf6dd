package wire

import "testing"

func TestExitCodesOfErrors(t *testing.T) {
	for code := range 256 {
		if got, ok := ParseExitCode(ExitCode(code).String()); ok != (code > 0) || ok && got != ExitCode(code) {
			t.Errorf("%q is %d, %v", ExitCode(code), got, ok)
		}
	}
	for _, text := range []string{"", "3", "exit status", "exit status ", "exit status -1", "exit status +3", "exit status 03", "exit status 256", "exit status 3: no room", "timed out: exit status 3"} {
		if code, ok := ParseExitCode(text); ok {
			t.Errorf("%q is the exit code %d", text, code)
		}
	}
}
