package bucket

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// conflicts are the errors of the client and of the server. The server returns one code after it has compared with what
// is stored, which ErrKeyExists stands for, and another from replicated streams while they store another message of the
// subject.
var conflicts = []error{
	jetstream.ErrKeyExists, jetstream.ErrKeyRevisionMismatch,
	&jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant},
}

// IsConflict reports whether a write that named the revision or sequence it expects was refused because the key or
// subject has another one, or because another write to it is under way.
func IsConflict(err error) bool {
	return slices.ContainsFunc(conflicts, func(conflict error) bool { return errors.Is(err, conflict) })
}
