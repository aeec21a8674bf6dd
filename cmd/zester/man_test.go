//go:build man

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var manDir = flag.String("man.dir", "", "write the manual pages to `DIR`")

// TestManualPages writes the manual page of each command. .ci/package ships them; the generator is linked into no program.
func TestManualPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := (&app{}).root()
	root.DisableAutoGenTag = true
	prepare(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "zester", Manual: "zester"}, dir); err != nil {
		t.Fatal(err)
	}
	checkPages(t, dir, root)
}

// prepare makes the help of cmd and all below it fit for pages: indented lines stay as they are, and defaults are those of
// root, whoever makes the pages.
func prepare(cmd *cobra.Command) {
	var long strings.Builder
	indented := false
	for line := range strings.Lines(cmd.Long) {
		was := indented
		indented = strings.HasPrefix(line, "  ")
		if indented && !was {
			long.WriteString("\n")
		}
		if indented {
			long.WriteString("    ")
		}
		long.WriteString(line)
	}
	cmd.Long = long.String()

	if f := cmd.Flags().Lookup("data-dir"); f != nil {
		f.DefValue = systemDataDir
	}
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

// checkPages checks that cmd and the commands below it that help lists have pages.
func checkPages(t *testing.T, dir string, cmd *cobra.Command) {
	page := filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), ".SH NAME") {
		t.Errorf("%s has no manual page: %v", cmd.CommandPath(), err)
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			checkPages(t, dir, sub)
		}
	}
}
