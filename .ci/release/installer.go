package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
)

// publicKey is one line of ssh-keygen with a public key: its type, which may be that of a security key, and its bytes.
var publicKey = regexp.MustCompile(`^((?:sk-)?ssh-ed25519(?:@openssh\.com)? [A-Za-z0-9+/]+={0,2})(?: [^\n]*)?\n?$`)

// noSigner is where install.sh has the public key of the releases.
const noSigner = "signer=''"

// printInstaller prints install.sh with the public key of the releases. Without a file with that key install.sh stays as it
// is, and asks for one.
func printInstaller(w io.Writer, script, keyFile string) error {
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	if bytes.Count(text, []byte(noSigner)) != 1 {
		return fmt.Errorf("%s has no place for the key", script)
	}
	key, err := os.ReadFile(keyFile)
	switch found := publicKey.FindSubmatch(key); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case found == nil:
		return fmt.Errorf("%s is no public key of ssh-keygen with Ed25519", keyFile)
	default:
		text = bytes.Replace(text, []byte(noSigner), fmt.Appendf(nil, "signer='%s'", found[1]), 1)
	}
	_, err = w.Write(text)
	return err
}
