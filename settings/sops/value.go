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

// envelope is the form of an encrypted value.
var envelope = regexp.MustCompile(`^ENC\[AES256_GCM,data:([^,]+),iv:([^,]+),tag:([^,]+),type:([a-z]+)\]$`)

const (
	dataKeySize = 32
	nonceSize   = 32
)

// cipherText opens values with the data key of a file.
type cipherText struct{ aead cipher.AEAD }

// newCipher takes a key of dataKeySize bytes, for which neither step fails.
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

// plain is a value that was encrypted: its text, and of which type it is.
type plain struct{ text, kind string }

var (
	errNotEncrypted = errors.New("it is not encrypted, though the file says that it is; write it with sops")
	errForged       = errors.New("cannot decrypt it: it was changed, or taken from another place or file")
)

// open decrypts a value that is bound to bound.
func (o *opener) open(text, bound string) (plain, error) {
	parts := envelope.FindStringSubmatch(text)
	if parts == nil {
		return plain{}, errNotEncrypted
	}
	var raw [3][]byte // data, iv, tag
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return plain{}, fmt.Errorf("cannot read what is encrypted: %w", err)
		}
	}
	if len(raw[1]) != nonceSize {
		return plain{}, fmt.Errorf("cannot read what is encrypted: its iv has %d bytes, not %d", len(raw[1]), nonceSize)
	}
	opened, err := o.aead.aead.Open(nil, raw[1], append(raw[0], raw[2]...), []byte(bound))
	if err != nil {
		return plain{}, errForged
	}
	return plain{string(opened), parts[4]}, nil
}

// value gives the text its type. The error does not show it.
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
		return nil, fmt.Errorf("its plain value is no %s", p.kind)
	}
	return v, nil
}

// A mac gathers what the message authentication code covers.
type mac struct{ hash hash.Hash }

// newMAC begins a code. That of encrypted values alone begins with the hash of the word sops, so that it is never that of
// a file where all values count.
func newMAC(onlyEncrypted bool) *mac {
	m := &mac{sha512.New()}
	if onlyEncrypted {
		sum := sha256.Sum256([]byte("sops"))
		m.hash.Write(sum[:])
	}
	return m
}

// add takes a value that is not encrypted into account, written as sops writes it.
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

// timestamp is how sops writes what YAML 1.1 takes for one.
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

// fingerprintKey is a key of its own, made from the data key.
func fingerprintKey(dataKey []byte) []byte {
	h := hmac.New(sha256.New, dataKey)
	_, _ = io.WriteString(h, "zester fingerprint")
	return h.Sum(nil)
}

// fingerprint names a secret at its place. Without a key it is made of what is public.
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
