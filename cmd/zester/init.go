package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/settings/shell"
)

const initManual = `init makes the files of a config repo in DIR: top.yaml, which says which hosts
get which settings; settings/common/base.yaml with one schedule entry;
zester.yaml with limits; JSON Schemas, by which editors complete and check the
files; a recipe for the CI of the forge; a hook for pre-commit; README.md.

DIR must not be there, be empty, or have a folder .git alone. init replaces no
file, and makes no commit.

The forge is the one of the remote origin, if its address has the name github,
gitlab, forgejo or codeberg. --forge names another one. Without either there is
no recipe.`

// forges has where each forge looks for recipes.
var forges = map[string]string{
	"github":  ".github/workflows/zester.yaml",
	"gitlab":  ".gitlab-ci.yml",
	"forgejo": ".forgejo/workflows/zester.yaml",
}

func (a *app) initCommand() *cobra.Command {
	var forge string
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make the files of a new config repo",
		Long:  initManual,
		Args:  words("directory of the new config repo"),
		RunE:  func(_ *cobra.Command, args []string) error { return a.initRepo(args[0], forge) },
	}
	cmd.Flags().StringVar(&forge, "forge", "", "`NAME`: github, gitlab or forgejo (default: by the remote)")
	return cmd
}

func (a *app) initRepo(dir, forge string) error {
	if forge != "" && forges[forge] == "" {
		return usageError("cannot use %q for --forge: it is github, gitlab or forgejo", forge)
	}
	isRepo, err := checkNew(dir)
	if err != nil {
		return err
	}
	if forge == "" {
		forge = forgeOf(dir)
	}
	files, err := newRepo(forge)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot make the config repo: %w", err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("cannot make the config repo: %w", err)
		}
	}
	a.nextCommands(dir, forge, isRepo)
	return nil
}

// nextCommands prints what to type next.
func (a *app) nextCommands(dir, forge string, isRepo bool) {
	if forge == "" {
		fmt.Fprintln(a.out, "There is no recipe for CI, because no remote names a forge: --forge NAME writes one.")
	}
	begin := ""
	if !isRepo {
		begin = "git init -q -b main && "
	}
	fmt.Fprintf(a.out, "The config repo is in %s. Next:\n\n", dir)
	fmt.Fprintf(a.out, "  cd %s && zester lint\n", shell.Word(dir))
	fmt.Fprintf(a.out, "  %sgit add -A && git commit -q -m 'A fleet with one entry'\n", begin)
	fmt.Fprintf(a.out, "  zester-master --repo \"$PWD\"      # with packages: zester guide install\n")
}

// checkNew returns an error if a directory has a file beside .git, and reports whether it has .git.
func checkNew(dir string) (isRepo bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot make the config repo: %w", err)
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			return false, &failure{
				code: exitFailed, err: fmt.Errorf("cannot make the config repo in %s, which has %s", dir, e.Name()),
				hint: "name an empty or a new directory",
			}
		}
		isRepo = true
	}
	return isRepo, nil
}

// forgeOf returns the forge that the address of a remote names, empty if none does.
func forgeOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, ".git", "config"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, address, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.TrimSpace(key) != "url" {
			continue
		}
		if strings.Contains(address, "codeberg") {
			return "forgejo"
		}
		for forge := range forges {
			if strings.Contains(address, forge) {
				return forge
			}
		}
	}
	return ""
}

// newRepo returns the files of a new config repo by their paths in it.
func newRepo(forge string) (map[string][]byte, error) {
	from := map[string]string{} // paths in the examples by paths in the repo
	err := fs.WalkDir(examples.NewRepo(), "new", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			from[strings.TrimPrefix(path, "new/")] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, schema := range []string{"settings", "top", "zester"} {
		from[".zester/schema/"+schema+".json"] = "schema/" + schema + ".json"
	}
	if forge != "" {
		from[forges[forge]] = "ci/" + forge + ".yaml"
	}
	files := map[string][]byte{}
	for to, path := range from {
		if files[to], err = fs.ReadFile(examples.NewRepo(), path); err != nil {
			return nil, err
		}
	}
	return files, nil
}
