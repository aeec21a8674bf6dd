package settings

import (
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Key is the public X25519 key of a peel, in the text form of NATS ("X…"). Only the peel can open what is sealed to
// it.
type Key string

// KeySize is the length of a [Key] in characters.
const KeySize = 56

// ErrOtherKey: a document is sealed to another key than the peel's.
var ErrOtherKey = errors.New("masters know another key of this peel")

// SealOverhead is the highest number of bytes by which a box is longer than its settings.
const SealOverhead = 512

// ParseKey checks the key that a peel reports.
func ParseKey(text string) (Key, error) {
	if len(text) != KeySize || !nkeys.IsValidPublicCurveKey(text) {
		return "", fmt.Errorf("cannot use %.60q as the key of a peel: want a public X25519 key, X and %d characters",
			text, KeySize-1)
	}
	return Key(text), nil
}

// Sealed are settings that only one peel can read.
type Sealed struct {
	To   Key    `json:"to"`
	From Key    `json:"from"` // key of the [Sealer]
	Box  []byte `json:"box"`
}

func (s *Sealed) check() error {
	for _, key := range []Key{s.To, s.From} {
		if _, err := ParseKey(string(key)); err != nil {
			return err
		}
	}
	return nil
}

// content is the content of a box. It names the peel and the document, so a box cannot be moved to another document.
type content struct {
	Peel     target.PeelID `json:"peel"`
	Digest   Digest        `json:"digest"`
	Settings canon.Raw     `json:"settings"`
}

// A Sealer seals documents with a key pair that is never stored. Its methods may be called from several goroutines.
type Sealer struct {
	pair nkeys.KeyPair
	from Key
}

// NewSealer returns a Sealer with a new key pair.
func NewSealer() (*Sealer, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, fmt.Errorf("cannot create a key to seal settings: %w", err)
	}
	from, err := pair.PublicKey()
	return &Sealer{pair, Key(from)}, err
}

// Seal adds plain, the canonical settings with their secrets, to the document d, whose Settings have secrets masked.
func (s *Sealer) Seal(d *Document, plain canon.Raw, to Key) error {
	data, err := canon.Marshal(content{Peel: d.Peel, Digest: d.Digest, Settings: plain})
	if err == nil {
		data, err = s.pair.Seal(data, string(to))
	}
	if err != nil {
		return fmt.Errorf("cannot seal the settings of %s: %w", d.Peel, err)
	}
	d.V, d.Sealed = Version, &Sealed{To: to, From: s.from, Box: data}
	return nil
}

// Open returns the canonical settings of a sealed document with their secrets. opener is the key pair of the peel.
func (d *Document) Open(opener nkeys.KeyPair) (canon.Raw, error) {
	plain, err := d.open(opener)
	if err != nil {
		return nil, fmt.Errorf("cannot open the sealed settings of %s: %w", d.Peel, err)
	}
	return plain, nil
}

func (d *Document) open(opener nkeys.KeyPair) (canon.Raw, error) {
	own, err := opener.PublicKey()
	if err != nil {
		return nil, err
	}
	if string(d.Sealed.To) != own {
		return nil, fmt.Errorf("%w: they are sealed to the key %.60s, and this peel's is %s", ErrOtherKey, d.Sealed.To,
			own)
	}
	data, err := opener.Open(d.Sealed.Box, string(d.Sealed.From))
	if err != nil {
		return nil, err
	}
	var c content
	if err := canon.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Peel != d.Peel || c.Digest != d.Digest {
		return nil, errors.New("the sealed settings belong to another document")
	}
	return c.Settings, nil
}

// SealValue seals a value, of a type that package canon decodes, to the owner of a key.
func SealValue(v any, to Key, sealer nkeys.KeyPair) (*Sealed, error) {
	from, err := sealer.PublicKey()
	if err != nil {
		return nil, err
	}
	data, err := canon.Marshal(v)
	if err == nil {
		data, err = sealer.Seal(data, string(to))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot seal a value to %s: %w", to, err)
	}
	return &Sealed{To: to, From: Key(from), Box: data}, nil
}

// An Opener opens values that are sealed to its key, which is never stored.
type Opener struct {
	pair nkeys.KeyPair
	To   Key
}

// NewOpener returns an Opener with a new key pair.
func NewOpener() (*Opener, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, fmt.Errorf("cannot create a key to open sealed values: %w", err)
	}
	to, err := pair.PublicKey()
	return &Opener{pair, Key(to)}, err
}

// Open returns a value that [SealValue] has sealed.
func (o *Opener) Open(s *Sealed) (v any, err error) {
	data, err := o.pair.Open(s.Box, string(s.From))
	if err == nil {
		err = canon.Unmarshal(data, &v)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open a value that is sealed to %.60s: %w", s.To, err)
	}
	return v, nil
}
