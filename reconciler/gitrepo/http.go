package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const (
	typeAdvertisement = "application/x-git-upload-pack-advertisement"
	typeResult        = "application/x-git-upload-pack-result"
	typeRequest       = "application/x-git-upload-pack-request"

	// A list of references longer than this is not read.
	maxListing = 64 << 20
	// More redirects than this are not followed.
	maxRedirects = 5
)

// httpSource asks a smart-HTTP server. It keeps the connection, and what it
// learned of the server, from one poll to the next.
type httpSource struct {
	address address
	client  *http.Client
	// v2 is where requests of protocol version 2 go, "" until the server said
	// that it knows that version. It follows redirects of the discovery.
	v2 string
}

func newHTTPSource(a address, x Access) *httpSource {
	s := &httpSource{address: a}
	s.client = &http.Client{
		Transport:     &gitOnly{address: a, way: way{access: x}},
		CheckRedirect: discoveryOnly,
	}
	return s
}

func (s *httpSource) close() { s.client.CloseIdleConnections() }

// discoveryOnly follows redirects of the first request alone, and none from
// https to http. net/http drops credentials when the host changes.
func discoveryOnly(req *http.Request, via []*http.Request) error {
	switch {
	case req.Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("redirect from https to %s", req.URL.Scheme)
	}
	return nil
}

func (s *httpSource) resolve(ctx context.Context, branch plumbing.ReferenceName) (Hash, error) {
	if s.v2 == "" {
		refs, err := s.discover(ctx)
		if err != nil {
			return Hash{}, classify(ctx, s.address, err)
		}
		if refs != nil {
			return pick(s.address, refs.References, branch)
		}
	}
	tip, err := s.listBranch(ctx, branch)
	if err != nil && !hasReason(err, RefNotFound) {
		s.v2 = "" // the server may have moved or changed
	}
	return tip, classify(ctx, s.address, err)
}

