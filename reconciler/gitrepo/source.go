package gitrepo

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

const headsPrefix = "refs/heads/"

// source asks a remote. Its errors are Errors, except for those of the context.
//
// go-git's own Remote and transports are not used: they cannot ask for one
// branch alone, drop Retry-After, read an error page into the error, and their
// ssh dials without the context and never looks at it again. Their protocol
// packages (packp, pktline, sideband) are.
type source interface {
	// resolve returns the commit that the branch is at.
	resolve(ctx context.Context, branch plumbing.ReferenceName) (Hash, error)
	// fetch brings the history of want into the store, which has everything that
	// haves reach. A server that only gives tips gives that of the branch.
	fetch(ctx context.Context, f fetch) error
	close()
}

// fetch is one request to a source.
type fetch struct {
	branch plumbing.ReferenceName
	want   Hash
	haves  []Hash
	into   *store

	maxPack int64 // bytes
}

// newSource returns nil for a local repository, which is read in place.
func newSource(a address, x Access) source {
	switch a.scheme {
	case "file":
		return nil
	case "ssh":
		return &sshSource{address: a, access: x}
	default:
		return &httpSource{address: a, way: way{access: x}}
	}
}

func shallowRemote(a address) *Error {
	return errorf(ShallowRemote, a.display, "it is shallow and has no full history: run git fetch --unshallow in it")
}

// readRefs reads the references of protocol version 0.
func readRefs(a address, r io.Reader) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	if err := refs.Decode(r); err != nil {
		return nil, err
	}
	if len(refs.Shallows) > 0 {
		return nil, shallowRemote(a)
	}
	return refs, nil
}

// pick finds the branch in a list of all references.
func pick(a address, refs map[string]plumbing.Hash, branch plumbing.ReferenceName) (Hash, error) {
	if h, ok := refs[branch.String()]; ok {
		return Hash(h), nil
	}
	var heads []string
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if name, ok := strings.CutPrefix(ref, headsPrefix); ok {
			heads = append(heads, name)
		}
	}
	return Hash{}, noBranch(a, branch, heads)
}

// noBranch is the error of a branch that is not among the heads.
func noBranch(a address, branch plumbing.ReferenceName, heads []string) *Error {
	if len(heads) == 0 {
		return errorf(EmptyRemote, a.display, "it has no branch %q, and no other", branch.Short())
	}
	more := ""
	if len(heads) > 5 {
		heads, more = heads[:5], ", …"
	}
	return errorf(RefNotFound, a.display, "it has no branch %q; there are %s%s", branch.Short(), strings.Join(heads, ", "), more)
}

// uploadPack asks for what the store lacks, in one round: send sends the request
// to git-upload-pack and returns its answer.
func uploadPack(ctx context.Context, a address, refs *packp.AdvRefs, f fetch, send func([]byte) (io.ReadCloser, error)) error {
	tip, err := pick(a, refs.References, f.branch)
	if err != nil {
		return err
	}
	if slices.Contains(f.haves, tip) {
		return nil
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	req.Wants = []plumbing.Hash{plumbing.Hash(tip)}
	if tip != f.want && refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		req.Wants = append(req.Wants, plumbing.Hash(f.want))
	}
	for _, h := range f.haves {
		req.Haves = append(req.Haves, plumbing.Hash(h))
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
	return f.into.addPack(ctx, demultiplex(req.Capabilities, res), f.maxPack)
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
