package survey

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/private"
)

// passwords are files with the hashes of passwords.
var passwords = []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd"}

// Secret says why the content of a file looks as if it had a secret, empty if it does not. It never says the secret.
func Secret(path string, content []byte) string {
	if slices.Contains(passwords, path) {
		return "it has the hashes of passwords"
	}
	text := string(content)
	if shape := private.Shape(text); shape != "" {
		return "it has the shape of " + shape
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if !isComment(line) && private.Hide(line) != line {
			return "line " + strconv.Itoa(n) + " gives a value to the name of a secret"
		}
	}
	return ""
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "//")
}
