package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/cmd/zester/movein"
	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/shell"
)

const saltManual = `salt turns what Salt would apply to its minions into the files of a config repo.
Each LOW.json is what Salt prints of them, rendered:

  salt '*' state.show_lowstate --out json --static > low.json
  salt '*' pillar.items --out json --static > pillar.json
  salt '*' grains.items --out json --static > grains.json

Each declaration becomes a state. One that has no counterpart becomes a state
with enabled: false and the declaration in a comment, and is counted in the
report. What a state does in another way is a note there and in the report.
Equal states of several hosts are written once; their target is a list of these
hosts, because the input does not show which others a fact selects. If Salt
printed all hosts of a target, give that target as --target: then the target is
this one, or a fact that tells hosts apart within it.

Files of salt:// are copied from --roots. A template becomes one here if it has
only names, if and for. Of others the text that Salt rendered is used: let the
minions send it with salt '*' cp.push PATH, and give the cache of the master,
/var/cache/salt/master/minions, as --pushed.

Secrets of the pillar go to --secrets, outside the repo. The report has the
commands of sops that take them in.

The files are checked with the facts of the hosts in peels.yaml, which is
written beside them. After each change by hand do so again:

  zester lint REPO --facts REPO/peels.yaml

The exit code is 2 if a declaration has no counterpart, or if lint finds an
error. Then compare: zester import check TARGET says what would change on hosts.`

// saltFlags are the flags of import salt.
type saltFlags struct {
	roots                       []string
	out, secrets, target        string
	pillar, grains, pushedFiles string
}

func (a *app) importSaltCommand() *cobra.Command {
	var f saltFlags
	cmd := &cobra.Command{
		Use:   "salt LOW.json… --roots DIR --out REPO",
		Short: "Turn the states of Salt into a config repo",
		Long:  saltManual,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usageError("which states? Write salt '*' state.show_lowstate --out json --static > low.json")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, files []string) error { return a.importSalt(files, f) },
	}
	cmd.Flags().StringArrayVar(&f.roots, "roots", nil, "`DIR` that Salt serves as salt://; may be given several times")
	cmd.Flags().StringVar(&f.out, "out", "", "`DIR` of the new config repo")
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "new `DIR` for secrets (default: that of --out with .secrets)")
	cmd.Flags().StringVar(&f.target, "target", "", "`EXPR`, such as '*', that selects the hosts of LOW.json alone")
	cmd.Flags().StringVar(&f.pillar, "pillar", "", "`FILE` with pillar.items of the hosts")
	cmd.Flags().StringVar(&f.grains, "grains", "", "`FILE` with grains.items of the hosts")
	cmd.Flags().StringVar(&f.pushedFiles, "pushed", "", "`DIR` with what cp.push sent to the master")
	return cmd
}

func (a *app) importSalt(files []string, f saltFlags) error {
	if f.out == "" {
		return usageError("where to? Give the directory of the new config repo as --out")
	}
	if f.secrets == "" {
		f.secrets = absolute(f.out) + ".secrets"
	}
	if isBelow(f.secrets, f.out) {
		return usageError("cannot keep secrets in %s, which is in the repo %s: name another directory as --secrets",
			f.secrets, f.out)
	}
	for _, dir := range []string{f.out, f.secrets} {
		if _, err := checkNew(dir); err != nil {
			return err
		}
	}
	in, err := readSalt(files, f)
	if err != nil {
		return err
	}
	result, err := movein.Salt(in)
	if err != nil {
		return fmt.Errorf("cannot convert the states of Salt: %w", err)
	}
	if err := writeTree(f.out, result.Files, 0o755, 0o644); err != nil {
		return err
	}
	for program := range result.Programs {
		if err := os.Chmod(filepath.Join(f.out, filepath.FromSlash(program)), 0o755); err != nil {
			return err
		}
	}
	if err := writeTree(f.secrets, result.Secrets, 0o700, 0o600); err != nil {
		return err
	}
	fmt.Fprint(a.out, saltReport(result, f))
	if len(result.Refused)+len(result.Mistakes) > 0 {
		return &failure{code: exitSomeFailed}
	}
	return nil
}

