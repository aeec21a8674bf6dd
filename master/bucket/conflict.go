package bucket

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// IsConflict reports whether a write that named the revision or the sequence it expects was refused because the key or
// subject is at another one, or because another write to it is under way. The server has two codes for it: one compares with
// what is stored, the other is returned by replicated streams while another message of the subject is being stored.
// [jetstream.ErrKeyExists] alone misses the second, except after Create.
func IsConflict(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
	}
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
