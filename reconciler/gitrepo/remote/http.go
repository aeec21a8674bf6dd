package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const (
	typePrefix = "application/x-" // of the types of content; the name of the service follows

	version2     = "version=2"
	maxListing   = 64 << 20 // bytes of a list of references
	maxRedirects = 5
)

// httpSource sends requests to a smart-HTTP server. The connection and v2 are
// kept from one poll to the next.
type httpSource struct {
	address   *Address
	access    outbound.Options
	transport *outbound.Transport
	// v2 is the repository's URL, after redirects; nil until the server has
	// advertised protocol version 2.
	v2 *url.URL
}

func (s *httpSource) close() { s.transport.CloseIdleConnections() }

func (s *httpSource) resolve(ctx context.Context, ref plumbing.ReferenceName) (plumbing.Hash, error) {
	tip, err := s.tip(ctx, ref)
	if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Reason != RefNotFound) {
		s.v2 = nil // the server may have moved or changed
	}
	return tip, err
}

// tip requests one branch with protocol version 2. If the branch is missing, a
// second request lists all branches, as the repository may be empty. A server of
// version 0 answers the first request with all references.
func (s *httpSource) tip(ctx context.Context, ref plumbing.ReferenceName) (plumbing.Hash, error) {
	if s.v2 == nil {
		listing, at, err := s.discover(ctx, fetching, version2)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		v2, err := speaksV2(listing)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if !v2 {
			refs, err := readRefs(bytes.NewReader(listing))
			if err != nil {
				return plumbing.ZeroHash, err
			}
			return pick(refs.References, ref)
		}
		s.v2 = at
	}
	refs, err := s.lsRefs(ctx, ref.String())
	if err == nil && refs[ref.String()].IsZero() {
		refs, err = s.lsRefs(ctx, headsPrefix)
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return pick(refs, ref)
}

func (s *httpSource) fetch(ctx context.Context, f Request) error {
	listing, at, err := s.discover(ctx, fetching, "")
	if err != nil {
		return err
	}
	refs, err := readRefs(bytes.NewReader(listing))
	if err != nil {
		return err
	}
	return uploadPack(refs, f, func(request []byte) (io.ReadCloser, error) {
		return s.post(ctx, fetching, at, "", request)
	})
}

func (s *httpSource) push(ctx context.Context, u Update) error {
	listing, at, err := s.discover(ctx, pushing, "")
	if err != nil {
		return err
	}
	refs, err := readRefs(bytes.NewReader(listing))
	if err != nil {
		return err
	}
	return receivePack(refs, u, func(request []byte) (io.ReadCloser, error) {
		return s.post(ctx, pushing, at, "", request)
	})
}

// post sends a request to a service of the repository at a URL, and returns the body of the response.
func (s *httpSource) post(ctx context.Context, service string, at *url.URL, protocol string,
	request []byte,
) (io.ReadCloser, error) {
	res, err := s.do(ctx, http.MethodPost, at.JoinPath(service), gitRequest{service, protocol, request})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// discover requests the server's references or capabilities for a service, and
// also returns the URL of the repository after redirects.
func (s *httpSource) discover(ctx context.Context, service, protocol string) (listing []byte, at *url.URL, err error) {
	u, err := url.Parse(s.address.raw)
	if err != nil {
		return nil, nil, err
	}
	ask := u.JoinPath("info/refs")
	ask.RawQuery = "service=" + service
	res, err := s.do(ctx, http.MethodGet, ask, gitRequest{service: service, protocol: protocol})
	if err != nil {
		return nil, nil, err
	}
	listing, err = readListing(res.Body)
	at = res.Request.URL
	if at.Host == u.Host && at.Scheme == u.Scheme {
		at.User = u.User
	}
	at.Path, at.RawPath, at.RawQuery = strings.TrimSuffix(at.Path, "/info/refs"), "", ""
	return listing, at, err
}

// lsRefs lists the references with a prefix, with protocol version 2.
func (s *httpSource) lsRefs(ctx context.Context, prefix string) (map[string]plumbing.Hash, error) {
	var body bytes.Buffer
	lines := pktline.NewEncoder(&body)
	err := lines.EncodeString("command=ls-refs\n")
	body.WriteString("0001") // end of the capabilities
	if err = errors.Join(err, lines.EncodeString("ref-prefix "+prefix+"\n"), lines.Flush()); err != nil {
		return nil, err
	}
	answer, err := s.post(ctx, fetching, s.v2, version2, body.Bytes())
	if err != nil {
		return nil, err
	}
	data, err := readListing(answer)
	if err != nil {
		return nil, err
	}
	return parseRefs(data)
}

// speaksV2 reads the capability advertisement of protocol version 2: perhaps a
// service line and a flush, then "version 2" and one capability a line.
func speaksV2(advertisement []byte) (bool, error) {
	lines := pktline.NewScanner(bytes.NewReader(advertisement))
	v2 := false
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		switch {
		case line == "version 2":
			v2 = true
		case v2 && line == "object-format=sha256":
			return false, errSHA256
		case !v2 && line != "" && !strings.HasPrefix(line, "# service="):
			return false, nil
		}
	}
	return v2, lines.Err()
}

// parseRefs reads the answer to ls-refs: lines of hash, space and name, then a
// flush. An answer without the flush is incomplete.
func parseRefs(data []byte) (map[string]plumbing.Hash, error) {
	refs := map[string]plumbing.Hash{}
	lines := pktline.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			return refs, nil
		}
		hash, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if !ok || !plumbing.IsHash(hash) {
			return nil, packp.NewErrUnexpectedData("malformed reference", nil)
		}
		name, _, _ = strings.Cut(name, " ") // attributes follow the name
		refs[name] = plumbing.NewHash(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

func readListing(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxListing+1))
	if err == nil && len(data) > maxListing {
		err = fmt.Errorf("cannot read the references: more than %d bytes", maxListing)
	}
	return data, err
}

