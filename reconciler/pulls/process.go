package pulls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	planTimeout  = 4 * time.Minute
	cloneTimeout = 15 * time.Minute
	maxOutput    = 1 << 20 // bytes that the process may print
	maxStore     = 4 << 30 // bytes of the store; a larger one is removed
	workerMark   = "ZESTER_PULLS_WORKER"
)

// errAgain: the pull request has moved, or the repository cannot be reached, so it is planned again at another poll.
var errAgain = errors.New("it is tried again")

// A job is the request to the process, as JSON on its standard input.
type job struct {
	Repo   gitrepo.Options `json:"repo"`
	Branch string          `json:"branch"` // the target branch of the pull request
	Ref    string          `json:"ref"`    // of its head
	Head   string          `json:"head"`   // hash of the head, by the forge
	Name   string          `json:"name"`   // of the head, for people
	Fleet  []member        `json:"fleet"`
	Limit  time.Duration   `json:"limit"`
}

type member struct {
	Peel  target.PeelID `json:"peel"`
	Facts target.Facts  `json:"facts"`
}

// A result is the answer of the process, as JSON on its standard output.
type result struct {
	Markdown string `json:"markdown,omitempty"`
	Again    string `json:"again,omitempty"` // why the same job may succeed later
	Error    string `json:"error,omitempty"` // why it cannot
}

// plan runs a process that plans a pull request, and returns the text of the comment.
func (s *session) plan(ctx context.Context, p forge.Pull) (string, error) {
	if _, err := gitrepo.ParseHash(p.Head); err != nil {
		return "", fmt.Errorf("the forge names no hash as its head: %s", outbound.Line(p.Head, 80))
	}
	limit := planTimeout
	if !s.tidy() {
		limit = cloneTimeout
	}
	j := job{
		Repo:   s.o.Repo,
		Branch: s.branch(),
		Ref:    p.Ref,
		Head:   p.Head,
		Name:   fmt.Sprintf("pull request %d", p.Number),
		Limit:  limit,
	}
	j.Repo.Log, j.Repo.Verify = nil, gitrepo.Trust{}
	for _, id := range s.fleet.IDs() {
		if facts, ok := s.fleet.Get(id); ok {
			j.Fleet = append(j.Fleet, member{id, facts})
		}
	}
	r, err := call(ctx, j)
	switch {
	case err != nil:
		return "", err
	case r.Again != "":
		return "", fmt.Errorf("%w: %s", errAgain, outbound.Line(r.Again, 300))
	case r.Error != "":
		return "", errors.New(outbound.Line(r.Error, 300))
	}
	return r.Markdown, nil
}

// tidy removes the store if it is too large, and reports whether there is one afterwards.
func (s *session) tidy() bool {
	size := int64(0)
	err := filepath.WalkDir(s.o.Repo.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err == nil && size > maxStore {
		s.o.Log.Warn("store of pull requests removed: it is too large", "dir", s.o.Repo.Dir, "bytes", size)
		err = os.RemoveAll(s.o.Repo.Dir)
		size = 0
	}
	return err == nil && size > 0
}

// call runs the process for one job.
func call(ctx context.Context, j job) (r result, err error) {
	in, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	program, err := os.Executable()
	if err != nil {
		return r, fmt.Errorf("cannot find the program: %w: %w", errAgain, err)
	}
	ctx, cancel := context.WithTimeout(ctx, j.Limit)
	defer cancel()
	var out, log bounded
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = environment()
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout = &out
	cmd.Stderr = &log
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	_, started := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("its plan took longer than %v", j.Limit)
	case err != nil && !started:
		return r, fmt.Errorf("cannot run the process for pull requests: %w: %w", errAgain, err)
	case err != nil:
		return r, fmt.Errorf("its process ended: %w: %s", err, outbound.Line(string(log.data), 300))
	case out.over:
		return r, fmt.Errorf("its process printed more than %d bytes", maxOutput)
	}
	if err := json.Unmarshal(out.data, &r); err != nil {
		return r, fmt.Errorf("its process printed no result: %s", outbound.Line(err.Error(), 200))
	}
	return r, nil
}

// bounded keeps the first maxOutput bytes that are written.
type bounded struct {
	data []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(b.data))
	b.data = append(b.data, p[:n]...)
	b.over = b.over || n < len(p)
	return len(p), nil
}

// variables are the environment variables that the process gets: those for reaching a repository.
var variables = []string{
	"HOME", "PATH", "TMPDIR", "USER", "SSH_AUTH_SOCK", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

func environment() []string {
	env := []string{workerMark + "=1"}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(variables, strings.ToUpper(name)) {
			env = append(env, v)
		}
	}
	return env
}
