// Package settings is what Git says about one peel, and how that travels: the document, its digest, and its way
// through the KV bucket to the peel.
//
// A [Document] is an envelope (who it is for, which commit and generation it was written at, where each schedule
// entry comes from) around the canonical bytes of the settings themselves. The digest covers those bytes alone, so
// peels with equal settings share them, and a peel is written to only when its digest changes. In these bytes a keyed
// fingerprint stands for each secret; settings with secrets are in the document a second time, as a whole and sealed to
// the one peel, so that whoever reads the bus learns what changes and no secret. Documents of a peel
// are ordered by generation, never by the stream's sequence: a bucket that was restored counts from the start.
package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Versions of the document's schema. A document without secrets has the first, which older builds read too.
const (
	OpenVersion = 1
	Version     = 2 // sealed; the newest that this build reads
)

// MaxDocument bounds a document in bytes. It leaves room in the bus's payload of 1 MiB for headers.
const MaxDocument = 768 << 10

// A Commit is the hash of a Git commit in hex.
type Commit string

// Short is the first 8 characters, as people see it.
func (c Commit) Short() string { return string(c[:min(8, len(c))]) }

// A Digest is the SHA-256 of canonical settings in hex.
type Digest string

// An Origin says where in the config repo a schedule entry comes from.
type Origin struct {
	File   string    `json:"file"`
	Line   int       `json:"line"`
	Commit Commit    `json:"commit"`          // the commit that last changed the entry
	Author string    `json:"author"`          // of that commit, "Name <email>"
	Time   time.Time `json:"time"`            // of that commit, by its author's clock
	Proof  string    `json:"proof,omitempty"` // see [ProofKey]
}

// A Document is what one peel is to run.
type Document struct {
	V          int               `json:"v"`
	Peel       target.PeelID     `json:"peel"`
	Commit     Commit            `json:"commit"`     // the revision of the write
	Generation uint64            `json:"generation"` // grows with every write: max(last + 1, wall clock in ms)
	Digest     Digest            `json:"digest"`
	Settings   canon.Raw         `json:"settings"`            // a canonical map, with what stands for secrets in place of them
	Sealed     *Sealed           `json:"sealed,omitempty"`    // the settings with their secrets, if there are any
	Origins    map[string]Origin `json:"origins,omitempty"`   // by schedule entry
	ProvenBy   string            `json:"proven_by,omitempty"` // the ID of the [ProofKey] that made the origins' proofs; empty: they have none
}

// DigestOf returns the digest of canonical settings.
func DigestOf(settings canon.Raw) Digest {
	sum := sha256.Sum256(settings)
	return Digest(hex.EncodeToString(sum[:]))
}

// Encode returns the document's bytes, or an error that names the peel if there are more than [MaxDocument].
func (d *Document) Encode() ([]byte, error) {
	data, err := canon.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the settings of %s: %w", d.Peel, err)
	}
	if len(data) > MaxDocument {
		return nil, fmt.Errorf("settings of %s take %d bytes, the limit is %d", d.Peel, len(data), MaxDocument)
	}
	return data, nil
}

// A DecodeError says that what is stored for a peel is not a document of its settings.
type DecodeError struct {
	Peel target.PeelID
	Err  error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("cannot read the settings of %s: %v", e.Peel, e.Err)
}

// Unwrap returns why it cannot be read.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode reads the document of a peel and checks all that it says of itself: the peel, the schema's version and the
// digest. The result shares no memory with data. The error is a [*DecodeError].
func Decode(data []byte, peel target.PeelID) (*Document, error) {
	d, err := decode(data)
	if err == nil && d.Peel != peel {
		err = fmt.Errorf("they are for %q", d.Peel)
	}
	if err != nil {
		return nil, &DecodeError{peel, err}
	}
	return d, nil
}

func decode(data []byte) (*Document, error) {
	if len(data) > MaxDocument {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(data), MaxDocument)
	}
	d := new(Document)
	if err := canon.Unmarshal(data, d); err != nil {
		return nil, err
	}
	switch {
	case d.V > Version:
		return nil, fmt.Errorf("schema version %d, this build knows up to %d", d.V, Version)
	case d.Sealed != nil && d.V < Version:
		return nil, fmt.Errorf("schema version %d with sealed settings", d.V)
	case DigestOf(d.Settings) != d.Digest:
		return nil, errors.New("the digest does not match")
	case d.Sealed != nil:
		return d, d.Sealed.check()
	}
	return d, nil
}

// SealedTo is the key that opens the document's secrets, empty if it has none.
func (d *Document) SealedTo() Key {
	if d.Sealed == nil {
		return ""
	}
	return d.Sealed.To
}

// Values returns the settings as plain values, which the caller owns.
func (d *Document) Values() (map[string]any, error) {
	values := map[string]any{}
	if err := canon.Unmarshal(d.Settings, &values); err != nil {
		return nil, fmt.Errorf("cannot read the settings of %s: %w", d.Peel, err)
	}
	return values, nil
}

// NextGeneration returns the generation of a document that is written at now over one of the generation last:
// the wall clock in milliseconds, which also orders documents across a bucket that was made anew, or last + 1
// where the clock is behind.
func NextGeneration(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(0, now.UnixMilli())))
}
