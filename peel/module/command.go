package module

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	// Grace is the time between SIGTERM and SIGKILL for a command's process group.
	Grace = 5 * time.Second
	// Linger is how long processes that a command left behind may keep its output open.
	Linger = 2 * time.Second

	defaultOutput = 256 << 10 // bytes of each stream
	// maxOutput leaves room in one message for both streams and the rest of the return.
	maxOutput = 448 << 10
)

// commandArgs are the arguments of cmd.run; package catalogue documents them.
type commandArgs struct {
	Command   string            `yaml:"command"`
	Argv      []string          `yaml:"argv"`
	Shell     string            `yaml:"shell"`
	Timeout   time.Duration     `yaml:"timeout"`
	Env       map[string]string `yaml:"env"`
	Cwd       string            `yaml:"cwd"`
	User      string            `yaml:"user"`
	Stdin     string            `yaml:"stdin"`
	MaxOutput int               `yaml:"max_output"`
}

// commandData is what cmd.run returns.
type commandData struct {
	Code            int    `json:"code"`             // exit code; -1 if the command did not exit by itself
	Signal          string `json:"signal,omitempty"` // the signal that ended it, such as "SIGKILL"
	Stdout          any    `json:"stdout"`           // a string, or bytes if it is not valid UTF-8
	Stderr          any    `json:"stderr"`
	StdoutBytes     int64  `json:"stdout_bytes"` // length of the whole output, with secrets masked
	StderrBytes     int64  `json:"stderr_bytes"`
	StdoutTruncated bool   `json:"stdout_truncated,omitempty"` // Stdout has only the first max_output bytes
	StderrTruncated bool   `json:"stderr_truncated,omitempty"`
	// digest of the whole output, with secrets masked, if truncated
	StdoutSHA256 string `json:"stdout_sha256,omitempty"`
	StderrSHA256 string `json:"stderr_sha256,omitempty"`
	TimedOut     bool   `json:"timed_out,omitempty"`
	Canceled     bool   `json:"canceled,omitempty"`
	OutputHeld   bool   `json:"output_held,omitempty"` // a process that the command left behind kept its output open
}

// runCommand is cmd.run.
func (r *Registry) runCommand(ctx context.Context, call Call) wire.Result {
	var args commandArgs
	decode(call.Args, &args)
	c, err := args.prepare(inherited())
	if err != nil {
		return failure("cannot run the command: %v", err)
	}
	if args.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, args.Timeout, timeoutError(args.Timeout))
		defer cancel()
	}
	if ctx.Err() != nil {
		return failure("canceled before the command started: %v", context.Cause(ctx))
	}
	c.secrets, c.groups = call.Secrets, r.groups
	end, err := c.run(ctx)
	if err != nil {
		return failure("cannot run %s: %v", c.argv[0], err)
	}
	return end.result()
}

// timeoutError is the cause of a context that ended at the command's own timeout.
type timeoutError time.Duration

func (e timeoutError) Error() string { return "timed out after " + time.Duration(e).String() }

// prepare checks that the arguments are consistent and usable on this host, and returns the command. Its environment is
// env and what the arguments add.
func (a *commandArgs) prepare(env []string) (*command, error) {
	if a.MaxOutput < 0 || a.MaxOutput > maxOutput {
		return nil, fmt.Errorf("max_output must be 1 to %d, not %d", maxOutput, a.MaxOutput)
	}
	if a.Cwd != "" {
		if !filepath.IsAbs(a.Cwd) {
			return nil, fmt.Errorf("cwd must be an absolute path, not %q", a.Cwd)
		}
		if _, err := os.Stat(a.Cwd); err != nil {
			return nil, fmt.Errorf("cannot use cwd: %w", err)
		}
	}
	c := &command{dir: a.Cwd, stdin: a.Stdin, maxOutput: cmp.Or(a.MaxOutput, defaultOutput), env: env}
	var err error
	if c.argv, err = a.program(); err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir()
	if a.User != "" {
		if home, err = c.runAs(a.User); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if name == "" || strings.Contains(name, "=") {
			return nil, fmt.Errorf("%q cannot be the name of an environment variable", name)
		}
		c.env = append(c.env, name+"="+a.Env[name])
	}
	c.dir = cmp.Or(c.dir, existing(home), "/")
	return c, nil
}

func (a *commandArgs) program() ([]string, error) {
	switch {
	case a.Command == "" && len(a.Argv) == 0:
		return nil, errors.New("give command or argv")
	case a.Command != "" && len(a.Argv) > 0:
		return nil, errors.New("give command or argv, not both")
	case a.Shell != "" && len(a.Argv) > 0:
		return nil, errors.New("argv runs without a shell")
	case len(a.Argv) > 0:
		return a.Argv, nil
	}
	return []string{cmp.Or(a.Shell, "/bin/sh"), "-c", a.Command}, nil
}

// runAs sets the user of the command and its environment, and returns the user's home directory.
func (c *command) runAs(name string) (home string, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return "", fmt.Errorf("no such user %q", name)
		}
	}
	if c.identity, err = identityOf(u); err != nil {
		return "", err
	}
	c.env = append(c.env, "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
	return u.HomeDir, nil
}

// existing returns the directory, or "" if there is none.
func existing(dir string) string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// passedOn are the environment variables of the peel that commands get, besides those whose names begin with LC_. Other
// variables may contain secrets that the user of the command must not see.
var passedOn = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ"}

func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(passedOn, name) && !strings.HasPrefix(name, "LC_")
	})
}

// identityOf returns the identity of a user, nil for the user of the peel itself, which needs no privilege.
func identityOf(u *user.User) (*identity, error) {
	if u.Uid == strconv.Itoa(os.Getuid()) {
		return nil, nil
	}
	names, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot look up the groups of user %q: %w", u.Username, err)
	}
	ids := make([]uint32, 0, len(names)+2)
	for _, s := range append([]string{u.Uid, u.Gid}, names...) {
		id, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cannot use the ID of user %q: %w", u.Username, err)
		}
		ids = append(ids, uint32(id))
	}
	return &identity{uid: ids[0], gid: ids[1], groups: ids[2:]}, nil
}

// result returns the result of a command. A command that was stopped has failed, whatever its exit code.
func (e ending) result() wire.Result {
	data := commandData{
		Code:            e.code,
		Signal:          e.signal,
		OutputHeld:      e.held,
		Stdout:          e.stdout.text,
		StdoutBytes:     e.stdout.bytes,
		StdoutTruncated: e.stdout.truncated,
		StdoutSHA256:    e.stdout.digest,
		Stderr:          e.stderr.text,
		StderrBytes:     e.stderr.bytes,
		StderrTruncated: e.stderr.truncated,
		StderrSHA256:    e.stderr.digest,
	}
	var limit timeoutError
	var message string
	switch {
	case errors.As(e.cut, &limit):
		data.TimedOut, message = true, limit.Error()
	case errors.Is(e.cut, context.DeadlineExceeded):
		data.TimedOut, message = true, "timed out with the call"
	case e.cut != nil:
		data.Canceled, message = true, "canceled"
		if !errors.Is(e.cut, context.Canceled) {
			message = fmt.Sprintf("canceled: %v", e.cut)
		}
	case e.signal != "":
		message = "killed by " + e.signal
	case e.code != 0:
		message = wire.ExitCode(e.code).String()
	}
	return wire.Result{Success: message == "", Error: message, Data: data}
}
