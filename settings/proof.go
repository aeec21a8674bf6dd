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

// MaxClaim is the size limit of each text of a [Claim] in bytes.
const MaxClaim = 512

// A Claim is the origin of an entry in the report of a scheduled run.
type Claim struct {
	Commit string // the commit that last changed the entry
	File   string // file:line of the entry at that commit
	Author string // the commit's author
}

// Claim returns the origin for a report, with texts truncated to [MaxClaim]. It is zero for the zero Origin.
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

// A ProofKey proves the origin of an entry. The reconciler puts proofs into documents, peels return them in reports, and
// masters verify them, so a peel cannot report an author who did not write the entry. The key is in a bucket that only
// masters can read.
type ProofKey [32]byte

const proofKeyName = "origin.key"

// LoadProofKey returns the key in the rollout bucket, and creates it if there is none.
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

// Prove returns the proof that an entry with this origin was published to a peel.
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

// Proves reports whether proof is the result of [ProofKey.Prove] for the same arguments.
func (k *ProofKey) Proves(proof string, peel target.PeelID, entry string, c Claim) bool {
	return hmac.Equal([]byte(proof), []byte(k.Prove(peel, entry, c)))
}

// ProveOrigins adds proofs to the document's origins. It replaces the map, which other documents may share.
func (d *Document) ProveOrigins(key *ProofKey) {
	proven := make(map[string]Origin, len(d.Origins))
	for entry, o := range d.Origins {
		o.Proof = key.Prove(d.Peel, entry, o.Claim())
		proven[entry] = o
	}
	d.Origins, d.ProvenBy = proven, key.ID()
}
