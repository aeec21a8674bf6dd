package sops

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// EncryptTo returns a writer that encrypts to an age recipient, such as age1… of age-keygen, and writes to w. What
// was written is complete once Close has returned.
func EncryptTo(w io.Writer, recipient string) (io.WriteCloser, error) {
	recipients, err := age.ParseRecipients(strings.NewReader(recipient))
	if err != nil {
		return nil, fmt.Errorf("cannot encrypt to %.80q: want an age recipient, which begins with age1", recipient)
	}
	return age.Encrypt(w, recipients...)
}

// Decrypt returns the plain text of a file that age encrypted to an identity of the ring. A reader that gets [io.EOF]
// from it has read the whole file as it was written.
func (r *Ring) Decrypt(src io.Reader) (io.Reader, error) {
	if r == nil || len(r.identities) == 0 {
		return nil, errors.New("cannot decrypt it without an age identity")
	}
	plain, err := age.Decrypt(src, r.identities...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return nil, errors.New("cannot decrypt it: it was encrypted to another recipient than that of this identity")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decrypt it: %w", err)
	}
	return plain, nil
}
