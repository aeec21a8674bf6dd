// Package sopstest writes SOPS files for tests. Call [New], then [Writer.Encrypt].
//
// The program `sops` reads these files: that was tried by hand, as tests do not have the program.
package sopstest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"gopkg.in/yaml.v3"
)

// A Writer encrypts to one identity.
type Writer struct {
	// Identities is the file with the identity.
	Identities string

	t        testing.TB
	identity *age.X25519Identity
	dataKey  []byte
}

// New creates an identity and a data key, which all files of the writer share.
func New(t testing.TB) *Writer {
	t.Helper()
	w := &Writer{Identities: filepath.Join(t.TempDir(), "identities"), t: t, dataKey: make([]byte, 32)}
	_, _ = rand.Read(w.dataKey)
	var err error
	if w.identity, err = age.GenerateX25519Identity(); err == nil {
		err = os.WriteFile(w.Identities, []byte(w.identity.String()+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const changed = "2026-01-01T00:00:00Z"

// Encrypt encrypts the strings of a YAML document under keys that match an expression.
func (w *Writer) Encrypt(keys, text string) string {
	w.t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		w.t.Fatal(err)
	}
	mac := sha512.New()
	w.walk(doc.Content[0], nil, regexp.MustCompile(keys), mac)
	var metadata yaml.Node
	if err := metadata.Encode(map[string]any{
		"age":             []any{map[string]any{"recipient": w.identity.Recipient().String(), "enc": w.stanza()}},
		"encrypted_regex": keys, "lastmodified": changed, "version": "3.13.3",
		"mac": w.seal(fmt.Sprintf("%X", mac.Sum(nil)), changed),
	}); err != nil {
		w.t.Fatal(err)
	}
	doc.Content[0].Content = append(doc.Content[0].Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "sops"}, &metadata)
	out, err := yaml.Marshal(&doc)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

func (w *Writer) walk(n *yaml.Node, path []string, keys *regexp.Regexp, mac hash.Hash) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			w.walk(n.Content[i+1], append(path, n.Content[i].Value), keys, mac)
		}
	case yaml.SequenceNode:
		for _, e := range n.Content {
			w.walk(e, path, keys, mac)
		}
	case yaml.ScalarNode:
		text := n.Value
		if n.ShortTag() == "!!bool" {
			text = strings.ToUpper(text[:1]) + text[1:] // "True", as in Python, in which sops was first written
		}
		_, _ = io.WriteString(mac, text)
		if slices.ContainsFunc(path, keys.MatchString) {
			n.SetString(w.seal(n.Value, strings.Join(path, ":")+":"))
		}
	}
}

func (w *Writer) seal(text, bound string) string {
	block, err := aes.NewCipher(w.dataKey)
	if err != nil {
		w.t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, 32)
	if err != nil {
		w.t.Fatal(err)
	}
	iv := sha256.Sum256([]byte(bound + text)) // an unchanged value keeps its encrypted text, as with sops
	out := aead.Seal(nil, iv[:], []byte(text), []byte(bound))
	data, tag := out[:len(text)], out[len(text):]
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("ENC[AES256_GCM,data:%s,iv:%s,tag:%s,type:str]", encode(data), encode(iv[:]), encode(tag))
}

func (w *Writer) stanza() string {
	var out bytes.Buffer
	armored := armor.NewWriter(&out)
	plain, err := age.Encrypt(armored, w.identity.Recipient())
	if err == nil {
		_, err = plain.Write(w.dataKey)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := plain.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := armored.Close(); err != nil {
		w.t.Fatal(err)
	}
	return out.String()
}
