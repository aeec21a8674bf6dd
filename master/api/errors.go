package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/peel/dial"
)

// A Code is the kind of an error.
type Code string

// The codes. Numbers are codes in replies of services.
const (
	CodeWaits       Code = "202"         // it waits for a second person, as [HeldAs] says; nothing was done yet
	CodeInvalid     Code = "400"         // the request is not valid; the text says what and where
	CodeForbidden   Code = "403"         // refused by a master: outside the limits of the caller
	CodeNotFound    Code = "404"         // no such job, peel, token or other object
	CodeConflict    Code = "409"         // contradicts the present state, as when the job has ended
	CodeUnavailable Code = "503"         // no master could reply; the same request may succeed later
	CodeDenied      Code = "denied"      // not authenticated, or not allowed
	CodeUnreachable Code = "unreachable" // the bus could not be reached
)

// An Error is the error of a request. Its text is a whole sentence for people.
type Error struct {
	Code Code
	Msg  string
	Err  error // the cause; nil: unknown
}

func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of an error of this package, and "" for others.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func fail(code Code, err error, format string, args ...any) *Error {
	msg := fmt.Sprintf(format, args...)
	if err != nil {
		msg += ": " + err.Error()
	}
	return &Error{Code: code, Msg: msg, Err: err}
}

// connectError has [CodeDenied] if the bus refuses the credential, else [CodeUnreachable]: the bus is away, or its
// certificate is not accepted.
func connectError(o ClientOptions, err error) error {
	if dial.Refusal(err) != nil {
		return refusedCredential(o, err)
	}
	checkedBy := o.CA
	if roots, e := dial.Roots(o.Creds); checkedBy == "" && e == nil && roots != nil {
		checkedBy = "the credential"
	}
	return fail(CodeUnreachable, dial.Explain(err, checkedBy), "cannot reach the bus at %s", o.URL)
}

// refusedCredential returns the time when the credential expired, if it has: the bus gives no reason.
func refusedCredential(o ClientOptions, err error) error {
	if renewed, unread := os.ReadFile(o.File); unread == nil {
		o.Creds = renewed
	}
	name, ends, unread := CredentialEnds(o.Creds)
	if unread != nil || ends.IsZero() || ends.After(time.Now()) {
		return fail(CodeDenied, dial.Explain(err, ""), "cannot use the bus at %s as %s", o.URL, name)
	}
	return fail(CodeDenied, &dial.BusError{
		What: "it ended at " + ends.UTC().Format(time.RFC3339), Err: err,
		Hint: fmt.Sprintf(
			"have another made: zester auth user add %s --again, "+
				"or on the host that holds the keys zester auth issue <role> %[1]s --again",
			name,
		),
	}, "the bus at %s refuses the credential of %s", o.URL, name)
}

// requestError returns the error of a request without a reply.
func requestError(subject string, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fail(CodeUnavailable, nil, "no master answers %s", subject)
	case errors.Is(err, nats.ErrPermissionViolation):
		return fail(CodeDenied, nil, "the credential does not allow %s", subject)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fail(CodeUnavailable, nil, "no master answered %s in time", subject)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fail(CodeUnreachable, dial.Explain(err, ""), "cannot ask %s", subject)
}

// ReplyError returns the error of a service's reply, nil if the reply has none. An error of several lines is in the
// data.
func ReplyError(msg *nats.Msg) error {
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return &Error{Code: Code(code), Msg: cmp.Or(string(msg.Data), msg.Header.Get(micro.ErrorHeader))}
	}
	return nil
}
