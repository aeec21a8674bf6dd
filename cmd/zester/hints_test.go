package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/salt"
)

// TestCommonMistakesAreAnsweredWithWhatToDo shows, for each mistake, what is printed and with which code it ends.
func TestCommonMistakesAreAnsweredWithWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	if err := f.credentials(dir); err != nil {
		t.Fatal(err)
	}
	repo := func(name string, files map[string]string) string {
		files["settings/all.yaml"] += "\n"
		if files["top.yaml"] == "" {
			files["top.yaml"] = "base:\n  '*': [all]\n"
		}
		for path, text := range files {
			path = filepath.Join(dir, name, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, name)
	}
	auditor := []string{"--url", f.url, "--creds", filepath.Join(dir, "auditor.creds")}
	local := []string{"--data-dir", f.dir}
	for name, c := range map[string]struct {
		args []string
		code int
		want string // in what is printed
	}{
		"an auditor dispatches": {
			append(auditor, "web-01", "cmd.run", "uptime"), exitDenied,
			"hint: running functions needs the credential of an operator, an auditor only reads: zester auth user add NAME makes one\n",
		},
		"secrets of a function that shows none": {
			append(local, "web-01", "test.ping", "--show-secrets"), exitUsage,
			"zester: --show-secrets is for settings.get, cron.tables and file.read: test.ping shows no secrets\n",
		},
		"a peel that never joined": {
			append(local, "auth", "peel", "list", "web-99"), exitFailed,
			"zester: no master knows the credential of a peel \"web-99\"\nhint: zester auth peel list shows all peels that joined\n",
		},
		"an abbreviated argument": {
			append(local, "web-01", "cmd.run", "cmd=uptime"), exitUsage,
			`zester: cmd.run: argument cmd: unknown; did you mean "command"?` + "\n",
		},
		"a fact with =": {
			append(local, "G@role=web", "test.ping"), exitUsage,
			"column 7: = does not separate a key from its value (write G@role:web; a key that contains = needs quotes)\n",
		},
		"a * without quotes": { // the shell makes the names of files of it
			append(local, "hints_test.go", "main.go", "cmd.run", "uptime"), exitUsage,
			"hint: quote the target: zester '*' cmd.run uptime\n",
		},
		"flags of a command without quotes": {
			append(local, "web-01", "cmd.run", "uptime", "-p"), exitUsage,
			"hint: quote the command, or zester takes its flags: zester --data-dir " + f.dir + " web-01 cmd.run 'uptime -p'\n",
		},
		"a flag that Salt has, of a command without quotes": {
			append(local, "web-01", "cmd.run", "ls", "-l", "/"), exitUsage,
			"zester: unknown shorthand flag: 'l' in -l\nhint: quote the command, or zester takes its flags: zester --data-dir " + f.dir + " web-01 cmd.run 'ls -l /'\n",
		},
		"a long flag that Salt has, of a command without quotes": {
			append(local, "web-01", "cmd.run", "ls", "--verbose"), exitUsage,
			"zester: unknown flag: --verbose\nhint: quote the command, or zester takes its flags: zester --data-dir " + f.dir + " web-01 cmd.run 'ls --verbose'\n",
		},
		"a flag of Salt": {
			append(local, "-G", "os:debian", "cmd.run", "uptime"), exitUsage,
			"unknown shorthand flag: 'G' in -G; a target says what it is: 'G@os:debian'\n",
		},
		"a flag of Salt for a command that it does not have": {
			append(local, "job", "list", "-t", "5"), exitUsage,
			"zester: unknown shorthand flag: 't' in -t\n",
		},
		"a colon in a value": {
			[]string{"lint", repo("colon", map[string]string{"settings/all.yaml": "schedule:\n  x:\n    command: echo a: b"})},
			exitFailed,
			"settings/all.yaml:3:5: mapping values are not allowed in this context; check the indentation, or put the value of command in quotes: it contains \": \"\n",
		},
		"a colon in an element of a list": {
			append(local, "web-01", "cmd.run", "argv:=[echo, a: b]"), exitUsage,
			"argument argv: [1]: must be a string, not a map; put it in quotes if the \": \" belongs to the text\n",
		},
		"a merge conflict": {
			[]string{"lint", repo("conflict", map[string]string{"settings/all.yaml": "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> theirs"})},
			exitFailed,
			"settings/all.yaml:2:1: a merge conflict is not resolved: keep one side and remove the lines that begin with <<<<<<<, ======= and >>>>>>>\n",
		},
		"a top file without an environment": {
			[]string{"lint", repo("top", map[string]string{"top.yaml": "'web-*':\n  - all\n"})},
			exitFailed,
			`top.yaml:2:3: web-*: must be a map of targets, not a list; if "web-*" is a target, write base: on a line above all targets and indent them` + "\n",
		},
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), c.args, &out, &errOut); code != c.code || !strings.Contains(out.String()+errOut.String(), c.want) {
			t.Errorf("%s: ended with %d, want %d, and shows\n%s%s\nwithout %q", name, code, c.code, &out, &errOut, c.want)
		}
	}
}

// TestHintsForSaltNameCommands looks up each command that stands here for a word of Salt.
func TestHintsForSaltNameCommands(t *testing.T) {
	t.Parallel()
	texts := slices.AppendSeq(slices.Collect(maps.Values(functionsOfSalt)), maps.Values(flagsOfSalt))
	for _, w := range salt.Words() {
		texts = append(texts, w.Here)
	}
	root := (&app{out: &sink{Writer: io.Discard}, errOut: io.Discard}).root()
	named := 0
	for _, text := range texts {
		for _, line := range strings.Split(text, "zester ")[1:] {
			words := strings.Fields(strings.Trim(strings.TrimSuffix(strings.TrimSpace(line), " and"), ",; "))
			if words[0] == "TARGET" || words[0] == "PEEL" {
				continue
			}
			named++
			if found, _, err := root.Find(words); err != nil || found == root || found.HasSubCommands() {
				t.Errorf("%q names no command in %q", text, line)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d commands are named", named)
	}
}
