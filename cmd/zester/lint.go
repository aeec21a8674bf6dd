package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const lintManual = `lint checks a config repo with the rules of a master. It needs no master. DIR is
the directory with top.yaml, by default the current one; it need not be in a Git
repository. lint checks the commit that git add -A and git commit would make of
the working tree: it leaves out files that Git ignores, and of a Git LFS file it
sees the pointer. It runs git to make that commit in a temporary directory, with
the clean filters that are configured. --head names a commit to check instead;
that does not run git. If one repo serves several fleets by folder, --path names
the folder, as for zester-master.

Each error and warning is a line:

  settings/web.yaml:4:5: schedule.x.intervall: unknown field; did you mean
  "interval"?
  settings/web.yaml:7:12: warning: schedule.x.splay: 1h0m0s is not below the
  30m0s between two fires

The exit code is 1 if there are errors. An error is a mistake for which a master
refuses the revision, or a function or argument that this version knows not to
exist. A warning is allowed but probably a mistake: a settings file that no
target uses, an entry that never fires, a splay as long as the time between two
fires, a fire at a time when clocks change, a function of an unknown module, or
a secret in plain text. With --strict all warnings are errors.

lint takes two kinds of values for secrets: values with the form of a private
key or a known kind of token; and values of six characters or more below a name
such as password, token or api_key, unless they are references (a path, file:/…,
${…}). It does not print them. In the other files of the repo lint looks for
private keys, files of credentials (*.creds), identities of age and join tokens.

lint does not search files that are encrypted with sops for secrets. It cannot
check their MAC without an identity: a warning names each such file, also with
--strict.

The facts of a peel decide which files it gets. With --facts, a file of peels as
for target eval --file, lint checks the whole settings of each peel, and warns
of targets that match no peel, of entries that ten or more peels start at the
same moment, and of prompts on peels that have no model to ask. Without --facts,
only an entry that is in a single file has to be complete.

--peel-config names a peel.yaml: lint warns of its entries that the repo
replaces.

-o json:
  {"version": 1,
   "errors": [{"file": …, "line": …, "column": …, "path": …, "message": …},
              …],
   "warnings": [the same]}`

// lintFlags holds the flags of lint.
type lintFlags struct {
	facts, peelConfig, path, head string
	strict                        bool
}

func (a *app) lintCommand() *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check a config repo for errors and likely mistakes",
		Long:  lintManual,
		Args:  atMost(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.lint(cmd.Context(), append(args, ".")[0], f) },
	}
	factsFlag(cmd.Flags(), &f.facts, "")
	cmd.Flags().StringVar(&f.path, "path", "",
		"`DIR` below the repo with the files of the fleet, as --path of zester-master")
	cmd.Flags().StringVar(&f.head, "head", "", "`REVISION` to check (default: the working tree)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings as errors")
	cmd.Flags().StringVar(&f.peelConfig, "peel-config", "",
		"`FILE` peel.yaml, to warn of entries that the repo replaces")
	return cmd
}

// linted is what lint prints as data.
type linted struct {
	Version  int       `json:"version"`
	Errors   []finding `json:"errors"`
	Warnings []finding `json:"warnings"`
}

// finding is one error or warning.
type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

func findings(errs strictyaml.Errors) []finding {
	out := []finding{}
	for _, e := range errs {
		out = append(out, finding{e.Pos.File, e.Pos.Line, e.Pos.Column, e.Path, e.Msg})
	}
	return out
}

// collectSeldom sets the garbage collector for a short command that reads much: a quarter less time, twice the memory.
func collectSeldom() { debug.SetGCPercent(400) }

