package gitrepo

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// source is where revisions come from: an http server, an ssh server or a
// local directory. Errors are Errors, except for those of the context.
type source interface {
	// resolve returns the commit that the branch is at.
	resolve(ctx context.Context, branch plumbing.ReferenceName) (Hash, error)
	// fetch brings the history of want into the store, which already has
	// everything that haves reach. A source that can only give the tip of the
	// branch gives that.
	fetch(ctx context.Context, f fetch) error
	close()
}

// fetch is one request to a source.
type fetch struct {
	branch plumbing.ReferenceName
	want   Hash
	haves  []Hash
	into   *store
}

func newSource(a address, x Access) source {
	switch a.scheme {
	case "file":
		return &localSource{address: a}
	case "ssh":
		return &sshSource{address: a, access: x}
	default:
		return newHTTPSource(a, x)
	}
}

func (s *httpSource) fetch(ctx context.Context, f fetch) error {
	ep, err := transport.NewEndpoint(s.address.raw)
	if err != nil {
		return errorf(NotFound, s.address.display, "not a URL: %s", s.address.clean(err.Error()))
	}
	sess, err := githttp.NewClient(s.client).NewUploadPackSession(ep, nil)
	if err != nil {
		return classify(ctx, s.address, err)
	}
	return uploadPack(ctx, s.address, sess, f)
}

// advertised lists the references of a session.
func advertised(ctx context.Context, a address, sess transport.UploadPackSession) (*packp.AdvRefs, error) {
	refs, err := sess.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, classify(ctx, a, err)
	}
	if len(refs.Shallows) > 0 {
		return nil, shallowRemote(a)
	}
	return refs, nil
}

func shallowRemote(a address) *Error {
	return errorf(ShallowRemote, a.display, "it is shallow and has no full history: run git fetch --unshallow in it")
}

// pick finds the branch in a list of all references.
func pick(a address, refs map[string]plumbing.Hash, branch plumbing.ReferenceName) (Hash, error) {
	if h, ok := refs[branch.String()]; ok {
		return Hash(h), nil
	}
	return Hash{}, noBranch(a, branch, slices.Sorted(maps.Keys(refs)))
}

// noBranch is the error of a branch that is not among the references.
func noBranch(a address, branch plumbing.ReferenceName, refs []string) *Error {
	const heads = "refs/heads/"
	var names []string
	for _, ref := range refs {
		if name, ok := strings.CutPrefix(ref, heads); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return errorf(EmptyRemote, a.display, "it has no branch %q, and no other", branch.Short())
	}
	more := ""
	if len(names) > 5 {
		names, more = names[:5], ", …"
	}
	return errorf(RefNotFound, a.display, "it has no branch %q; there are %s%s",
		branch.Short(), strings.Join(names, ", "), more)
}

// errHungUp is of a server that has answered and hung up before go-git could tell it, as the last thing, that the request is
// over. For go-git that is a failure, and the answer is lost.
var errHungUp = errors.New("the server has hung up before the request was over")

// uploadPack asks a server for what the store lacks, in one round. Where the error is errHungUp, asking again helps.
func uploadPack(ctx context.Context, a address, sess transport.UploadPackSession, f fetch) error {
	refs, err := advertised(ctx, a, sess)
	if err != nil {
		return err
	}
	tip, err := pick(a, refs.References, f.branch)
	if err != nil {
		return err
	}
	if slices.Contains(f.haves, tip) {
		return nil
	}
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return classify(ctx, a, err)
		}
	}
	req.Wants = []plumbing.Hash{plumbing.Hash(tip)}
	if tip != f.want && refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		req.Wants = append(req.Wants, plumbing.Hash(f.want))
	}
	for _, h := range f.haves {
		req.Haves = append(req.Haves, plumbing.Hash(h))
	}
	res, err := sess.UploadPack(ctx, req)
	if err != nil && err.Error() == "closing input: EOF" {
		return errHungUp
	}
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return classify(ctx, a, err)
	}
	err = f.into.addPack(ctx, demultiplex(req.Capabilities, res))
	if closed := res.Close(); err == nil {
		err = closed
	}
	return classify(ctx, a, err)
}

// demultiplex takes the pack out of a stream that also carries progress.
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