// discover asks what the server speaks. A server of version 0 answers with all
// its references at once; they are returned. With version 2 it returns nil.
func (s *httpSource) discover(ctx context.Context) (*packp.AdvRefs, error) {
	u, err := url.Parse(s.address.raw)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("info/refs")
	u.RawQuery = "service=git-upload-pack"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Git-Protocol", "version=2")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := readListing(res.Body)
	if err != nil {
		return nil, err
	}
	v2, err := speaksV2(body)
	if err != nil {
		return nil, err
	}
	if v2 {
		at := *res.Request.URL
		if at.Host == u.Host {
			at.User = u.User
		}
		at.Path, at.RawPath, at.RawQuery = strings.TrimSuffix(at.Path, "/info/refs"), "", ""
		s.v2 = at.JoinPath("git-upload-pack").String()
		return nil, nil
	}
	refs := packp.NewAdvRefs()
	if err := refs.Decode(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	if len(refs.Shallows) > 0 {
		return nil, shallowRemote(s.address)
	}
	return refs, nil
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
	if err := lines.Err(); err != nil {
		return false, err
	}
	return v2, nil
}

var errSHA256 = errors.New(sha256Refused)

// listBranch asks for the one branch. Only if it is not there a second request
// asks for all branches, to tell a missing branch from an empty repository.
func (s *httpSource) listBranch(ctx context.Context, branch plumbing.ReferenceName) (Hash, error) {
	refs, err := s.lsRefs(ctx, branch.String())
	if err != nil {
		return Hash{}, err
	}
	if h, ok := refs[branch.String()]; ok {
		return Hash(h), nil
	}
	if refs, err = s.lsRefs(ctx, "refs/heads/"); err != nil {
		return Hash{}, err
	}
	return pick(s.address, refs, branch)
}

// lsRefs lists the references with a prefix.
func (s *httpSource) lsRefs(ctx context.Context, prefix string) (map[string]plumbing.Hash, error) {
	var body bytes.Buffer
	lines := pktline.NewEncoder(&body)
	if err := lines.EncodeString("command=ls-refs\n"); err != nil {
		return nil, err
	}
	body.WriteString("0001") // end of the capabilities
	if err := lines.EncodeString("ref-prefix " + prefix + "\n"); err != nil {
		return nil, err
	}
	if err := lines.Flush(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.v2, &body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("Content-Type", typeRequest)
	req.Header.Set("Accept", typeResult)
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := readListing(res.Body)
	if err != nil {
		return nil, err
	}
	return parseRefs(data)
}

// parseRefs reads the answer to ls-refs: lines of hash, space and name, then a
// flush. Without the flush it was cut.
func parseRefs(data []byte) (map[string]plumbing.Hash, error) {
	refs := map[string]plumbing.Hash{}
	lines := pktline.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			return refs, nil
		}
		hash, name, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		h, err := ParseHash(hash)
		if !ok || err != nil {
			return nil, packp.NewErrUnexpectedData("malformed reference", nil)
		}
		name, _, _ = strings.Cut(name, " ") // attributes follow the name
		refs[name] = plumbing.Hash(h)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, io.ErrUnexpectedEOF
}

func readListing(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxListing+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxListing {
		return nil, fmt.Errorf("cannot read the references: more than %d bytes", maxListing)
	}
	return data, nil
}

// gitOnly lets only answers of a Git server through; everything else becomes
// an Error here, where status and headers are known, and its body is not read
// into a message.
type gitOnly struct {
	address address
	way     way
}

// CloseIdleConnections is found by [http.Client.CloseIdleConnections].
func (g *gitOnly) CloseIdleConnections() { g.way.close() }

func (g *gitOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	next, err := g.way.current()
	if err != nil {
		return nil, errorf(CredentialsUnreadable, g.address.display, "%v", err)
	}
	if req, err = g.authorized(req); err != nil {
		return nil, errorf(CredentialsUnreadable, g.address.display, "%v", err)
	}
	res, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	redirect := res.StatusCode >= 300 && res.StatusCode < 400 && req.Method == http.MethodGet
	if redirect || res.StatusCode == http.StatusOK && isGit(req, res) {
		if req.Method == http.MethodGet {
			res.Body = listing{io.LimitReader(res.Body, maxListing+1), res.Body}
		}
		return res, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // a short body lets the connection be used again
	_ = res.Body.Close()
	return nil, g.refused(res)
}

// authorized adds the credential of a file to a request to the server that it
// is for, and to no other that a redirect leads to.
func (g *gitOnly) authorized(req *http.Request) (*http.Request, error) {
	if req.URL.Host != g.address.host || req.URL.Scheme != g.address.scheme {
		return req, nil
	}
	header, secrets, err := g.way.access.authorization()
	if err != nil || header == "" {
		return req, err
	}
	*g.address.read = secrets
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", header)
	return req, nil
}

// listing is the body of an answer that is read into memory, with an end.
type listing struct {
	io.Reader
	io.Closer
}

func isGit(req *http.Request, res *http.Response) bool {
	want := typeResult
	if req.Method == http.MethodGet {
		want = typeAdvertisement
	}
	got, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(got), want)
}

func (g *gitOnly) refused(res *http.Response) *Error {
	at := g.address.display
	switch status := res.StatusCode; {
	case status == http.StatusOK:
		return errorf(NotGit, at, "the server does not answer in the Git protocol but with %q",
			oneLine(res.Header.Get("Content-Type"), 80))
	case status == http.StatusUnauthorized, status == http.StatusProxyAuthRequired:
		return errorf(AuthenticationFailed, at, "the server asks for credentials (status %d)", status)
	case status == http.StatusForbidden && res.Header.Get("X-RateLimit-Remaining") != "0":
		return errorf(Forbidden, at, "the server forbids reading (status %d)", status)
	case status == http.StatusNotFound, status == http.StatusGone:
		return errorf(NotFound, at, "%s (status %d)", notFoundHint, status)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden:
		e := errorf(RateLimited, at, "the server asks to come back later (status %d)", status)
		e.RetryAfter = retryAfter(res.Header, time.Now())
		return e
	default:
		e := errorf(RemoteFailed, at, "the server answers with status %d", status)
		e.RetryAfter = retryAfter(res.Header, time.Now())
		return e
	}
}

// retryAfter reads the Retry-After header, seconds or a date (RFC 9110), and
// believes at most one hour.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, 3600)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
