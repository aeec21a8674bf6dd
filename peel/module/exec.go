package module

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
)

// stateOutput is how many bytes of each output stream of a state's command are kept.
const stateOutput = 8 << 10

// A StateCommand is a command of a state. Either Shell or Argv is set.
type StateCommand struct {
	Shell   string // text that the shell runs
	Argv    []string
	Cwd     string            // an absolute path; empty: the user's home, else /
	Env     map[string]string // added to PATH, HOME and LC_ALL
	User    string            // name or number; empty: the peel's
	Stdin   string
	Secrets []Secret // masked in the output
}

// Exec runs a command as cmd.run does, in a process group of its own that ends with ctx. It returns the exit code, -1
// if the command did not exit by itself, and the beginning of its output. It returns an error if the command could not
// start, or if ctx ended it.
func (r *Registry) Exec(ctx context.Context, s StateCommand) (code int, output string, err error) {
	args := commandArgs{
		Command:   s.Shell,
		Argv:      s.Argv,
		Cwd:       s.Cwd,
		Env:       s.Env,
		User:      s.User,
		Stdin:     s.Stdin,
		MaxOutput: stateOutput,
	}
	home, _ := os.UserHomeDir()
	c, err := args.prepare([]string{
		"PATH=" + cmp.Or(os.Getenv("PATH"), defaultPath), "HOME=" + cmp.Or(home, "/"), "LC_ALL=C.UTF-8",
	})
	if err != nil {
		return -1, "", fmt.Errorf("cannot run the command: %w", err)
	}
	c.secrets, c.groups = s.Secrets, r.groups
	end, err := c.run(ctx)
	if err != nil {
		return -1, "", fmt.Errorf("cannot run %s: %w", c.argv[0], err)
	}
	output = strings.TrimSpace(text(end.stdout) + text(end.stderr))
	if end.cut != nil {
		return -1, output, fmt.Errorf("the command was ended: %w", end.cut)
	}
	return end.code, output, nil
}

// defaultPath is where commands of states are found if the peel has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// text returns the kept bytes of a stream with a mark if there were more.
func text(s stream) string {
	kept, isText := s.text.(string)
	if !isText {
		kept = strings.ToValidUTF8(string(s.text.([]byte)), "?")
	}
	if s.truncated {
		kept += fmt.Sprintf("… (%d bytes)", s.bytes)
	}
	if kept != "" && !strings.HasSuffix(kept, "\n") {
		kept += "\n"
	}
	return kept
}
