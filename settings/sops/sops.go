// Package sops reads settings files in the format of SOPS, so that secrets lie in the config repo encrypted to age
// recipients and `sops edit`, its diffs and its plug-ins work on them.
//
// A file is one of SOPS if it has the key `sops` at its top, which is taken away with what it says about encryption. In
// what is left every encrypted value becomes a node that shows [Shown] and a fingerprint in place of the secret; the
// secret itself is in [strictyaml.Node.Secret] and nowhere else, so that whatever prints, compares or stores nodes shows
// no plain text. Types come back as they were written; keys, comments and the places of values are as in the file.
//
// The fingerprint is keyed: it is made with the data key of the file, which only recipients have, so that a change of a
// secret can be seen and a short secret cannot be found by trying. It stays the same until the secret, its place or the
// data key (`sops rotate`) changes.
//
// A file is taken as a whole or refused: its message authentication code covers all values and their order, and each
// value is bound to the keys above it. Recipients other than age are passed over; a data key that is split between groups
// of them is refused, and so are files that `sops` itself refuses.
package sops

import (
	"errors"
	"fmt"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Shown begins the text that stands for a secret. The fingerprint follows, in 16 hex digits.
const Shown = "•••"

const metadataKey = "sops"

// Encrypted reports whether a document is a file of SOPS.
func Encrypted(doc *strictyaml.Node) bool { return doc.Get(metadataKey) != nil }

// Decrypt returns a file of SOPS without its metadata and with its secrets. The error is a [strictyaml.Errors]; it never
// shows a secret.
func Decrypt(doc *strictyaml.Node, ring *Ring) (*strictyaml.Node, error) {
	at := doc.Get(metadataKey).Pos
	m, err := readMetadata(doc.Get(metadataKey))
	if err != nil {
		return nil, refusal(at, err)
	}
	key, err := ring.dataKey(m)
	if err != nil {
		return nil, refusal(at, err)
	}
	o := opener{metadata: m, aead: newCipher(key), fingerprints: fingerprintKey(key), mac: newMAC(m.macOnlyEncrypted)}
	out := o.document(doc)
	if err := o.errs.Err(); err != nil {
		return nil, err
	}
	if err := o.authentic(); err != nil {
		return nil, refusal(at, err)
	}
	return out, nil
}

// Veil returns a file of SOPS for one who has no identity: nothing is decrypted or authenticated, and the fingerprints are
// those of what is encrypted, which `sops` leaves as it is while the secret stays. The error is a [strictyaml.Errors].
func Veil(doc *strictyaml.Node) (*strictyaml.Node, error) {
	m, err := readMetadata(doc.Get(metadataKey))
	if err != nil {
		return nil, refusal(doc.Get(metadataKey).Pos, err)
	}
	o := opener{metadata: m}
	out := o.document(doc)
	return out, o.errs.Err()
}

func refusal(at strictyaml.Pos, err error) error {
	return strictyaml.Errors{{Pos: at, Path: metadataKey, Msg: err.Error()}}
}

var errNoMAC = errors.New("there is no mac: the file was not written by sops")

// authentic checks the message authentication code when all values are read.
func (o *opener) authentic() error {
	stored, err := o.open(o.metadata.mac, o.metadata.lastModified)
	if err != nil {
		return fmt.Errorf("cannot decrypt the mac: %w", err)
	}
	if !o.mac.equals(stored.text) {
		return errors.New("the mac does not match: the file was changed by something else than sops; restore it, or check it and have sops write it again")
	}
	return nil
}