func readSalt(files []string, f saltFlags) (movein.SaltInput, error) {
	low := map[string][]map[string]any{}
	for _, file := range files {
		hosts, err := readSaltFile[[]map[string]any](file)
		if err != nil {
			return movein.SaltInput{}, err
		}
		for id, declarations := range hosts {
			if _, isTwice := low[id]; isTwice {
				return movein.SaltInput{}, fmt.Errorf("host %s is in %s and in an earlier file: give one of the two",
					id, file)
			}
			low[id] = declarations
		}
	}
	pillar, err := readSaltFile[map[string]any](f.pillar)
	if err != nil {
		return movein.SaltInput{}, err
	}
	grains, err := readSaltFile[map[string]any](f.grains)
	if err != nil {
		return movein.SaltInput{}, err
	}
	hosts, err := movein.Minions(low, pillar, grains)
	if err != nil {
		return movein.SaltInput{}, fmt.Errorf("cannot use %s: %w", strings.Join(files, ", "), err)
	}
	in := movein.SaltInput{Hosts: hosts, Target: f.target, Now: time.Now()}
	for _, dir := range f.roots {
		root, err := movein.OpenRoot(dir)
		if err != nil {
			return in, fmt.Errorf("cannot read --roots: %w", err)
		}
		in.Roots = append(in.Roots, root)
	}
	if f.pushedFiles != "" {
		if in.Pushed, err = movein.OpenRoot(f.pushedFiles); err != nil {
			return in, fmt.Errorf("cannot read --pushed: %w", err)
		}
	}
	return in, nil
}

// readSaltFile reads a file that salt printed. A file without a name has no hosts.
func readSaltFile[T any](name string) (map[string]T, error) {
	if name == "" {
		return map[string]T{}, nil
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	hosts, err := movein.ReadSalt[T](in)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return hosts, nil
}

// writeTree writes new files below a directory. dirs is the mode of new
// directories, mode the one of files.
func writeTree(dir string, files map[string][]byte, dirs, mode fs.FileMode) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), dirs); err != nil {
			return err
		}
		if err := os.WriteFile(to, files[name], mode); err != nil {
			return err
		}
	}
	return nil
}

func saltReport(r movein.SaltResult, f saltFlags) string {
	var b strings.Builder
	share := 100.0
	if r.Declarations > 0 {
		share = 100 * float64(r.Converted) / float64(r.Declarations)
	}
	fmt.Fprintf(&b, "%d of %d declarations converted (%.1f %%)\n", r.Converted, r.Declarations, share)
	for _, row := range r.Refused {
		fmt.Fprintf(&b, "not converted: %dx %s: %s%s (%s)\n  %s\n", row.Count, row.Function, row.Reason,
			salt.Hint(salt.Function, row.Function), hostList(row.Hosts), placeOf(row))
	}
	for _, row := range r.Notes {
		fmt.Fprintf(&b, "note: %dx %s: %s (%s)\n  %s\n", row.Count, row.Function, row.Reason, hostList(row.Hosts),
			placeOf(row))
	}
	if len(r.Mistakes) > 0 {
		fmt.Fprintf(&b, "no host gets its settings before this is mended (lint --facts finds it too):\n")
	}
	for _, mistake := range r.Mistakes {
		fmt.Fprintf(&b, "  %v\n", mistake)
	}
	if len(r.Reordered) > 0 {
		fmt.Fprintf(&b, "note: states without a requisite run in another order than in Salt on %s: hosts "+
			"contradict each other, or a directory or account comes before what is in it or owned by it\n",
			hostList(r.Reordered))
	}
	for i, name := range slices.Sorted(maps.Keys(r.Secrets)) {
		if i == 0 {
			fmt.Fprintf(&b, "secrets, once %s has a .sops.yaml (zester guide repo):\n", f.out)
		}
		fmt.Fprintf(&b, "  (cd %s && mkdir -p %s && sops encrypt --filename-override %s %s > %s)\n", shell.Word(f.out),
			filepath.Dir(name), name, shell.Word(absolute(filepath.Join(f.secrets, name))), name)
	}
	fmt.Fprintf(&b, "next, and after each change: zester lint %s --facts %s; on hosts that Salt has converged: "+
		"zester import check '*'\n", shell.Word(f.out), shell.Word(filepath.Join(f.out, movein.PeelsFile)))
	return b.String()
}

// placeOf returns the first declaration of a row.
func placeOf(row movein.SaltRow) string {
	if row.Count > 1 {
		return "such as " + row.First
	}
	return "in " + row.First
}

// isBelow reports whether a path is a directory or in it, by the names that they have without symbolic links.
func isBelow(name, dir string) bool {
	rel, err := filepath.Rel(resolved(dir), resolved(name))
	return err == nil && filepath.IsLocal(rel)
}

// resolved returns an absolute path without symbolic links. Its end may not exist yet.
func resolved(name string) string {
	name = absolute(name)
	if found, err := filepath.EvalSymlinks(name); err == nil {
		return found
	}
	above := filepath.Dir(name)
	if above == name {
		return name
	}
	return filepath.Join(resolved(above), filepath.Base(name))
}

func absolute(name string) string {
	if full, err := filepath.Abs(name); err == nil {
		return full
	}
	return name
}

// hostList returns the first hosts and how many there are.
func hostList(hosts []string) string {
	const shown = 3
	if len(hosts) <= shown {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(hosts[:shown], ", "), len(hosts)-shown)
}
