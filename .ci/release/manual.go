package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// printManual prints the manual page of a daemon in section 8, from what its --help prints.
func printManual(out io.Writer, program, summary string) error {
	cmd := exec.Command(program, "--help")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME=", "HOME=/root")
	help, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s --help: %w", program, err)
	}
	_, err = io.WriteString(out, manual(filepath.Base(program), summary, string(help)))
	return err
}

// manual returns a manual page. Lines of help that begin with two spaces and a hyphen are flags.
func manual(name, summary, help string) string {
	usage, text, _ := strings.Cut(help, "\n\n")
	about, flags, _ := strings.Cut(text, "\n\n")
	flags, commands, _ := strings.Cut(flags, "\n\n")

	var page strings.Builder
	fmt.Fprintf(&page, ".TH %s 8\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), name, roff(summary))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n%s\n", roff(strings.TrimPrefix(usage, "usage: ")))
	fmt.Fprintf(&page, ".SH DESCRIPTION\n%s\n.SH OPTIONS\n", roff(about))
	for line := range strings.Lines(flags) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-") {
			fmt.Fprintf(&page, ".TP\n.B %s\n", roff("-"+line))
			continue
		}
		fmt.Fprintln(&page, roff(line))
	}
	if commands != "" {
		fmt.Fprintln(&page, ".SH COMMANDS")
	}
	for line := range strings.Lines(commands) {
		switch {
		case strings.HasPrefix(line, " "):
			fmt.Fprintln(&page, roff(line))
		case strings.TrimSpace(line) != "":
			fmt.Fprintf(&page, ".TP\n.B %s\n", roff(line))
		}
	}
	fmt.Fprintf(&page, ".SH FILES\n.TP\n.I /etc/zester/%s.yaml\n", strings.TrimPrefix(name, "zester-"))
	fmt.Fprintf(&page, "the configuration; all fields are explained in /usr/share/doc/%s/%s.yaml\n", name,
		strings.TrimPrefix(name, "zester-"))
	page.WriteString(".SH SEE ALSO\n.BR zester (1)\n")
	return page.String()
}

// roff escapes text, so that no line is a request and no hyphen becomes a dash.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimSpace(text))
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
