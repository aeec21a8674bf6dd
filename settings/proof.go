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

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxClaim is the size limit of each text of a [Claim] in bytes.
const MaxClaim = 512

// A Claim is the origin of an entry in the report of a scheduled run.
type Claim struct {
	Commit string // the commit that last changed the entry
	File   string // file:line of the entry at that commit
	Author string // the commit's author
	Ran    string // what the entry runs, see [Ran]
}

// Claim returns the origin for a report, with texts truncated to [MaxClaim] and without Ran. It is zero for the zero
// Origin.
func (o Origin) Claim() Claim {
	c := Claim{Commit: string(o.Commit), Author: cutText(o.Author)}
	if o.File != "" {
		c.File = cutText(fmt.Sprintf("%s:%d", o.File, o.Line))
	}
	return c
}

// Ran identifies a function with arguments, as an entry has them without its secrets. Only calls that are equal have an
// equal text.
func Ran(function string, args map[string]any) string {
	if args == nil {
		args = map[string]any{}
	}
	data, err := canon.Marshal(args)
	if err != nil {
		return "" // no claim has it
	}
	sum := sha256.Sum256(data)
	return function + ":" + hex.EncodeToString(sum[:16])
}

// Runs reports whether the claim is about a call of a function with arguments. Without arguments it is also about a
// call that has some, because a peel that was restarted during a run does not know them.
func (c *Claim) Runs(function string, args map[string]any) bool {
	if len(args) > 0 {
		return c.Ran == Ran(function, args)
	}
	claimed, _, found := strings.Cut(c.Ran, ":")
	return found && claimed == function
}

// RanBy returns what the schedule entries of a document's settings run, by name. It leaves out entries that cannot be
// read.
func RanBy(settings canon.Raw) (map[string]string, error) {
	var values struct {
		Schedule map[string]any `json:"schedule"`
	}
	if err := canon.Unmarshal(settings, &values); err != nil {
		return nil, fmt.Errorf("cannot read the schedule: %w", err)
	}
	ran := make(map[string]string, len(values.Schedule))
	for name, fields := range values.Schedule {
		if e, err := schedule.ParseEntry(name, strictyaml.FromValue("settings", fields)); err == nil {
			ran[name] = Ran(e.Module, e.Args)
		}
	}
	return ran, nil
}

func cutText(text string) string {
	if len(text) <= MaxClaim {
		return text
	}
	return strings.ToValidUTF8(text[:MaxClaim-len("…")], "") + "…"
}

// A ProofKey proves the origin of an entry. The reconciler puts proofs into documents, peels return them in reports,
// and masters verify them, so a peel cannot report an author for anything but the entry that the author wrote. The key
// is in a bucket that only masters can read.
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
	for _, text := range [...]string{string(peel), entry, c.Commit, c.File, c.Author, c.Ran} {
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

// ProveOrigins adds proofs to the document's origins; ran is of [RanBy]. It replaces the map, which other documents may
// share.
func (d *Document) ProveOrigins(key *ProofKey, ran map[string]string) {
	proven := make(map[string]Origin, len(d.Origins))
	for entry, o := range d.Origins {
		c := o.Claim()
		c.Ran = ran[entry]
		o.Proof = key.Prove(d.Peel, entry, c)
		proven[entry] = o
	}
	d.Origins, d.ProvenBy = proven, key.ID()
}
