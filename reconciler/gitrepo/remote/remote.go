// Package remote reads Git servers over http, https and ssh: the commit that a
// reference is at, and the objects that a store lacks. It also sends commits.
//
// Begin with [Parse] and [New]. [Remote.Resolve] is one small request;
// [Remote.Fetch] and [Remote.Push] transfer one pack. All end promptly with their
// context. A Remote belongs to one goroutine.
//
// Over http and https a reference is resolved with protocol version 2 and a
// ref-prefix, so that a repository with thousands of pull-request refs costs one
// request and one line; servers that know only version 0 are asked for their
// whole list. ssh always lists.
//
// go-git's own Remote and transports are not used: they cannot request a single
// reference, drop Retry-After, put an error page into the error, and their ssh
// ignores the context. Its packages for the protocol (packp, pktline, sideband)
// are used.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// The reasons of an [Error]; gitrepo.Reason says what each means.
const (
	RefNotFound             = "RefNotFound"
	EmptyRemote             = "EmptyRemote"
	NotGit                  = "NotGit"
	AuthenticationFailed    = "AuthenticationFailed"
	Forbidden               = "Forbidden"
	NotFound                = "NotFound"
	RateLimited             = "RateLimited"
	Unreachable             = "Unreachable"
	RemoteFailed            = "RemoteFailed"
	Timeout                 = "Timeout"
	CertificateInvalid      = "CertificateInvalid"
	HostKey                 = "HostKey"
	RefMoved                = "RefMoved"
	UnsupportedObjectFormat = "UnsupportedObjectFormat"
	ShallowRemote           = "ShallowRemote"
	CredentialsUnreadable   = "CredentialsUnreadable"
	Declined                = "Declined"
)

// An Error says why a server could not be read. Msg holds no credentials, and at
// most 200 bytes of the server's text, which may not be printable.
type Error struct {
	Reason     string
	Msg        string
	RetryAfter time.Duration // least pause that the server asked for, at most 1 h; 0 if none
}

func (e *Error) Error() string { return e.Msg }

func fail(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

// Shallow returns the error of a repository without its full history.
func Shallow() *Error {
	return fail(ShallowRemote, "it is shallow and has no full history: run git fetch --unshallow in it")
}

// NoBranch returns the error of a missing reference, with the branches that exist.
func NoBranch(ref plumbing.ReferenceName, branches []string) *Error {
	if len(branches) == 0 {
		return fail(EmptyRemote, "it has no branch %q, and no other", ref.Short())
	}
	more := ""
	if len(branches) > 5 {
		branches, more = branches[:5], ", …"
	}
	return fail(RefNotFound, "it has no branch %q; there are %s%s", ref.Short(), strings.Join(branches, ", "), more)
}

// A Remote is one repository on a server.
type Remote struct {
	address *Address
	source  source
}

// source sends requests over one protocol.
type source interface {
	resolve(ctx context.Context, ref plumbing.ReferenceName) (plumbing.Hash, error)
	fetch(ctx context.Context, f Request) error
	push(ctx context.Context, u Update) error
	close()
}

// New checks that the options fit the address, and sends nothing. It returns nil
// for a local repository.
func New(a *Address, x outbound.Options) (*Remote, error) {
	if err := x.Check(outbound.Target{
		Scheme: a.Scheme,
		Host:   a.host,
		Shown:  a.Shown,
		Secret: len(a.secrets) > 0,
	}); err != nil {
		return nil, err
	}
	if u, _ := x.ProxyURL(a.Scheme); u != nil && u.User != nil {
		password, _ := u.User.Password()
		a.secrets = append(a.secrets, password)
	}
	switch a.Scheme {
	case "file":
		return nil, nil
	case "ssh":
		return &Remote{a, &sshSource{address: a, access: x}}, nil
	default:
		return &Remote{a, &httpSource{address: a, access: x, transport: x.Transport()}}, nil
	}
}

// Close closes idle connections.
func (r *Remote) Close() { r.source.close() }

// Resolve returns the commit that a reference is at. Its error is an *Error, or
// wraps the error of ctx.
func (r *Remote) Resolve(ctx context.Context, limit time.Duration,
	ref plumbing.ReferenceName,
) (tip plumbing.Hash, err error) {
	err = r.bounded(ctx, limit, func(ctx context.Context) (err error) {
		tip, err = r.source.resolve(ctx, ref)
		return err
	})
	return tip, err
}

// A Request is for all objects that Want reaches and no commit of Haves does.
type Request struct {
	Ref   plumbing.ReferenceName
	Want  plumbing.Hash
	Haves []plumbing.Hash
	// Store reads the pack. It is not called if no object is lacking.
	Store func(io.Reader) error
}

// Fetch sends a request. A server that serves only the heads of references sends
// the present head of Ref, which may no longer be Want. Errors are as in Resolve.
func (r *Remote) Fetch(ctx context.Context, limit time.Duration, f Request) error {
	return r.bounded(ctx, limit, func(ctx context.Context) error { return r.source.fetch(ctx, f) })
}

// bounded runs do with a deadline and converts its error to an *Error.
func (r *Remote) bounded(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(inner)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("cannot read %s: %w", r.address.Shown, context.Cause(ctx))
	}
	if inner.Err() != nil {
		return fail(Timeout, "the remote did not answer within %s", limit)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the rest repeats the URL, perhaps with a user name that is a token
		}
		reason, msg := reasonOf(err)
		if msg == "" {
			msg = err.Error()
		}
		msg = r.address.clean(msg)
		return fail(reason, "%s", msg[:min(len(msg), maxForeign)])
	}
	e.Msg = r.address.clean(e.Msg)
	return e
}

// readRefs reads the references of protocol version 0.
func readRefs(r io.Reader) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	if err := refs.Decode(r); err != nil {
		return nil, err
	}
	if len(refs.Shallows) > 0 {
		return nil, Shallow()
	}
	return refs, nil
}

// pick finds a reference in a list of all references.
func pick(refs map[string]plumbing.Hash, ref plumbing.ReferenceName) (plumbing.Hash, error) {
	if h, ok := refs[ref.String()]; ok {
		return h, nil
	}
	var branches []string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if name, ok := strings.CutPrefix(name, headsPrefix); ok {
			branches = append(branches, name)
		}
	}
	return plumbing.ZeroHash, NoBranch(ref, branches)
}

// uploadPack requests the lacking objects in one round trip: send sends the
// request to git-upload-pack and returns its response.
func uploadPack(refs *packp.AdvRefs, f Request, send func([]byte) (io.ReadCloser, error)) error {
	tip, err := pick(refs.References, f.Ref)
	if err != nil {
		return err
	}
	if slices.Contains(f.Haves, tip) {
		return nil
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	req.Wants, req.Haves = []plumbing.Hash{tip}, f.Haves
	if tip != f.Want && refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		req.Wants = append(req.Wants, f.Want)
	}
	var body bytes.Buffer
	if err := req.UploadRequest.Encode(&body); err != nil {
		return err
	}
	if err := req.UploadHaves.Encode(&body, false); err != nil {
		return err
	}
	if err := pktline.NewEncoder(&body).EncodeString("done\n"); err != nil {
		return err
	}
	answer, err := send(body.Bytes())
	if err != nil {
		return err
	}
	defer answer.Close()
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(answer); err != nil {
		return err
	}
	return f.Store(demultiplex(req.Capabilities, res))
}

const headsPrefix = "refs/heads/"

// demultiplex returns the pack from a stream that may also carry progress.
func demultiplex(caps *capability.List, r io.Reader) io.Reader {
	switch {
	case caps.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case caps.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	default:
		return r
	}
}
