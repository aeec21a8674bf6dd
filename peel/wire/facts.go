package wire

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of one peel's facts.
const (
	MaxFactsSize  = 256 << 10 // bytes of the message
	MaxFacts      = 5_000     // scalars, maps and lists together
	MaxFactsDepth = 16
	MaxFactName   = 256 // bytes
)

// KeyProof returns the bytes that a peel signs to prove that a sealing key is its own. The first byte occurs in no
// UTF-8 text: a server chooses the text that its clients sign when they connect, and must not be able to choose these
// bytes.
func KeyProof(peel target.PeelID, key string) []byte {
	return []byte("\xffzester sealing key 1\n" + string(peel) + "\n" + key + "\n")
}

// Signer returns the public nkey, of those given, that signed the sealing key in the facts, "" if none did.
func (f Facts) Signer(keys []string) string {
	for _, public := range keys {
		if key, err := nkeys.FromPublicKey(public); err == nil && key.Verify(KeyProof(f.Peel, f.Key), f.Proof) == nil {
			return public
		}
	}
	return ""
}

// SignatureSize is the length of an nkey's signature in bytes.
const SignatureSize = 64

// keySize is the length of a public key in its text form.
const keySize = 56

// Encode returns the message. The error names the limit that the facts exceed, for which masters would refuse them.
func (f Facts) Encode() ([]byte, error) {
	data, err := canon.Marshal(f)
	if err == nil {
		err = f.check(len(data))
	}
	return data, err
}

// DecodeFacts decodes a peel's facts and checks their limits.
func DecodeFacts(msg *nats.Msg) (Facts, error) {
	var f Facts
	if len(msg.Data) > MaxFactsSize {
		return f, fmt.Errorf("cannot accept %s: %w", msg.Subject, f.check(len(msg.Data)))
	}
	err := Decode(msg, &f)
	if err == nil {
		err = CheckPeel(msg.Subject, f.Peel, f.V)
	}
	if err != nil {
		return f, err
	}
	if err := f.check(len(msg.Data)); err != nil {
		return f, fmt.Errorf("cannot accept %s: %w", msg.Subject, err)
	}
	return f, nil
}

func (f Facts) check(size int) error {
	if size > MaxFactsSize {
		return fmt.Errorf("%d bytes of facts, the limit is %d", size, MaxFactsSize)
	}
	if f.Key != "" && (len(f.Key) != keySize || !nkeys.IsValidPublicCurveKey(f.Key)) {
		return fmt.Errorf("%.60q is no public X25519 key", f.Key)
	}
	if len(f.Proof) != 0 && len(f.Proof) != SignatureSize {
		return fmt.Errorf("the proof of the sealing key has %d bytes, want %d", len(f.Proof), SignatureSize)
	}
	values := MaxFacts
	return measure(f.Facts, MaxFactsDepth, &values)
}

// measure subtracts the number of values in v from values. It fails if that or depth gets below zero.
func measure(v any, depth int, values *int) error {
	if depth < 0 {
		return fmt.Errorf("facts are nested deeper than %d", MaxFactsDepth)
	}
	if *values--; *values < 0 {
		return fmt.Errorf("more than %d facts", MaxFacts)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			if len(k) > MaxFactName {
				return fmt.Errorf("fact %.32q… has a name of %d bytes, the limit is %d", k, len(k), MaxFactName)
			}
			if err := measure(c, depth-1, values); err != nil {
				return err
			}
		}
	case []any:
		for _, c := range v {
			if err := measure(c, depth-1, values); err != nil {
				return err
			}
		}
	}
	return nil
}
