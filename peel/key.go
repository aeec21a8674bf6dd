package peel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A key is the key pair that opens the secrets sealed to this peel.
type key struct {
	pair   nkeys.KeyPair
	public string
}

// openKey reads the peel's key from a file, or makes one if the file does not exist.
func openKey(file string) (*key, error) {
	seed, err := readKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = makeKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the key in %s: %w", file, err)
	}
	pair, err := nkeys.FromCurveSeed(seed)
	if err != nil {
		return nil, fmt.Errorf(
			"cannot use the key in %s: %w; remove it and start again: the peel makes another key, "+
				"which `zester peel rekey` approves",
			file, err,
		)
	}
	public, err := pair.PublicKey()
	return &key{pair, public}, err
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf(
			"its mode is %v: it is a secret and must be a file of mode 0600; if others may have read it, "+
				"remove it and start again",
			mode,
		)
	}
	return os.ReadFile(file)
}

func makeKey(file string) ([]byte, error) {
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return seed, renameio.WriteFile(file, seed, 0o600)
}

// open returns the settings of a document. Their values have placeholders for secrets, and the secrets beside them.
func (k *key) open(doc *settings.Document) (*strictyaml.Node, error) {
	shown, err := doc.Values()
	if err != nil || doc.Sealed == nil {
		return strictyaml.FromValue("settings", shown), err
	}
	raw, err := doc.Open(k.pair)
	if err != nil {
		return nil, err
	}
	plain := map[string]any{}
	if err := canon.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("cannot read the sealed settings of %s: %w", doc.Peel, err)
	}
	n, ok := strictyaml.FromSecret("settings", shown, plain)
	if !ok {
		return nil, fmt.Errorf("cannot use the settings of %s: the sealed values do not match the others", doc.Peel)
	}
	return n, nil
}
