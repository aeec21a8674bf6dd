package gitrepo

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/remote"
)

// Reason says in one word why a revision could not be read. Conditions show it.
type Reason string

// The reasons of an [Error].
const (
	RefNotFound Reason = remote.RefNotFound // the repository has no such branch
	// the remote lists no branches; remove nothing because of it, as a truncated answer looks the same
	EmptyRemote   Reason = remote.EmptyRemote
	NotGit        Reason = remote.NotGit        // the server does not speak Git; it sent a login page, for example
	NotFound      Reason = remote.NotFound      // no repository there; forges answer the same for a private one
	ShallowRemote Reason = remote.ShallowRemote // the repository itself has no full history
	RefMoved      Reason = remote.RefMoved      // the requested commit is gone: resolve again

	AuthenticationFailed Reason = remote.AuthenticationFailed // credentials are missing or wrong
	// credentials, or permissions of a local path, do not allow reading
	Forbidden Reason = remote.Forbidden
	// a file with a credential or certificates cannot be read
	CredentialsUnreadable Reason = remote.CredentialsUnreadable
	CertificateInvalid    Reason = remote.CertificateInvalid // the TLS certificate is not trusted
	HostKey               Reason = remote.HostKey            // the ssh host key is unknown, or another one than before

	RateLimited  Reason = remote.RateLimited  // the remote refuses requests for a time, see Error.RetryAfter
	Unreachable  Reason = remote.Unreachable  // no connection
	RemoteFailed Reason = remote.RemoteFailed // the remote answered with an error of its own, or broke off
	Timeout      Reason = remote.Timeout      // the remote took longer than it may

	UnsupportedObjectFormat Reason = remote.UnsupportedObjectFormat // SHA-256 names, or the reftable format
	// the local repository that is followed cannot be read
	RemoteDamaged   Reason = "RemoteDamaged"
	StoreUnwritable Reason = "StoreUnwritable" // the directory of the store cannot be written
	StoreDamaged    Reason = "StoreDamaged"    // the store cannot be read; the next Fetch replaces it

	RevisionNotFound Reason = "RevisionNotFound" // the store does not hold this commit
	PathNotFound     Reason = "PathNotFound"     // the revision lacks the directory of Options.Path, or the file
	UnsafePath       Reason = "UnsafePath"       // the revision has a name that could leave a directory
	TooLarge         Reason = "TooLarge"         // a file, a tree, a history or a transfer is over its limit
	Untrusted        Reason = "Untrusted"        // the signature is invalid, or its key is not trusted
	KeysUnreadable   Reason = "KeysUnreadable"   // the keys that may sign cannot be read; nothing is accepted meanwhile
)

// Stalled reports whether trying again cannot help until a person changes the
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

// Error is the error of every method of this package, except when the caller's
// context ended: then the method returns the error of the context, wrapped.
type Error struct {
	Reason Reason
	// Subject is what could not be read or written: the URL, without
	// credentials, "revision" and its hash, or a directory.
	Subject string
	// Msg says why. It is one line, at most 600 bytes, and without
	// credentials; what a remote sent is cut.
	Msg string
	// RetryAfter is the least pause before the next request that the remote
	// asked for; 0 if it named none.
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

// remoteError converts an error of package remote to an Error, and returns any
// other unchanged.
func remoteError(a *remote.Address, err error) error {
	e, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return err
	}
	out := errorf(Reason(e.Reason), a.Shown, "%s", e.Msg)
	out.RetryAfter = e.RetryAfter
	return out
}

// hasReason reports whether err is an Error with this reason.
func hasReason(err error, reason Reason) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == reason
}

// oneLine returns text from outside as a status shows it: printable, on one
// line, at most limit bytes.
func oneLine(s string, limit int) string {
	return cut(strings.Join(strings.Fields(printable(s)), " "), limit)
}

// printable replaces invalid UTF-8, and every control character except a newline,
// as a terminal would obey them.
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
