package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// signer is one line of the allowed signers.
type signer struct {
	principal     string
	fingerprint   string
	key           ssh.PublicKey
	after, before time.Time // zero: no limit
}

// AddSSH allows the keys of a file in the form of ssh-keygen(1), ALLOWED SIGNERS: principals, options, key. Of the
// options namespaces, valid-after and valid-before are understood; certificates are not.
func (k *Keys) AddSSH(allowed []byte) error {
	n := 0
	for line := range bytes.Lines(allowed) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, err := parseSigner(line)
		if err != nil {
			return fmt.Errorf("cannot read line %d of the allowed signers: %w", n, err)
		}
		if s != nil {
			k.ssh = append(k.ssh, *s)
		}
	}
	return nil
}

// keyAndOptions takes the results of [ssh.ParseAuthorizedKey].
func keyAndOptions(key ssh.PublicKey, _ string, options []string, _ []byte,
	err error,
) (ssh.PublicKey, []string, error) {
	return key, options, err
}

// parseSigner reads one line, and returns nil if its namespaces exclude git.
func parseSigner(line []byte) (*signer, error) {
	principal, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, errors.New("want principals and a key")
	}
	key, options, err := keyAndOptions(ssh.ParseAuthorizedKey(rest))
	if err != nil {
		return nil, err
	}
	s := &signer{principal: string(principal), key: key, fingerprint: ssh.FingerprintSHA256(key)}
	forGit := true
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			forGit = false
			for ns := range strings.SplitSeq(value, ",") {
				forGit = forGit || ns == "git"
			}
		case "valid-after":
			s.after, err = parseTime(value)
		case "valid-before":
			s.before, err = parseTime(value)
		default:
			err = fmt.Errorf("option %q is not understood", name)
		}
		if err != nil {
			return nil, err
		}
	}
	if !forGit {
		return nil, nil
	}
	return s, nil
}

// parseTime reads YYYYMMDD[HHMM[SS]], in the local zone unless Z follows.
func parseTime(s string) (time.Time, error) {
	zone := time.Local
	digits, utc := strings.CutSuffix(s, "Z")
	if utc {
		zone = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) == len(digits) {
			return time.ParseInLocation(layout, digits, zone)
		}
	}
	return time.Time{}, fmt.Errorf("time %q is not YYYYMMDD[HHMM[SS]][Z]", s)
}

// verifySSH checks an SSH signature. It names no time, so the key has to be valid now.
func (k *Keys) verifySSH(text []byte, armored string, now time.Time) (Signer, error) {
	sig, err := sshsig.Unarmor([]byte(armored))
	if err != nil {
		return Signer{}, &SignatureError{Problem: err.Error()}
	}
	fingerprint := ssh.FingerprintSHA256(sig.PublicKey)
	if err := sshsig.Verify(bytes.NewReader(text), sig, sig.PublicKey, sig.HashAlgorithm, "git"); err != nil {
		return Signer{}, &SignatureError{Fingerprint: fingerprint, Problem: err.Error()}
	}
	problem := "the key is not among the allowed ones"
	for _, s := range k.ssh {
		switch {
		case s.fingerprint != fingerprint || !bytes.Equal(s.key.Marshal(), sig.PublicKey.Marshal()):
		case !s.after.IsZero() && now.Add(clockSkew).Before(s.after):
			problem = "the key is not valid yet"
		case !s.before.IsZero() && !now.Add(-clockSkew).Before(s.before):
			problem = "the key has expired"
		default:
			return Signer{Principal: s.principal, Fingerprint: fingerprint}, nil
		}
	}
	return Signer{}, &SignatureError{Fingerprint: fingerprint, Problem: problem}
}

// issuer returns the fingerprint or the ID of the key that an OpenPGP signature names, "" if it names none.
func issuer(armored string) string {
	block, err := armor.Decode(strings.NewReader(armored))
	if err != nil {
		return ""
	}
	p, err := packet.Read(block.Body)
	sig, ok := p.(*packet.Signature)
	switch {
	case err != nil || !ok:
		return ""
	case sig.IssuerFingerprint != nil:
		return fmt.Sprintf("%X", sig.IssuerFingerprint)
	case sig.IssuerKeyId != nil:
		return fmt.Sprintf("%016X", *sig.IssuerKeyId)
	default:
		return ""
	}
}
