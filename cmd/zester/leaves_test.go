package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// eachLeaf calls do with every command that does something and that help shows.
func eachLeaf(cmd *cobra.Command, do func(path string, cmd *cobra.Command)) {
	for _, c := range cmd.Commands() {
		switch {
		case c.Hidden || c.Name() == "help" || c.Name() == "completion":
		case c.HasSubCommands() && c.Name() != "swarm":
			eachLeaf(c, do)
		default:
			do(pathOf(c), c)
		}
	}
}

func testRoot() *cobra.Command {
	return (&app{out: &sink{Writer: io.Discard}, errOut: io.Discard}).root()
}

func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	found := map[string]bool{"": true}
	check := func(path string, cmd *cobra.Command) {
		found[path] = true
		if leaves[path].examples == "" {
			t.Errorf("zester %s has no examples", path)
		}
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   #")
			if problem := refusal(strings.TrimPrefix(line, "zester ")); problem != "" {
				t.Errorf("%s: %s", line, problem)
			}
			if got, _, _ := testRoot().Find(typedWords(strings.TrimPrefix(line, "zester "))); pathOf(got) != path {
				t.Errorf("%s is an example of zester %s, not of zester %s", line, pathOf(got), path)
			}
		}
	}
	root := testRoot()
	check("", root)
	eachLeaf(root, check)
	for path := range leaves {
		if !found[path] {
			t.Errorf("there is no command zester %s", path)
		}
	}
	for _, wrong := range []string{"job list --limit many", "job show", "job list --stauts failed", "test.pnig web-01", "sync pin a b"} {
		if refusal(wrong) == "" {
			t.Errorf("the test does not notice that zester %s is wrong", wrong)
		}
	}
}

// Help is wrapped to one width: every line of every command fits an 80 column terminal.
func TestHelpFitsEightyColumns(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
				check(c)
			}
		}
		help := cmd.Long + "\n" + cmd.UsageString()
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("the help of %s has a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		if cmd.Long != "" && cmd.Long != manual && !strings.HasPrefix(cmd.Long, cmd.Name()+" ") {
			t.Errorf("the help of %s does not begin with its name: %s", cmd.CommandPath(), cmd.Long)
		}
	}
	check(testRoot())
}

// refusal parses a command line as zester does before it asks a master, and returns what is wrong with it.
func refusal(line string) string {
	a := &app{out: &sink{Writer: io.Discard}, errOut: io.Discard}
	cmd, rest, err := a.root().Find(typedWords(line))
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil && !cmd.HasParent() {
		_, err = a.spec(cmd, cmd.Flags().Args())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// A command has the flags of the connection if and only if it connects: with an address that is refused, each command that
// has --url ends with an error about that address. login asks the console first, and logout reads whether there is a login.
func TestEveryCommandWithAnAddressUsesIt(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	check := func(path string, cmd *cobra.Command) {
		if !offers(cmd, "url") || slices.Contains([]string{"context add", "login", "logout"}, path) {
			return
		}
		line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
		line, _, _ = strings.Cut(line, "   #")
		args := append(typedWords(strings.TrimPrefix(strings.TrimSpace(line), "zester ")), "--url", "http://bus.invalid")
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code == exitOK || !strings.Contains(out.String(), "cannot connect to http://bus.invalid") {
			t.Errorf("zester %s --url http://bus.invalid ended with %d and\n%s", path, code, &out)
		}
	}
	root := testRoot()
	check("", root)
	eachLeaf(root, check)
}

func offers(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && !f.Hidden
}

// What a command prints, and whether it can be given as data, is listed here once more on purpose.
func TestOutputFlagsAreOnlyWhereThereIsOutput(t *testing.T) {
	silent := []string{"audit evidence", "audit export", "auth issue", "auth export", "context add", "context use", "context rm", "guide", "demo", "mcp", "console", "login", "logout", "import crontab", "import host", "import salt", "adopt", "init"}
	offline := []string{
		"schedule explain", "lint", "auth issue", "auth export", "context add", "context use", "context list",
		"context rm", "guide", "demo", "swarm", "version", "import crontab", "import salt", "init",
	}
	eachLeaf(testRoot(), func(path string, cmd *cobra.Command) {
		if has := offers(cmd, "output"); has == slices.Contains(silent, path) {
			t.Errorf("zester %s has --output: %t", path, has)
		}
		if has := offers(cmd, "context"); has == slices.Contains(offline, path) {
			t.Errorf("zester %s has --context: %t", path, has)
		}
		for _, name := range []string{"no-headers", "color"} {
			if offers(cmd, name) && !offers(cmd, "output") {
				t.Errorf("zester %s has --%s and prints nothing", path, name)
			}
		}
	})
}
