package movein

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestNotesOnAllSuchStates converts declarations in which all states of a kind do less or more than Salt. The report
// counts them, and a settings file says it once.
func TestNotesOnAllSuchStates(t *testing.T) {
	t.Parallel()
	const (
		link   = "a link at the path is replaced by the file: Salt writes to what it leads to"
		isLink = link + ", unless follow_symlinks is false"
		home   = "a home that is missing is not made for a user that is there: Salt makes it, unless createhome is false"
		blanks = "a line that differs in blanks is not taken for it: Salt takes it"
		value  = "a line of the same value with other blanks is written again: Salt leaves it"
		more   = "further lines of the key stay: Salt removes or rewrites them"
		option = "an option of the same value with other blanks is written again: Salt leaves it"
		marked = "a file without such a line, with the mark or without, is left: Salt fails"
		none   = "a file without such a line is left: Salt fails, unless ignore_missing is true"
		branch = "the clone is on no branch: Salt makes one of the name of the revision, or of branch"
		place  = "a line that is anywhere in the file is left, and of several places the last counts: Salt looks beside the place, and fails if there are several"
		mode   = "a file that somebody made executable is so no more: Salt leaves its mode, as there is no file_mode"
	)
	for _, c := range []struct{ function, name, args, want string }{
		{"file.managed", "/a", `"contents": "x"`, isLink},
		{"file.managed", "/a", `"contents": "x", "follow_symlinks": true`, isLink},
		{"file.managed", "/a", `"contents": "x", "follow_symlinks": false`, ""},
		{"file.managed", "/a", `"contents": "x", "replace": false`, ""},
		{"file.managed", "/a", ``, ""},
		{"file.serialize", "/a", `"dataset": {"a": 1}, "formatter": "json"`, link},
		{"user.present", "bob", ``, home},
		{"user.present", "bob", `"createhome": false`, ""},
		{"file.append", "/a", `"text": "x"`, blanks},
		{"file.prepend", "/a", `"text": "x"`, blanks},
		{"file.keyvalue", "/a", `"key": "a", "value": "b", "append_if_not_found": true`, value},
		{"file.keyvalue", "/a", `"key": "a", "value": "b"`, value + more},
		{"ini.options_present", "/a", `"sections": {"a": "b"}`, option},
		{"file.line", "/a", `"mode": "ensure", "content": "x", "after": "^b"`, place},
		{"file.line", "/a", `"mode": "insert", "content": "x", "location": "end"`, ""},
		{"file.comment", "/a", `"regex": "b"`, none},
		{"file.comment", "/a", `"regex": "b", "ignore_missing": true`, ""},
		{"file.uncomment", "/a", `"regex": "b"`, marked},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "2.4.x"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "3.11"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "0123456789"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "main"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "v1.2", "branch": "live"`, branch},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "v1.2.3"`, ""},
		{"git.latest", "https://e.org/a.git", `"target": "/srv/a", "rev": "0123456789abcdef0123456789abcdef01234567"`, ""},
		{"file.recurse", "/a", `"source": "salt://d"`, mode},
		{"file.recurse", "/a", `"source": "salt://d", "file_mode": "0640"`, ""},
	} {
		module, fun, _ := strings.Cut(c.function, ".")
		var both strings.Builder
		for _, id := range []string{"x", "y"} {
			both.WriteString(`, {"__sls__": "s", "__id__": "` + id + `", "name": "` + c.name + `", "state": "` + module + `", "fun": "` + fun + `"`)
			both.WriteString(strings.TrimSuffix(", "+c.args, ", ") + "}")
		}
		roots := fstest.MapFS{"d/f": {Data: []byte("x\n"), Mode: 0o644}}
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, "["+both.String()[2:]+"]")}, Roots: []fs.FS{roots}})
		if err != nil {
			t.Fatal(c.function, err)
		}
		var got strings.Builder
		for _, row := range r.Notes {
			if note, isGeneral := strings.CutPrefix(row.Reason, forAll); isGeneral {
				got.WriteString(note)
				if count := strings.Count(string(r.Files["settings/s.yaml"]), noteMark+row.Reason+"\n"); count != 1 || row.Count != 2 {
					t.Errorf("%s %s: %d notes %q in the file, and %d in the report", c.function, c.args, count, note, row.Count)
				}
			}
		}
		if got.String() != c.want {
			t.Errorf("%s %s has the note %q, want %q", c.function, c.args, got.String(), c.want)
		}
	}
}

