package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// envelope matches an encrypted value.
var envelope = regexp.MustCompile(`^ENC\[AES256_GCM,data:([^,]+),iv:([^,]+),tag:([^,]+),type:([a-z]+)\]$`)

const (
	dataKeySize = 32
	nonceSize   = 32
)

// cipherText decrypts values with the data key of a file.
type cipherText struct{ aead cipher.AEAD }

// newCipher returns the cipher of a key with dataKeySize bytes; neither call fails with such a key.
func newCipher(key []byte) *cipherText {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithNonceSize(block, nonceSize)
	if err != nil {
		panic(err)
	}
	return &cipherText{aead}
}

// plain is a decrypted value: its text and its type.
type plain struct{ text, kind string }

var (
	errNotEncrypted = errors.New("it is not encrypted, but the rule of the file requires it; write it with sops")
	errForged       = errors.New("cannot decrypt it: it was changed, or copied from another key or file")
)

// open decrypts a value. bound is its additional authenticated data.
func (o *opener) open(text, bound string) (plain, error) {
	parts := envelope.FindStringSubmatch(text)
	if parts == nil {
		return plain{}, errNotEncrypted
	}
	var raw [3][]byte // data, iv, tag
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return plain{}, fmt.Errorf("cannot decode the encrypted value: %w", err)
		}
	}
	if len(raw[1]) != nonceSize {
		return plain{}, fmt.Errorf("cannot decode the encrypted value: its iv has %d bytes, not %d", len(raw[1]),
			nonceSize)
	}
	opened, err := o.aead.aead.Open(nil, raw[1], append(raw[0], raw[2]...), []byte(bound))
	if err != nil {
		return plain{}, errForged
	}
	return plain{string(opened), parts[4]}, nil
}

// value returns the value with its type. The error does not contain the text.
func (p plain) value() (v any, err error) {
	switch p.kind {
	case "str", "bytes":
		if !utf8.ValidString(p.text) {
			return nil, errors.New("its plain value is not UTF-8")
		}
		v = p.text
	case "int":
		v, err = strconv.ParseInt(p.text, 10, 64)
	case "float":
		var f float64
		if f, err = strconv.ParseFloat(p.text, 64); math.IsInf(f, 0) || math.IsNaN(f) {
			err = strconv.ErrRange
		}
		v = f
	case "bool":
		v, err = strconv.ParseBool(p.text)
	case "time":
		v = p.text
		_, err = time.Parse(time.RFC3339, p.text)
	default:
		return nil, fmt.Errorf("its type %q is unknown", p.kind)
	}
	if err != nil {
		return nil, fmt.Errorf("its plain value is not of type %s", p.kind)
	}
	return v, nil
}

// A mac computes the message authentication code of a file.
type mac struct{ hash hash.Hash }

// newMAC returns an empty mac. If only encrypted values count, the code begins with the hash of the word sops, so it is
// never equal to the code of a file in which all values count.
func newMAC(onlyEncrypted bool) *mac {
	m := &mac{sha512.New()}
	if onlyEncrypted {
		sum := sha256.Sum256([]byte("sops"))
		m.hash.Write(sum[:])
	}
	return m
}

// add adds a value that is not encrypted, in the form in which sops writes it.
func (m *mac) add(n *strictyaml.Node) {
	var text string
	switch v := n.Value.(type) {
	case bool:
		text = strings.ToUpper(strconv.FormatBool(v)[:1]) + strconv.FormatBool(v)[1:]
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		text = v
		if n.Timestamp {
			text = timestamp(v)
		}
	}
	_, _ = io.WriteString(m.hash, text)
}

// timestamp returns a timestamp of YAML 1.1 in the form in which sops writes it.
func timestamp(text string) string {
	var v any
	if yaml.Unmarshal([]byte(text), &v) == nil {
		if t, ok := v.(time.Time); ok {
			if formal, err := t.MarshalText(); err == nil {
				return string(formal)
			}
		}
	}
	return text
}

func (m *mac) addText(text string) { _, _ = io.WriteString(m.hash, text) }

func (m *mac) equals(stored string) bool {
	sum := fmt.Sprintf("%X", m.hash.Sum(nil))
	return subtle.ConstantTimeCompare([]byte(sum), []byte(stored)) == 1
}

// fingerprintKey returns the key of fingerprints, derived from the data key.
func fingerprintKey(dataKey []byte) []byte {
	h := hmac.New(sha256.New, dataKey)
	_, _ = io.WriteString(h, "zester fingerprint")
	return h.Sum(nil)
}

// fingerprint returns the masked text of a secret: Shown and a digest of parts. If key is nil, the digest is not keyed,
// and the parts must be public.
func fingerprint(key []byte, parts ...string) string {
	h := sha256.New()
	if key != nil {
		h = hmac.New(sha256.New, key)
	}
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return Shown + hex.EncodeToString(h.Sum(nil)[:8])
}
