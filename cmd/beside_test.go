package cmd_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestACommandThatFailsBesideOthersFailsTheRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	for _, c := range []struct {
		commands []string
		passes   bool
		out      string // without the seconds
	}{
		{[]string{"echo one", "echo two"}, true, "\n== echo one\none\n\n== echo two\ntwo\n"},
		{[]string{"false; echo never", "echo two"}, false, "\n== false; echo never\n\n== echo two\ntwo\n"},
		{[]string{"echo one", "echo two; false | true"}, false, "\n== echo one\none\n\n== echo two; false | true\ntwo\n"},
	} {
		out, err := exec.Command("bash", append([]string{"../.ci/beside"}, c.commands...)...).CombinedOutput()
		var got strings.Builder
		for line := range strings.Lines(string(out)) {
			if !strings.HasSuffix(line, " s\n") {
				got.WriteString(line)
			}
		}
		if (err == nil) != c.passes || got.String() != c.out {
			t.Errorf("beside %q: %v, %q", c.commands, err, out)
		}
	}
}
