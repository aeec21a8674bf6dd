package remote

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

const (
	maxForeign = 200 // bytes of a server's text that an error repeats

	// SHA256Refused is the message about a repository with SHA-256 names.
	SHA256Refused = "its objects have SHA-256 names, which is not supported"
	notFoundHint  = "there is no repository, or it is private and the credentials do not reach it"
)

var errSHA256 = errors.New(SHA256Refused)

// serverError is an error message of a server.
type serverError struct{ text string }

func (e *serverError) Error() string { return e.text }

// reasonOf returns the reason of an error, and its message unless the text of
// the error is the message.
func reasonOf(err error) (reason, msg string) {
	if data, ok := errors.AsType[*packp.ErrUnexpectedData](err); ok {
		if strings.Contains(string(data.Data), "object-format=sha256") {
			return UnsupportedObjectFormat, SHA256Refused
		}
		return NotGit, "the answer is not of the Git protocol"
	}
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		err = &serverError{line.Text}
	}
	if said, ok := errors.AsType[*serverError](err); ok {
		return reasonOfText(said.text), "the server says: " + said.text
	}
	if key, ok := errors.AsType[*hostKeyError](err); ok {
		return HostKey, key.Error()
	}
	switch {
	case errors.Is(err, errSHA256):
		return UnsupportedObjectFormat, SHA256Refused
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return EmptyRemote, "the repository has no branches"
	case errors.Is(err, packp.ErrEmptyInput), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return RemoteFailed, "the answer ended early"
	case errors.Is(err, pktline.ErrInvalidPktLen):
		return NotGit, "the answer is not of the Git protocol"
	}
	return reasonOfConnection(err), ""
}

func reasonOfText(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "not our ref"):
		return RefMoved
	case strings.Contains(text, "not found"), strings.Contains(text, "does not exist"),
		strings.Contains(text, "not appear to be a git repository"), strings.Contains(text, "could not be found"):
		return NotFound
	case strings.Contains(text, "denied"):
		return Forbidden
	default:
		return RemoteFailed
	}
}

func reasonOfConnection(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return CertificateInvalid
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return Timeout
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return Unreachable
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return Unreachable
	}
	switch text := err.Error(); { // x/crypto has no types for these
	case strings.Contains(text, "knownhosts"), strings.Contains(text, "known_hosts"):
		return HostKey
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "SSH agent"),
		strings.Contains(text, "SSH_AUTH_SOCK"):
		return AuthenticationFailed
	default:
		return RemoteFailed
	}
}
