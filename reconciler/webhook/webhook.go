// Package webhook receives webhooks of forges about pushes and pull requests, so that a branch is read at once and not
// at the next poll. Call [New]; the result is an [http.Handler].
//
// A webhook is only a hint: if its signature is valid, the payload decides whether the branch is read. No commit, name
// or address in it is used, so a forged payload costs one listing of references. A deleted branch is a hint too.
//
// Guarantees: a request is refused before its body is parsed, in this order: too many requests of its source (429), no
// such hook (404), not JSON (415), over 1 MiB (413), invalid signature (401). A payload about another repository gets
// 404. Any other authentic request gets 202 at once; it has no effect if it is about another branch, a tag or another
// event, or if its ID or its body came in the last ten minutes. 503 means that no secret can be read or the bus cannot
// be reached; the forge may send the request again, and the next poll reads the branch anyway.
//
// Secrets come from files that are read for each request, so that a new secret needs no restart. Every listed secret is
// accepted, so that an old and a new one can overlap. Files that other users can read are refused.
//
// Known gap: only GitLab's signing tokens cover the delivery ID. So bodies are compared too, and a recorded request can
// be replayed once in ten minutes, which causes one listing of references.
package webhook

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const (
	maxBody   = 1 << 20
	minSecret = 16 // bytes
	clockSkew = 5 * time.Minute
)

// A Hook is the address /hooks/NAME, to which one forge posts about one branch.
type Hook struct {
	Name     string
	Provider Provider
	// Repo is the repository's address on the forge: any of its https and ssh URLs.
	Repo   string
	Branch string // without refs/heads/
	// Secrets are files with one secret each, of 16 bytes at least; for Azure DevOps it is user:password.
	Secrets []string
}

// Options configure a Handler.
type Options struct {
	Hooks []Hook
	// Trigger requests a read of the branch. It must return at once, and may be called from several goroutines. After
	// an error the delivery is not remembered, and the answer asks the forge to try again.
	Trigger func() error
	Log     *slog.Logger // nil discards
}

// Handler answers POST /hooks/{name}.
type Handler struct {
	hooks   map[string]Hook
	trigger func() error
	log     *slog.Logger
	seen    seen
	sources sources
}

// New checks the options. It does not read secrets.
func New(o Options) (*Handler, error) {
	if o.Trigger == nil {
		return nil, errors.New("cannot serve webhooks without a trigger")
	}
	h := &Handler{hooks: map[string]Hook{}, trigger: o.Trigger, log: o.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	for _, hook := range o.Hooks {
		if err := hook.check(); err != nil {
			return nil, err
		}
		if _, twice := h.hooks[hook.Name]; twice {
			return nil, fmt.Errorf("cannot use webhook %q: two webhooks have this name", hook.Name)
		}
		h.hooks[hook.Name] = hook
	}
	return h, nil
}

func (h Hook) check() error {
	switch {
	case h.Name == "" || strings.ContainsAny(h.Name, "/?#% "):
		return fmt.Errorf("cannot use webhook %q: want a name that is one part of a path", h.Name)
	case !h.Provider.known():
		return fmt.Errorf("cannot use webhook %q: provider %q is none of %s", h.Name, h.Provider, providerNames())
	case h.Branch == "":
		return fmt.Errorf("cannot use webhook %q without a branch", h.Name)
	case len(h.Secrets) == 0:
		return fmt.Errorf("cannot use webhook %q without a file with its secret", h.Name)
	case sameRepo(h.Repo) == "":
		// it may hold a password
		return fmt.Errorf("cannot use webhook %q: its repo is not the URL of a repository on a forge", h.Name)
	}
	return nil
}

// ServeHTTP answers one delivery with a status and no body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := h.serve(w, r)
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(status)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) int {
	source, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		source = r.RemoteAddr
	}
	if !h.sources.admit(source, time.Now()) {
		return http.StatusTooManyRequests
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/hooks/")
	hook, known := h.hooks[name]
	if !ok || !known {
		return http.StatusNotFound
	}
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return http.StatusBadRequest
	}
	return h.deliver(hook, delivery{header: r.Header, body: body})
}

// deliver handles a complete request and returns the status.
func (h *Handler) deliver(hook Hook, d delivery) int {
	secrets, err := hook.secrets()
	if err != nil {
		h.log.Error("webhook has no secret", "hook", hook.Name, "err", err)
		return http.StatusServiceUnavailable
	}
	if !d.authentic(hook.Provider, secrets, time.Now()) {
		h.log.Warn("webhook refused: its signature is invalid", "hook", hook.Name)
		return http.StatusUnauthorized
	}
	p, err := d.parse(hook.Provider)
	if err != nil {
		return http.StatusBadRequest
	}
	if !p.push {
		return http.StatusAccepted
	}
	if !p.of(hook.Repo) {
		return http.StatusNotFound
	}
	digest := sha256.Sum256(d.body)
	keys := []string{hook.Name + " id " + p.id, hook.Name + " body " + string(digest[:])}
	if h.seen.before(time.Now(), keys...) || !p.moves(hook.Branch) {
		return http.StatusAccepted
	}
	if err := h.trigger(); err != nil {
		h.seen.forget(keys...)
		h.log.Error("webhook not passed on", "hook", hook.Name, "delivery", p.id, "err", err)
		return http.StatusServiceUnavailable
	}
	h.log.Info("webhook received, the branch is read", "hook", hook.Name, "delivery", p.id)
	return http.StatusAccepted
}

// secrets reads all files of a hook. It is an error only if none can be read, as one may be missing while secrets
// rotate.
func (h Hook) secrets() ([][]byte, error) {
	var out [][]byte
	var errs []error
	for _, file := range h.Secrets {
		s, err := readSecret(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

func readSecret(file string) ([]byte, error) {
	s, err := outbound.ReadSecret(file)
	if err == nil && len(s) < minSecret {
		err = fmt.Errorf("cannot use the secret in %s: it has %d bytes, at least %d are needed", file, len(s),
			minSecret)
	}
	return []byte(s), err
}
