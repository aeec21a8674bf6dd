package propose

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// patch returns a change of files in the form that git apply reads. Each file is replaced as a whole.
func patch(from fs.FS, below string, files map[string][]byte) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		was, err := fs.ReadFile(from, name)
		there := err == nil
		if content := files[name]; !there && content == nil {
			continue
		}
		old, latest := lines(was), lines(files[name])
		a, z := "a/"+path.Join(below, name), "b/"+path.Join(below, name)
		fmt.Fprintf(&b, "diff --git %s %s\n", a, z)
		switch {
		case !there:
			a = "/dev/null"
			b.WriteString("new file mode 100644\n")
		case files[name] == nil:
			z = "/dev/null"
			b.WriteString("deleted file mode 100644\n")
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%s +%s @@\n", a, z, span(len(old)), span(len(latest)))
		for _, l := range old {
			b.WriteString("-" + l + "\n")
		}
		for _, l := range latest {
			b.WriteString("+" + l + "\n")
		}
	}
	return b.String(), nil
}

func lines(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func span(n int) string {
	if n == 0 {
		return "0,0"
	}
	return fmt.Sprintf("1,%d", n)
}
