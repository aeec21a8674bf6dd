// File signature.go verifies the signature of a commit against a list of allowed keys.
//
// Fill [Keys] with [Keys.AddOpenPGP] and [Keys.AddSSH], then call [Keys.Verify].
//
// Guarantees: keys come from the operator's configuration, never from the repository, so that a commit cannot allow its
// own signer. Only the key counts, and not the author's name in the commit. A key must be valid now, and at the time
// that an OpenPGP signature names; clocks may differ by five minutes. A key that has expired or was revoked is refused
// whatever time the signature names, because the holder of the key can choose that time.

package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const clockSkew = 5 * time.Minute

// Keys are the allowed keys. The zero value allows none.
type Keys struct {
	pgp openpgp.EntityList
	ssh []signer
}

// A Signer is the owner of a valid signature's key.
type Signer struct {
	Principal   string // of the allowed signers, or the first user ID of an OpenPGP key
	Fingerprint string // SHA256:… of SSH keys, upper-case hex of OpenPGP keys
}

// An SignatureError says why a commit is not accepted.
type SignatureError struct {
	Fingerprint string // of the key that signed, or an OpenPGP key ID; "" if unknown
	Problem     string
}

func (e *SignatureError) Error() string {
	if e.Fingerprint == "" {
		return "cannot accept the commit's signature: " + e.Problem
	}
	return fmt.Sprintf("cannot accept the commit's signature by %s: %s", e.Fingerprint, e.Problem)
}

// AddOpenPGP allows the public keys of an armored keyring, as gpg --export --armor writes it.
func (k *Keys) AddOpenPGP(armored []byte) error {
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(armored))
	if err != nil {
		return fmt.Errorf("cannot read OpenPGP keys: %w", err)
	}
	for _, key := range keys {
		if key.PrivateKey != nil {
			return errors.New("cannot use a private OpenPGP key to verify: export the public one")
		}
	}
	k.pgp = append(k.pgp, keys...)
	return nil
}

// Verify checks the signature of a commit object, as git cat-file commit prints it. Its error is an *Error.
func (k *Keys) Verify(commit []byte, now time.Time) (Signer, error) {
	text, sig, err := split(commit)
	if err != nil {
		return Signer{}, err
	}
	switch {
	case sig == "":
		return Signer{}, &SignatureError{Problem: "it has none"}
	case strings.HasPrefix(sig, "-----BEGIN SSH SIGNATURE-----"):
		return k.verifySSH(text, sig, now)
	case strings.HasPrefix(sig, "-----BEGIN PGP SIGNATURE-----"), strings.HasPrefix(sig, "-----BEGIN PGP MESSAGE-----"):
		return k.verifyPGP(text, sig, now)
	default:
		return Signer{}, &SignatureError{Problem: "it is neither OpenPGP nor SSH"}
	}
}

// split returns the signature from a commit's header, and the rest of the commit: the bytes that were signed.
func split(commit []byte) (text []byte, sig string, err error) {
	header, body, found := bytes.Cut(commit, []byte("\n\n"))
	if !found {
		return nil, "", &SignatureError{Problem: "its header has no end"}
	}
	var out, armor bytes.Buffer
	within, signatures := false, 0
	for line := range bytes.Lines(append(bytes.Clone(header), '\n')) {
		first, isSig := bytes.CutPrefix(line, []byte("gpgsig "))
		switch {
		case isSig:
			within, signatures = true, signatures+1
			armor.Write(first)
		case within && line[0] == ' ':
			armor.Write(line[1:])
		default:
			within = false
			out.Write(line)
		}
	}
	if signatures > 1 {
		return nil, "", &SignatureError{Problem: "there is more than one"}
	}
	out.WriteByte('\n')
	out.Write(body)
	return out.Bytes(), armor.String(), nil
}

func (k *Keys) verifyPGP(text []byte, sig string, now time.Time) (Signer, error) {
	by, err := k.checkPGP(text, sig, now)
	if errors.Is(err, pgperrors.ErrSignatureExpired) || errors.Is(err, pgperrors.ErrKeyExpired) {
		// The library also returns these for a signature from the future: the signer's clock may be ahead.
		by, err = k.checkPGP(text, sig, now.Add(clockSkew))
	}
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return Signer{}, &SignatureError{Fingerprint: issuer(sig), Problem: "the key is not among the allowed ones"}
	case err != nil:
		return Signer{}, &SignatureError{Fingerprint: issuer(sig), Problem: err.Error()}
	}
	signer := Signer{Fingerprint: fmt.Sprintf("%X", by.PrimaryKey.Fingerprint)}
	if id := by.PrimaryIdentity(); id != nil {
		signer.Principal = id.Name
	}
	return signer, nil
}

func (k *Keys) checkPGP(text []byte, sig string, now time.Time) (*openpgp.Entity, error) {
	config := &packet.Config{Time: func() time.Time { return now }}
	return openpgp.CheckArmoredDetachedSignature(k.pgp, bytes.NewReader(text), strings.NewReader(sig), config)
}
