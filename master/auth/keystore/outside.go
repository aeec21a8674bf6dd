package keystore

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// A Signer is a program that signs with keys which are not in the folder: of a KMS, an HSM, an agent. It is run for
// each signature, with the name of the key, such as signer-operator, in the variable [SignerVariable]. It gets the
// bytes in base64 as a line of its standard input, and prints the Ed25519 signature in base64 as a line.
//
// In place of the seed of such a key the folder has its public half, as PEM, in a file with the ending .pub. A
// signature that this does not verify is an error, as is a program that fails. Nothing else signs then.
type Signer struct {
	Command []string // program and arguments
}

// SignerVariable names the key for the program of a [Signer].
const SignerVariable = "ZESTER_KEY"

const (
	seedSuffix   = ".nk"
	publicSuffix = ".pub"
	signTime     = 10 * time.Second
	maxSignature = 4 << 10 // bytes of output, and of what the program says about a failure
	maxReason    = 300     // bytes of that in an error
)

// An outside is a key whose secret half a [Signer] has.
type outside struct {
	nkeys.KeyPair // the public half
	name          string
	by            *Signer
}

// Sign has the program sign.
func (o *outside) Sign(input []byte) ([]byte, error) {
	if o.by == nil || len(o.by.Command) == 0 {
		return nil, fmt.Errorf("the key %s is not in the folder: only a master whose master.yaml has keys.signer "+
			"signs with it", o.name)
	}
	signature, err := o.by.sign(o.name, input)
	if err == nil && o.Verify(input, signature) != nil {
		err = errors.New("the signature is not of this key")
	}
	if err != nil {
		return nil, fmt.Errorf("keys.signer: %s cannot sign with the key %s: %w", o.by.Command[0], o.name, err)
	}
	return signature, nil
}

// bounded refuses what is too long. The program then cannot write more.
type bounded struct{ bytes.Buffer }

// Write keeps what fits.
func (b *bounded) Write(p []byte) (int, error) {
	n, _ := b.Buffer.Write(p[:min(len(p), maxSignature-b.Len())])
	if n < len(p) {
		return n, fmt.Errorf("it printed more than %d bytes", maxSignature)
	}
	return n, nil
}

func (s *Signer) sign(name string, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), signTime)
	defer cancel()
	var out, reason bounded
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Env = append(os.Environ(), SignerVariable+"="+name)
	cmd.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString(input) + "\n")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &reason, time.Second
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it took more than %v", signTime)
	case err != nil:
		said := strings.TrimSpace(reason.String())
		return nil, fmt.Errorf("%w: %s", err, said[:min(len(said), maxReason)])
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(out.String()))
	if err != nil || len(signature) != ed25519.SignatureSize {
		return nil, errors.New("it printed no Ed25519 signature in base64")
	}
	return signature, nil
}

// readOutside returns the key in a file with a public half. The folder has no seed of it.
func readOutside(root *os.Root, file string, kind nkeys.PrefixByte, by *Signer) (nkeys.KeyPair, error) {
	name := strings.TrimSuffix(file, seedSuffix)
	f, err := root.Open(name + publicSuffix)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSignature))
	if err != nil {
		return nil, err
	}
	wrong := fmt.Errorf("%s does not hold the public half of an Ed25519 key in PEM", name+publicSuffix)
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, wrong
	}
	any, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := any.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, wrong
	}
	encoded, err := nkeys.Encode(kind, public)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromPublicKey(string(encoded))
	return &outside{pair, name, by}, err
}

// isOutside reports whether the folder has the public half of a key alone. It is an error to have both: nobody could
// say which of them signs.
func isOutside(root *os.Root, file string) (bool, error) {
	public := strings.TrimSuffix(file, seedSuffix) + publicSuffix
	_, noPublic := root.Lstat(public)
	_, noSeed := root.Lstat(file)
	switch {
	case errors.Is(noPublic, fs.ErrNotExist):
		return false, nil
	case noPublic != nil:
		return false, noPublic
	case noSeed == nil:
		return false, fmt.Errorf("there are both %s and %s: remove the one that is not to sign", file, public)
	}
	return true, nil
}
