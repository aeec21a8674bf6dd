package lint

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	keyFile  = 64 << 10 // bytes that are read of a file; a credential is at its beginning
	keyFiles = 20_000   // files that are read
	maxKeys  = 20       // warnings
)

// Keys returns a warning for each file of a repo that has a private key or a credential of a fleet in plain text. It
// leaves out the files of settings, which [Linter.Secrets] searches. A file that sops has encrypted has none.
func Keys(tree fs.FS, settings []*plan.File) (found strictyaml.Errors) {
	known := map[string]bool{}
	for _, f := range settings {
		known[f.Node.Pos.File] = true
	}
	left := keyFiles
	_ = fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case left == 0 || len(found) == maxKeys:
			return fs.SkipAll
		case err != nil || !e.Type().IsRegular() || known[name]:
			return nil // what cannot be read is refused elsewhere if it is needed
		}
		left--
		text := beginning(tree, name)
		if kind, at := private.KeyIn(text); kind != "" {
			line := 1 + strings.Count(text[:at], "\n")
			found = append(found, strictyaml.Error{
				Pos: strictyaml.Pos{File: name, Line: line, Column: at - strings.LastIndex(text[:at], "\n")},
				Msg: keyMessage(name, kind),
			})
		}
		return nil
	})
	return found
}

// beginning returns the first bytes of a file, none if it cannot be read or is a binary file.
func beginning(tree fs.FS, name string) string {
	f, err := tree.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, keyFile))
	if err != nil || slices.Contains(data[:min(len(data), 8<<10)], 0) {
		return ""
	}
	return string(data)
}

// keyMessage says what to do with a key in a file. The history keeps it, so it has to be replaced as well.
func keyMessage(name, kind string) string {
	replace := "make a new key in its place"
	switch kind {
	case "a seed of NATS":
		replace = "revoke it: zester auth user revoke NAME"
	case "a token of zester":
		replace = "revoke it: zester auth join-token revoke NAME"
	case "an identity of age":
		replace = "make a new one, then run sops updatekeys and sops rotate for each file"
	}
	return fmt.Sprintf("it has %s in plain text, which everybody who reads the repo can use: git rm --cached %s, "+
		"and %s (the history keeps the old one: zester guide leaked)", kind, shell.Word(name), replace)
}
