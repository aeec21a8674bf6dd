//go:build linux

// Package download gets files from https whose SHA-256 the config repo names. Call [Get].
//
// Guarantees:
//   - The certificate of each server is checked with the roots of the host, and no redirect leads to another scheme.
//   - What does not have the hash is an error, and so are more than [MaxSize] bytes.
//   - A server that sends nothing for [idleTimeout] ends the download.
//   - No error has the query of an address, which may hold a token.
//   - A proxy is used as the variables HTTPS_PROXY and NO_PROXY of the process say.
package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// MaxSize is how many bytes a file may have.
const MaxSize = 1 << 30

const (
	dialTimeout  = 10 * time.Second
	idleTimeout  = time.Minute // without a byte
	maxRedirects = 5
)

// errIdle is the cause of a download that ends because the server sends nothing.
var errIdle = fmt.Errorf("the server sent nothing for %s", idleTimeout)

// Get writes the file of an https address that has a SHA-256, in hexadecimal digits. After an error w may have a part
// of it.
func Get(ctx context.Context, address, sum string, w io.Writer) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("the source is no https address")
	}
	if err := get(ctx, u, sum, w); err != nil {
		return fmt.Errorf("cannot download %s: %w", shown(u), err)
	}
	return nil
}

// shown returns an address without the parts that may hold a secret.
func shown(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

func get(ctx context.Context, u *url.URL, sum string, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(idleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		DisableCompression:  true, // the hash is of the bytes as they are sent
		DisableKeepAlives:   true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: mayRedirect}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errors.New("it is no address of a file")
	}
	response, err := client.Do(request)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %.100s", response.Status)
	}
	hash := sha256.New()
	body := &reader{body: io.LimitReader(response.Body, MaxSize+1), idle: idle}
	size, err := io.Copy(io.MultiWriter(w, hash), body)
	if err == nil {
		err = ctx.Err() // a response that was cut off may end as one without an error
	}
	switch got := hex.EncodeToString(hash.Sum(nil)); {
	case err != nil:
		return cause(ctx, err)
	case size > MaxSize:
		return fmt.Errorf("it has more than %d bytes", int64(MaxSize))
	case got != sum:
		return fmt.Errorf("its SHA-256 is %s, and the state wants %s", got, sum)
	}
	return nil
}

// mayRedirect refuses a redirect to another scheme, and too many. The next host does not get the address, which may
// have a token.
func mayRedirect(next *http.Request, before []*http.Request) error {
	next.Header.Del("Referer")
	switch {
	case next.URL.Scheme != "https":
		return fmt.Errorf("the server redirects to %s, which is not https", shown(next.URL))
	case len(before) > maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return nil
}

// cause returns what ended a request, without the address that the error of package http has.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// A reader puts off the end of an idle download with each byte.
type reader struct {
	body io.Reader
	idle *time.Timer
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if n > 0 {
		r.idle.Reset(idleTimeout)
	}
	return n, err
}
