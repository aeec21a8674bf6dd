// Package sops decrypts settings files in the format of SOPS, so the config repo can contain secrets that are encrypted
// to age recipients and edited with `sops edit`.
//
// Call [Encrypted] to find out whether a document is a SOPS file, [ReadRing] to read the identities, and [Decrypt]. A
// caller without an identity calls [Masked].
//
// A SOPS file has the key `sops` at its top, which Decrypt removes. Every encrypted value becomes a node whose value is
// [Shown] and a fingerprint. The secret itself is only in [strictyaml.Node.Secret], so code that prints, compares or
// stores nodes shows no plain text. Values keep their types, keys and positions.
//
// The fingerprint is keyed with the data key of the file, which only recipients have. So a changed secret is visible,
// and a short secret cannot be guessed from its fingerprint. The fingerprint changes if the secret, its keys or the
// data key (`sops rotate`) change.
//
// Decrypt accepts a file as a whole or returns an error: the message authentication code covers all values and their
// order, and each value is bound to the keys above it.
//
// Known gaps: recipients other than age are ignored, and a data key that is split between key groups is an error.
package sops

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Shown is the beginning of a masked secret. The fingerprint follows, in 16 hex digits.
const Shown = "•••"

const metadataKey = "sops"

// Encrypted reports whether a document is a SOPS file.
func Encrypted(doc *strictyaml.Node) bool { return doc.Get(metadataKey) != nil }

// Decrypt returns a SOPS file without its metadata, with its secrets in the nodes. The error is a [strictyaml.Errors];
// it never contains a secret.
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

// Masked returns a SOPS file without its metadata, with every encrypted value masked. It needs no identity, and
// decrypts and authenticates nothing. The fingerprints are made of the encrypted texts, which `sops` changes only with
// the secret. The error is a [strictyaml.Errors].
func Masked(doc *strictyaml.Node) (*strictyaml.Node, error) {
	m, err := readMetadata(doc.Get(metadataKey))
	if err != nil {
		return nil, refusal(doc.Get(metadataKey).Pos, err)
	}
	o := opener{metadata: m}
	out := o.document(doc)
	return out, o.errs.Err()
}

// Salt returns a secret of a SOPS file that only its recipients can compute, the same until the data key changes.
func Salt(doc *strictyaml.Node, ring *Ring) ([]byte, error) {
	m, err := readMetadata(doc.Get(metadataKey))
	if err != nil {
		return nil, err
	}
	key, err := ring.dataKey(m)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("zester salt of contents"))
	return mac.Sum(nil), nil
}

func refusal(at strictyaml.Pos, err error) error {
	return strictyaml.Errors{{Pos: at, Path: metadataKey, Msg: err.Error()}}
}

var errNoMAC = errors.New("there is no mac: the file was not written by sops")

// authentic checks the message authentication code. Call it when all values are read.
func (o *opener) authentic() error {
	stored, err := o.open(o.metadata.mac, o.metadata.lastModified)
	if err != nil {
		return fmt.Errorf("cannot decrypt the mac: %w", err)
	}
	if !o.mac.equals(stored.text) {
		return errors.New(
			"the mac does not match: the file was changed by something else than sops; restore it, " +
				"or check it and have sops write it again",
		)
	}
	return nil
}