// A gitRequest is what the Git protocol adds to an HTTP request.
type gitRequest struct {
	service  string
	protocol string // version=2, or empty
	body     []byte
}

// do sends a request and returns the response of a Git server. Any other response
// becomes an Error from its status and headers; its body is ignored.
func (s *httpSource) do(ctx context.Context, method string, to *url.URL, q gitRequest) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	next, err := s.transport.Current()
	if err == nil {
		err = s.authorize(req)
	}
	if err != nil {
		return nil, fail(CredentialsUnreadable, "%v", err)
	}
	want := typePrefix + q.service + "-advertisement"
	if method == http.MethodPost {
		want = typePrefix + q.service + "-result"
		req.Header.Set("Content-Type", typePrefix+q.service+"-request")
		req.Header.Set("Accept", want)
	}
	if q.protocol != "" {
		req.Header.Set("Git-Protocol", q.protocol)
	}
	client := http.Client{Transport: next, CheckRedirect: s.redirect}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	got, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if res.StatusCode == http.StatusOK && strings.EqualFold(strings.TrimSpace(got), want) {
		return res, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // a short body lets the connection be used again
	_ = res.Body.Close()
	return nil, refused(res, req.Header.Get("Authorization") != "")
}

// authorize adds the configured credential to a request, unless a redirect led
// to another server.
func (s *httpSource) authorize(req *http.Request) error {
	if req.URL.Host != s.address.host || req.URL.Scheme != s.address.Scheme {
		return nil
	}
	header, secrets, err := s.access.Authorization()
	if err == nil && header != "" {
		req.Header.Set("Authorization", header)
		s.address.read = secrets
	}
	return err
}

// redirect follows redirects of GET requests only, none from https to http, and
// removes the credential if the server changes: net/http would send it to other
// ports and to subdomains.
func (s *httpSource) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https":
		return fail(RemoteFailed, "the server answers with a redirect from https to %s, which is refused",
			req.URL.Scheme)
	case req.URL.Host != s.address.host || req.URL.Scheme != s.address.Scheme:
		req.Header.Del("Authorization")
	}
	return nil
}

// refused returns the error of a response that is none of Git; withCredentials says that the request had some.
func refused(res *http.Response, withCredentials bool) *Error {
	status := res.StatusCode
	later := func(reason, format string) *Error {
		e := fail(reason, format, status)
		e.RetryAfter = outbound.RetryAfter(res.Header, time.Now())
		return e
	}
	switch {
	case status == http.StatusOK:
		return fail(NotGit, "the server does not answer in the Git protocol but with %.80q",
			res.Header.Get("Content-Type"))
	case status == http.StatusUnauthorized && withCredentials:
		return fail(AuthenticationFailed, "the server refuses the configured credentials (status %d)", status)
	case status == http.StatusUnauthorized, status == http.StatusProxyAuthRequired:
		return fail(AuthenticationFailed, "the server asks for credentials (status %d)", status)
	case status == http.StatusForbidden && res.Header.Get("X-RateLimit-Remaining") != "0":
		return fail(Forbidden, "the server does not allow it (status %d)", status)
	case status == http.StatusNotFound, status == http.StatusGone:
		return fail(NotFound, "%s (status %d)", notFoundHint, status)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden:
		return later(RateLimited, "the server asks to come back later (status %d)")
	default:
		return later(RemoteFailed, "the server answers with status %d")
	}
}
