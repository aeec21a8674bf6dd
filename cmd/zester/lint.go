package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/plan/revision"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const lintManual = `lint checks a config repo as a master reads it, and asks no master. DIR is the directory with top.yaml, by default
this one. What is checked is the commit that git add -A and git commit would make of the working tree: a file that Git
ignores does not count, a file of Git LFS is its pointer. The program git makes it, in a temporary directory, and runs
the clean filters of its configuration. DIR need not be in a Git repository. --head names a commit to check in its place;
that needs no program. Where one repo serves several fleets by folder, --path names the folder, as for zester-master.

Each error and warning is a line:

  settings/web/nginx.yaml:4:5: schedule.hello.intervall: unknown field; did you mean "interval"?
  settings/web/nginx.yaml:7:12: warning: schedule.hello.splay: 1h0m0s is not below the 30m0s between two fires

An error ends lint with 1. It is what a master refuses the revision for, or a function or argument of an entry that
this version knows not to exist. A warning is allowed and probably not meant: a settings file that no target uses, an
entry that never fires, a splay as long as the time between two fires, a fire where clocks change, a function of a module
that this version does not know, or a secret in plain text. With --strict all warnings are errors.

What looks like a secret is a value of the shape of a private key or a known kind of token, and one under a name such as
password, token or api_key that has six characters or more and is no reference (a path, file:/…, ${…}). The value of
what looks like a secret is not printed.

Files that are encrypted with sops are not searched. Their MAC, which covers their values, is not checked either, because
that takes an identity: a warning names each such file, with --strict too.

Which files meet on a peel depends on its facts. With --facts, the file of peels that target eval --file reads, the
settings of each peel are checked as a whole, and there are warnings of targets that match nobody and of entries that
ten peels or more start at the same moment. Without it, an entry that stands in one file only has to be complete.

--peel-config names a peel.yaml, to be warned of its entries that the repo takes the place of.

-o json:
  {"version": 1,
   "errors":   [{"file": …, "line": …, "column": …, "path": …, "message": …}, …],
   "warnings": [the same]}`

// lintFlags are what lint is asked for.
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
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("%s does not take the argument %q", cmd.CommandPath(), args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.lint(cmd.Context(), append(args, ".")[0], f) },
	}
	cmd.Flags().StringVar(&f.facts, "facts", "", "`FILE` with the peels and their facts")
	cmd.Flags().StringVar(&f.path, "path", "", "`DIR` below the repo with the files of the fleet, as --path of zester-master")
	cmd.Flags().StringVar(&f.head, "head", "", "`REVISION` to check (default: the working tree)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings as errors")
	cmd.Flags().StringVar(&f.peelConfig, "peel-config", "", "`FILE` peel.yaml, to warn of entries that the repo replaces")
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

// collectSeldom saves a command that reads much and ends soon a quarter of its time, for twice the memory.
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
	compiled, err := compileAt(ctx, place{dir, flags.path, flags.head}, fleet)
	refused, isRefused := revision.Refusal(err)
	if err != nil && !isRefused {
		return err
	}
	var errs, warnings strictyaml.Errors
	if !isRefused {
		refused = compiled.Mistakes
		errs, warnings = flags.findings(compiled, static)
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
	return errs, append(warnings, lint.Unchecked(p)...) // not an error with --strict: the author cannot mend it
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

// readIndex reads a file of peels as a fleet.
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

// staticEntries finds the entries of a peel.yaml, none without a file.
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
