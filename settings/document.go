// Package settings defines the document with the settings of one peel and sends it from the masters to the peel through
// a KV bucket.
//
// A master makes a [Store] with [NewStore] and calls [Store.Publish]; [Store.Load] returns what the bucket has. A peel
// makes a [Watch] with [NewWatch] and calls [Watch.Run]. Both use [Document.Encode] and [Decode].
//
// A [Document] has a header (its peel, the commit and generation of the write, the origin of each schedule entry) and
// the canonical bytes of the settings. The digest covers these bytes only, so peels with equal settings have equal
// digests, and a peel's document is written only if its digest changes. The bytes have a keyed fingerprint in place of
// each secret. A document with secrets also contains the whole settings sealed to the peel, so readers of the bus see
// that a secret changed but not the secret. The documents of a peel are ordered by generation, not by the stream's
// sequence, because a restored bucket starts again at 1.
//
// Known gap: [NextGeneration] follows the masters' wall clocks; after a bucket is lost, a clock that is behind
// publishes documents that peels drop as older.
package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Versions of the document's schema.
const (
	OpenVersion = 1 // without secrets; older builds read it too
	Version     = 2 // with sealed settings; the newest that this build reads
)

// MaxDocument is the size limit of a document in bytes. It leaves room for headers in the bus's payload of 1 MiB.
const MaxDocument = 768 << 10

// A Commit is the hash of a Git commit in hex.
type Commit string

// Short returns the first 8 characters, for output.
func (c Commit) Short() string { return string(c[:min(8, len(c))]) }

// A Digest is the SHA-256 of canonical settings in hex.
type Digest string

// StateOrigin begins the names of states among the origins of a document; schedule entries have their own names.
const StateOrigin = "state:"

// An Origin is the place of a schedule entry or a state in the config repo and its last change.
type Origin struct {
	File string `json:"file"` // the settings file that was changed last
	// of a state: all settings files that contribute, in merge order, if there are several
	Files  []string  `json:"files,omitempty"`
	Line   int       `json:"line"`
	Commit Commit    `json:"commit"`          // the commit that last changed the entry
	Author string    `json:"author"`          // the commit's author, "Name <email>"
	Time   time.Time `json:"time"`            // the commit's author date
	Proof  string    `json:"proof,omitempty"` // see [ProofKey]
}

// A Document is the settings of one peel.
type Document struct {
	V          int           `json:"v"`
	Peel       target.PeelID `json:"peel"`
	Commit     Commit        `json:"commit"`     // the revision that was in force at the write
	Generation uint64        `json:"generation"` // grows with every write: max(last + 1, wall clock in ms)
	Digest     Digest        `json:"digest"`
	Settings   canon.Raw     `json:"settings"`         // a canonical map, with secrets masked
	Sealed     *Sealed       `json:"sealed,omitempty"` // the settings with their secrets, nil if there are none
	// by schedule entry, and by [StateOrigin] and the name of a state
	Origins map[string]Origin `json:"origins,omitempty"`
	// the ID of the [ProofKey] of the origins' proofs; empty without proofs
	ProvenBy string `json:"proven_by,omitempty"`
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

// A DecodeError says that the stored bytes are not a valid document of a peel.
type DecodeError struct {
	Peel target.PeelID
	Err  error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("cannot read the settings of %s: %v", e.Peel, e.Err)
}

// Unwrap returns the reason.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode decodes the document of a peel and checks its peel, schema version and digest. The result shares no memory
// with data. The error is a [*DecodeError].
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

// SealedTo returns the key that opens the document's secrets, empty if it has none.
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

// Entries returns the sorted names of the schedule entries.
func (d *Document) Entries() ([]string, error) {
	var values struct {
		Schedule map[string]canon.Raw `json:"schedule"`
	}
	if err := canon.Unmarshal(d.Settings, &values); err != nil {
		return nil, fmt.Errorf("cannot read the schedule of %s: %w", d.Peel, err)
	}
	return slices.Sorted(maps.Keys(values.Schedule)), nil
}

// NextGeneration returns the generation of a document that is written at now and replaces one of the generation last:
// the wall clock in milliseconds, or last + 1 if the clock is behind. Milliseconds keep documents in order even if the
// bucket is created again.
func NextGeneration(last uint64, now time.Time) uint64 {
	return max(last+1, uint64(max(0, now.UnixMilli())))
}
