// Package outbound sends HTTP requests to servers outside the fleet: forges, chats and webhooks. Begin with [New], then
// call [Client.Do].
//
// Guarantees: a request ends after 20 s. No redirect is followed, so a credential goes only to the host of the URL. An
// answer is read up to a limit. Errors have the type [Error]; they hold neither the address, which may hold a key, nor
// the secrets of the request, and are one line of at most a few hundred bytes.
package outbound

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/private"
)

const (
	requestTimeout = 20 * time.Second
	maxShown       = 200 // bytes of an answer in an error
)

// An Error says why a request did not succeed.
type Error struct {
	Status int           // of the answer, 0 if there was none
	Final  bool          // the same request cannot succeed later
	After  time.Duration // least pause that the server asks for, at most 1 h; 0 if none
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HasStatus reports whether an error is an answer with one of the statuses.
func HasStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(statuses, e.Status)
}

// A Client sends requests. Its methods may be called at the same time.
type Client struct{ http http.Client }

// New returns a client that sends requests by transport; if nil, by [http.DefaultTransport].
func New(transport http.RoundTripper) *Client {
	return &Client{http.Client{
		Transport: transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends a request and returns the body of the answer. It is an error if the body has more than most bytes, or if the
// status is not from 200 to 299; in the latter case the body is returned as well. No error shows one of secrets.
func (c *Client) Do(req *http.Request, most int64, secrets ...string) ([]byte, error) {
	req.Header.Set("User-Agent", "zester")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &Error{Err: masked(withoutURL(err), secrets)}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case res.StatusCode/100 != 2:
		body = body[:min(int64(len(body)), most)]
		return body, refused(res, body, secrets)
	case err != nil:
		return nil, &Error{Err: masked(fmt.Errorf("its answer breaks off: %w", withoutURL(err)), secrets)}
	case int64(len(body)) > most:
		return nil, &Error{Err: fmt.Errorf("its answer has more than %d bytes", most), Final: true}
	}
	return body, nil
}

// refused returns the error of an answer without success.
func refused(res *http.Response, body []byte, secrets []string) *Error {
	status := res.StatusCode
	e := &Error{Status: status, Final: isFinal(status), After: RetryAfter(res.Header, time.Now())}
	// hidden before it is cut, which may be within a secret
	e.Err = masked(fmt.Errorf("it answers with status %d: %s%s", status, Line(hidden(string(body), secrets), maxShown),
		hint(status)), secrets)
	return e
}

// isFinal reports whether a status refuses the content of the request. Other errors may end, as credentials can change.
func isFinal(status int) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
	}, status)
}

func hint(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return "; its credential may lack the right to do this, or its url is wrong"
	case status/100 == 3:
		return "; its url has changed"
	}
	return ""
}

// withoutURL returns an error of an HTTP client without the URL.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// A maskedError is an error with secrets hidden in its text.
type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.cause }

// hidden returns text without secrets, except secrets of fewer than four bytes.
func hidden(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "(hidden)")
		}
	}
	return text
}

// masked hides secrets in the text of an error.
func masked(err error, secrets []string) error {
	text := hidden(err.Error(), secrets)
	if text == err.Error() {
		return err
	}
	return &maskedError{text, err}
}

// Line returns text as one line of at most most bytes, without control characters and characters that change the
// direction of writing.
func Line(text string, most int) string {
	cut := len(text) > 4*most
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(4*most, len(text))], ""))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= most && !cut {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), most-len("…"))], "") + "…"
}

// ReadGuardedSecret returns the single line of a file with a credential. The file must be readable only by its owner
// and group, and the directories above it replaceable only by root and the user of the process.
func ReadGuardedSecret(file string) (string, error) {
	if err := private.Check(file); err != nil {
		return "", err
	}
	return ReadSecret(file)
}