// TestTemplatesAreTreatedAlike gives each function that takes a text a template of each renderer.
func TestTemplatesAreTreatedAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ function, name, args, refused string }{
		{"file.managed", "/a", `"contents": "TEXT", "template": "ENGINE"`, "argument contents: a template; run salt '*' cp.push PATH and give --pushed"},
		{"file.managed", "/a", `"source": "salt://TEXT", "template": "ENGINE"`, "a template"},
		{"file.recurse", "/a", `"source": "salt://dTEXT", "template": "ENGINE"`, "argument source: a directory with a template: give its files as file.managed"},
		{"file.blockreplace", "/a", `"content": "TEXT", "template": "ENGINE"`, "argument content: a template: give the text that Salt rendered"},
		{"file.blockreplace", "/a", `"source": "salt://TEXT", "template": "ENGINE"`, "argument source: a template: give the text that Salt rendered as content"},
		{"cmd.script", "x", `"source": "salt://TEXT", "template": "ENGINE"`, "argument source: a template: give the text that Salt rendered as command"},
	} {
		for _, engine := range []string{"jinja", "mako", "py", "pyobjects", "cheetah", "wempy", "genshi"} {
			for _, text := range []string{"plain", "{{x}}"} {
				args := strings.NewReplacer("TEXT", text, "ENGINE", engine).Replace(c.args)
				module, fun, _ := strings.Cut(c.function, ".")
				roots := fstest.MapFS{}
				for _, content := range []string{"plain", "{{x}}"} {
					roots[content] = &fstest.MapFile{Data: []byte(content + "\n")}
					roots["d"+content+"/f"] = &fstest.MapFile{Data: []byte(content + "\n")}
				}
				r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[{"__sls__": "s", "__id__": "x", "name": "`+c.name+
					`", "state": "`+module+`", "fun": "`+fun+`", `+args+`}]`)}, Roots: []fs.FS{roots}})
				if err != nil {
					t.Fatal(c.function, args, err)
				}
				isKept := engine == "jinja" && text == "plain"
				if len(r.Refused) == 0 != isKept || !isKept && !strings.HasPrefix(r.Refused[0].Reason, c.refused) {
					t.Errorf("%s %s: refused %v", c.function, args, r.Refused)
				}
			}
		}
	}

	// If Salt pushed the rendered text of contents, the text is taken.
	h := low(t, `[{"__sls__": "s", "__id__": "x", "name": "/a", "state": "file", "fun": "managed", "contents": "${x}", "template": "mako"}]`)
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Pushed: fstest.MapFS{"h/files/a": {Data: []byte("one\n")}}})
	if text := string(r.Files["settings/s.yaml"]); err != nil || !strings.Contains(text, "one\n") || !strings.Contains(text, asRendered) {
		t.Errorf("%s %v %v", text, r.Refused, err)
	}
}

