package settings

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxClaim bounds each text of a [Claim] in bytes.
const MaxClaim = 512

// A Claim is the origin of an entry in the report of a scheduled run.
type Claim struct {
	Commit string // that last changed the entry
	File   string // file:line of the entry at that commit
	Author string // of that commit
}

// Claim returns the origin in the form of reports, with texts cut to [MaxClaim]. It is zero for the zero Origin.
func (o Origin) Claim() Claim {
	c := Claim{Commit: string(o.Commit), Author: cutText(o.Author)}
	if o.File != "" {
		c.File = cutText(fmt.Sprintf("%s:%d", o.File, o.Line))
	}
	return c
}

func cutText(text string) string {
	if len(text) <= MaxClaim {
		return text
	}
	return strings.ToValidUTF8(text[:MaxClaim-len("…")], "") + "…"
}

// A ProofKey proves the origin of an entry. The reconciler puts the proofs into documents, peels return them in reports, and
// masters verify them, so that a peel cannot name an author who wrote nothing for it. The key is in a bucket that only
// masters can read.
type ProofKey [32]byte

const proofKeyName = "origin.key"

// LoadProofKey reads the key from the rollout bucket, and makes one if there is none.
func LoadProofKey(ctx context.Context, rollout jetstream.KeyValue) (key ProofKey, err error) {
	entry, err := rollout.Get(ctx, proofKeyName)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		rand.Read(key[:])
		if _, err = rollout.Create(ctx, proofKeyName, key[:]); err == nil {
			return key, nil
		}
		if errors.Is(err, jetstream.ErrKeyExists) {
			entry, err = rollout.Get(ctx, proofKeyName)
		}
	}
	if err == nil && len(entry.Value()) != len(key) {
		err = fmt.Errorf("it has %d bytes, want %d", len(entry.Value()), len(key))
	}
	if err != nil {
		return ProofKey{}, fmt.Errorf("cannot read the key that proves origins: %w", err)
	}
	return ProofKey(entry.Value()), nil
}

// ID identifies the key without revealing it.
func (k *ProofKey) ID() string {
	sum := sha256.Sum256(k[:])
	return hex.EncodeToString(sum[:4])
}

// Prove returns the proof that an entry with this origin was given to a peel.
func (k *ProofKey) Prove(peel target.PeelID, entry string, c Claim) string {
	claimed := make([]byte, 0, 256)
	for _, text := range [...]string{string(peel), entry, c.Commit, c.File, c.Author} {
		claimed = binary.BigEndian.AppendUint32(claimed, uint32(len(text)))
		claimed = append(claimed, text...)
	}
	h := hmac.New(sha256.New, k[:])
	h.Write(claimed)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Proves reports whether a proof is the one that Prove returns.
func (k *ProofKey) Proves(proof string, peel target.PeelID, entry string, c Claim) bool {
	return hmac.Equal([]byte(proof), []byte(k.Prove(peel, entry, c)))
}

// ProveOrigins adds the proofs to the document's origins. The map is the document's own afterwards.
func (d *Document) ProveOrigins(key *ProofKey) {
	proven := make(map[string]Origin, len(d.Origins))
	for entry, o := range d.Origins {
		o.Proof = key.Prove(d.Peel, entry, o.Claim())
		proven[entry] = o
	}
	d.Origins, d.ProvenBy = proven, key.ID()
}