func (a *app) lint(ctx context.Context, dir string, flags lintFlags) error {
	collectSeldom()
	static, err := staticEntries(flags.peelConfig)
	if err != nil {
		return err
	}
	var fleet *peelindex.Index
	if flags.facts != "" {
		if fleet, err = readIndex(flags.facts); err != nil {
			return err
		}
	}
	nobody := fleet != nil && fleet.Len() == 0
	if nobody {
		fleet = nil // else each target would match no peel
	}
	var compiled *plan.Plan
	var keys strictyaml.Errors
	err = place{dir, flags.path, flags.head}.read(ctx, func(tree fs.FS) (err error) {
		if compiled, err = compileTree(tree, fleet); compiled != nil {
			keys = lint.Keys(tree, compiled.Files())
		} else {
			keys = lint.Keys(tree, nil)
		}
		return err
	})
	refused, isRefused := review.Refusal(err)
	if err != nil && !isRefused {
		return err
	}
	var errs, warnings strictyaml.Errors
	if nobody {
		warnings = append(warnings, noPeels(flags.facts)) // also with --strict: there is nothing to correct
	}
	if !isRefused {
		refused = compiled.Mistakes
		var more strictyaml.Errors
		errs, more = flags.findings(compiled, static)
		warnings = append(warnings, more...)
	}
	if flags.strict {
		errs = append(errs, keys...)
	} else {
		warnings = append(warnings, keys...)
	}
	if refused != nil {
		errs = slices.Concat(refused.Errors, errs)
	}
	out := linted{Version: 1, Errors: findings(errs), Warnings: findings(warnings)}
	if err := a.showLint(out, refused); err != nil {
		return err
	}
	if len(errs) > 0 {
		return &failure{code: exitFailed, hint: topHint(refused, flags.path)}
	}
	return nil
}

// findings returns the errors and warnings about a tree that compiles.
func (f lintFlags) findings(p *plan.Plan, static map[string]strictyaml.Pos) (errs, warnings strictyaml.Errors) {
	linter := lint.New(lint.Options{From: time.Now(), Static: static})
	warnings = linter.All(p)
	if f.strict {
		errs, warnings = warnings, nil
	} else {
		errs = linter.Unknown(p.DeclaredEntries())
		warnings = slices.DeleteFunc(warnings, func(e strictyaml.Error) bool { return slices.Contains(errs, e) })
	}
	return errs, append(warnings, lint.Unchecked(p)...) // also with --strict: the author cannot correct them
}

func (a *app) showLint(out linted, refused *plan.Error) error {
	var names []string
	for _, f := range append(out.Errors, out.Warnings...) {
		names = append(names, f.File)
	}
	return a.print(out, names, func() error {
		for _, f := range out.Errors {
			fmt.Fprintln(a.out, plain(f.line("")))
		}
		if refused != nil && refused.More > 0 {
			fmt.Fprintf(a.out, "and %d more errors\n", refused.More)
		}
		for _, f := range out.Warnings {
			fmt.Fprintln(a.out, plain(f.line("warning: ")))
		}
		return nil
	})
}

func (f *finding) line(kind string) string {
	at := strictyaml.Pos{File: f.File, Line: f.Line, Column: f.Column}
	if f.Path != "" {
		kind += f.Path + ": "
	}
	return fmt.Sprintf("%s: %s%s", at, kind, f.Message)
}

// noPeels returns the warning about a file without peels, which a new config repo has.
func noPeels(file string) strictyaml.Error {
	return strictyaml.Error{
		Pos: strictyaml.Pos{File: file},
		Msg: "no peels are known: which hosts get what was not checked; " +
			"when hosts have joined, zester peel facts > " + shell.Word(file) + " writes them",
	}
}

// readIndex reads a file of peels into an index.
func readIndex(file string) (*peelindex.Index, error) {
	fleet, err := readFleet(file)
	if err != nil {
		return nil, err
	}
	index := peelindex.New()
	for _, p := range fleet.Peels {
		index.Put(p.ID, p.Facts)
	}
	return index, nil
}

// staticEntries returns the entries of a peel.yaml by name, none if file is empty.
func staticEntries(file string) (map[string]strictyaml.Pos, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the peel's configuration: %w", err)
	}
	node, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	entries := map[string]strictyaml.Pos{}
	if section := node.Get("schedule"); section != nil {
		for _, pair := range section.Map {
			entries[pair.Key] = pair.KeyPos
		}
	}
	return entries, nil
}
