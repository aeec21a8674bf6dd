package sops

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/seed-c01c3da5/zester/settings/private"
)

const maxIdentities = 64 << 10 // bytes of a file of identities

// A Ring is a set of age identities. A file can be decrypted if one of them is a recipient, so keys can be rotated. A
// nil Ring is empty. A Ring is immutable.
type Ring struct {
	identities []age.Identity
	sum        [sha256.Size]byte // of the files
}

// ReadRing reads identities from files in the format of age-keygen, also those of plugins of age. It refuses a file
// that others than its owner may read.
func ReadRing(files ...string) (*Ring, error) {
	r, h := &Ring{}, sha256.New()
	for _, file := range files {
		data, err := readIdentities(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the identities in %s: %w", file, err)
		}
		identities, err := parseIdentities(data)
		if err != nil {
			// The library's error may contain a line of the file.
			return nil, fmt.Errorf(
				"cannot read the identities in %s: want lines that begin with AGE-SECRET-KEY-1, "+
					"as age-keygen writes them, or with AGE-PLUGIN-",
				file,
			)
		}
		r.identities = append(r.identities, identities...)
		_, _ = fmt.Fprintf(h, "%d:", len(data))
		h.Write(data)
	}
	h.Sum(r.sum[:0])
	return r, nil
}

func readIdentities(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return private.Read(f, maxIdentities)
}

// Equal reports whether two rings were read from files with the same content.
func (r *Ring) Equal(o *Ring) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.sum == o.sum
}

// dataKey decrypts the data key of a file with the first identity that is a recipient.
func (r *Ring) dataKey(m *metadata) ([]byte, error) {
	if r == nil || len(r.identities) == 0 {
		return nil, errors.New(
			"cannot decrypt it: the master has no identity; name a file of age identities in its configuration",
		)
	}
	for _, to := range m.recipients {
		key, err := r.stanza(to)
		if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
			continue
		}
		if err == nil && len(key) != dataKeySize {
			err = fmt.Errorf("it has %d bytes, not %d", len(key), dataKeySize)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot decrypt the data key for %.80q: %w", to.name, err)
		}
		return key, nil
	}
	return nil, fmt.Errorf(
		"cannot decrypt it: none of its recipients (%s) is an identity of the master; add one with sops updatekeys",
		m.names(),
	)
}

func (r *Ring) stanza(to recipient) ([]byte, error) {
	plain, err := age.Decrypt(armor.NewReader(strings.NewReader(to.enc)), r.identities...)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(plain, dataKeySize+1))
}

// names returns the names of the first three recipients and the number of the others.
func (m *metadata) names() string {
	const most = 3
	var names []string
	for _, r := range m.recipients[:min(most, len(m.recipients))] {
		names = append(names, fmt.Sprintf("%.80s", r.name))
	}
	if more := len(m.recipients) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
