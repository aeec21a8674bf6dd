package gitrepo

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Reason says in one word why a revision could not be had. It is meant to be
// shown as the reason of a condition.
type Reason string

// The reasons of an [Error].
const (
	// RefNotFound: the repository is there, the branch is not.
	RefNotFound Reason = "RefNotFound"
	// EmptyRemote: the repository says that it has no branches at all. Never a
	// cause to remove anything: a cut answer can look the same.
	EmptyRemote Reason = "EmptyRemote"
	// NotGit: what answers does not speak Git, such as a login page.
	NotGit Reason = "NotGit"
	// AuthenticationFailed: credentials are missing or wrong.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// Forbidden: the credentials, or the permissions of a local path, do not
	// allow reading.
	Forbidden Reason = "Forbidden"
	// NotFound: no repository there. Forges answer the same for a private one.
	NotFound Reason = "NotFound"
	// RateLimited: the remote asks to come back later, see Error.RetryAfter.
	RateLimited Reason = "RateLimited"
	// Unreachable: no connection.
	Unreachable Reason = "Unreachable"
	// RemoteFailed: the remote answered with an error of its own, or broke off.
	RemoteFailed Reason = "RemoteFailed"
	// Timeout: the remote took longer than it may.
	Timeout Reason = "Timeout"
	// CertificateInvalid: the TLS certificate of the remote is not trusted.
	CertificateInvalid Reason = "CertificateInvalid"
	// HostKey: the ssh host key is unknown or another one than before.
	HostKey Reason = "HostKey"
	// RefMoved: the wanted commit is no longer there, because the branch moved
	// between Resolve and Fetch. Resolve again.
	RefMoved Reason = "RefMoved"
	// UnsupportedObjectFormat: the repository uses SHA-256 or the reftable
	// format.
	UnsupportedObjectFormat Reason = "UnsupportedObjectFormat"
	// ShallowRemote: the remote itself has no full history.
	ShallowRemote Reason = "ShallowRemote"
	// RemoteDamaged: the local repository that is followed cannot be read.
	RemoteDamaged Reason = "RemoteDamaged"
	// StoreUnwritable: the directory of the store cannot be written.
	StoreUnwritable Reason = "StoreUnwritable"
	// StoreDamaged: the store cannot be read; the next Fetch replaces it.
	StoreDamaged Reason = "StoreDamaged"
	// RevisionNotFound: the store does not hold this commit.
	RevisionNotFound Reason = "RevisionNotFound"
	// PathNotFound: the revision lacks the directory of Options.Path.
	PathNotFound Reason = "PathNotFound"
	// UnsafePath: the revision has a name that could leave a directory.
	UnsafePath Reason = "UnsafePath"
	// Untrusted: the signature of a commit does not hold, or is not by a key
	// that may sign.
	Untrusted Reason = "Untrusted"
	// KeysUnreadable: the keys that may sign cannot be read; nothing is
	// accepted meanwhile.
	KeysUnreadable Reason = "KeysUnreadable"
	// CredentialsUnreadable: a file with a credential or with certificates
	// cannot be read.
	CredentialsUnreadable Reason = "CredentialsUnreadable"
	// TooLarge: a file, a tree or a history is over its limit.
	TooLarge Reason = "TooLarge"
)

// Stalled reports whether trying again cannot help until somebody changes the
// repository, the configuration or the machine.
func (r Reason) Stalled() bool {
	switch r {
	case UnsupportedObjectFormat, ShallowRemote, HostKey, CertificateInvalid,
		StoreUnwritable, PathNotFound, UnsafePath, TooLarge:
		return true
	default:
		return false
	}
}

// Error is what every method of this package returns, except when the caller's
// own context ended: then the error of the context is returned, wrapped.
type Error struct {
	Reason Reason
	// Subject is what could not be read or written: the URL, without
	// credentials, "revision" and its hash, or a directory.
	Subject string
	// Msg says why. It is one line, at most 600 bytes, and without
	// credentials; what a remote sent is cut.
	Msg string
	// RetryAfter is how long the remote asked to be left alone; 0 if it did
	// not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	verb := "read"
	if e.Reason == StoreUnwritable {
		verb = "write"
	}
	return fmt.Sprintf("cannot %s %s: %s", verb, e.Subject, e.Msg)
}

// maxMessage bounds the message of an Error, which ends up in a condition.
const maxMessage = 600

func errorf(reason Reason, subject, format string, args ...any) *Error {
	return &Error{Reason: reason, Subject: subject, Msg: oneLine(fmt.Sprintf(format, args...), maxMessage)}
}

// hasReason reports whether err is an Error with this reason.
func hasReason(err error, reason Reason) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == reason
}

// oneLine makes foreign text fit for a status: printable, runs of space joined,
// at most limit bytes.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(printable(s)), " "), limit)
}

// printable replaces what is not UTF-8, and control characters but for ends of
// lines, with which text could steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// cut shortens s to at most limit bytes, at a rune boundary.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:limit-len(mark)], "") + mark
}