// A file may keep the mode that it has on the master. Those of a directory are executable in the repo where they differ.
func TestModesThatAreKept(t *testing.T) {
	t.Parallel()
	roots := fstest.MapFS{
		"one": {Data: []byte("x\n"), Mode: 0o750}, "same/a": {Mode: 0o600}, "same/b": {Mode: 0o600},
		"mixed/run": {Mode: 0o755}, "mixed/read": {Mode: 0o644}, "odd/run": {Mode: 0o755}, "odd/read": {Mode: 0o600},
		"group/run": {Mode: 0o750}, "group/read": {Mode: 0o644}, "setuid": {Mode: 0o755 | fs.ModeSetuid},
	}
	of := func(state string) (string, SaltResult) {
		r, err := Salt(SaltInput{Hosts: []Minion{low(t, `[{"__sls__": "s", "__id__": "x", "name": "/a", "state": "file", `+state+`}]`)}, Roots: []fs.FS{roots}})
		if err != nil || len(r.Refused) > 0 {
			t.Fatal(state, err, r.Refused)
		}
		return string(r.Files["settings/s.yaml"]), r
	}
	if text, _ := of(`"fun": "managed", "source": "salt://one", "mode": "keep"`); !strings.Contains(text, `mode: "0750"`) {
		t.Error(text)
	}
	if text, _ := of(`"fun": "managed", "source": "salt://setuid", "mode": "keep"`); !strings.Contains(text, `mode: "4755"`) {
		t.Error(text)
	}
	if text, _ := of(`"fun": "managed", "source": "salt://one", "mode": "keep", "makedirs": true`); !strings.Contains(text, "Salt gives them 0750") {
		t.Error(text)
	}
	if _, r := of(`"fun": "recurse", "source": "salt://group", "file_mode": "keep"`); !r.Programs["files/group/run"] || len(r.Notes) != 1 {
		t.Error(r.Programs, r.Notes)
	}
	if text, _ := of(`"fun": "managed", "contents": "x", "allow_empty": false`); !strings.Contains(text, "content: |\n        x\n") {
		t.Error(text)
	}
	if text, _ := of(`"fun": "recurse", "source": "salt://same", "file_mode": "keep"`); !strings.Contains(text, `file_mode: "0600"`) {
		t.Error(text)
	}
	text, r := of(`"fun": "recurse", "source": "salt://mixed", "file_mode": "keep"`)
	if len(r.Programs) != 1 || !r.Programs["files/mixed/run"] || len(r.Notes) > 0 || strings.Contains(text, "file_mode") {
		t.Error(r.Programs, r.Notes, text)
	}
	if _, r := of(`"fun": "recurse", "source": "salt://odd", "file_mode": "keep"`); len(r.Programs) != 1 || len(r.Notes) != 1 {
		t.Error(r.Programs, r.Notes)
	}
}

// Where the grains have another shell, Salt runs commands and guards in it. That makes a difference for what a shell
// reads.
func TestTheShellOfTheGrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shell, args, want string }{
		{"/bin/bash", `"state": "cmd", "fun": "run", "name": "[[ a ]] && b", "creates": "/c"`, "argv:\n        - /bin/bash\n        - -c\n        - '[[ a ]] && b'\n"},
		{"/bin/bash", `"state": "cmd", "fun": "run", "name": "[[ a ]] && b", "creates": "/c", "shell": "/bin/sh"`, "command: '[[ a ]] && b'\n"},
		{"/bin/bash", `"state": "cmd", "fun": "run", "name": "make all", "creates": "/c"`, "command: make all\n"},
		{"/bin/sh", `"state": "cmd", "fun": "run", "name": "a | b", "creates": "/c"`, "command: a | b\n"},
		{"/bin/zsh", `"state": "service", "fun": "running", "name": "x", "unless": ["[[ a ]]", "true"]`, "unless:\n      - |-\n        (\n        /bin/zsh -c '[[ a ]]'\n        ) && (\n        true\n        )\n"},
		{"/bin/zsh", `"state": "module", "fun": "run", "name": "cmd.run", "cmd": "a | b"`, "argv:\n        - /bin/zsh\n"},
		{"/bin/sh", `"state": "module", "fun": "run", "name": "cmd.run", "cmd": "a | b", "shell": "/bin/bash"`, "argv:\n        - /bin/bash\n"},
		{"/bin/zsh", `"state": "user", "fun": "present", "name": "x", "shell": "/bin/false", "unless": ["[[ a ]]"]`, "- /bin/zsh -c '[[ a ]]'\n"},
	} {
		h := low(t, `[{"__sls__": "s", "__id__": "x", `+c.args+`}]`)
		h.Grains = map[string]any{"shell": c.shell}
		r, err := Salt(SaltInput{Hosts: []Minion{h}})
		if text := string(r.Files["settings/s.yaml"]); err != nil || !strings.Contains(text, c.want) {
			t.Errorf("%s %s became\n%s%v %v", c.shell, c.args, text, r.Refused, err)
		}
	}
}
