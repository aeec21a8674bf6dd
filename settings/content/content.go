// Package content encrypts the contents of files that states name, so that they can lie in a bucket that every peel can
// read. A master calls [Seal] for each file of the config repo and stores the chunks of [Chunks]; a peel that has the
// [File] from its settings calls [Open].
//
// Guarantees:
//   - Equal contents give equal bytes and keys, so a content is stored once for all peels.
//   - Only a holder of the File can read its content. A key encrypts one content only.
//   - Open returns exactly the content that was sealed, or an error.
//
// Known gap: who knows a content can find out whether the bucket has it, unless it is sealed with a salt.
package content

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// Limits of contents in bytes.
const (
	MaxFile  = 8 << 20  // one file
	MaxPeel  = 64 << 20 // all files of one peel
	MaxAll   = 1 << 30  // all files of a revision
	MaxChunk = 512 << 10
)

// Bucket is the KV bucket with the chunks of sealed contents.
const Bucket = "files"

// A File describes a content: how to find it in the bucket and how to open it. Documents carry it.
type File struct {
	SHA256 string `json:"sha256"` // of the content, hex
	Size   int64  `json:"size"`   // of the content, bytes
	Mode   string `json:"mode"`   // in the repo: "0644" or "0755"
	Blob   string `json:"blob"`   // the SHA-256 of the sealed content, hex
	Key    string `json:"key"`    // opens the sealed content; 32 bytes in hex
}

// publicSalt is the salt of contents that everybody with access to the repo can read.
const publicSalt = "zester content 1"

// Seal encrypts a content. The salt of a secret content is a secret that belongs to its file, such as the data key of
// sops; other contents have none. The File has no mode.
func Seal(plain, salt []byte) (f File, sealed []byte) {
	if salt == nil {
		salt = []byte(publicSalt)
	}
	mac := hmac.New(sha256.New, salt)
	mac.Write(plain)
	key := mac.Sum(nil)
	aead := newAEAD(key)
	sealed = aead.Seal(nil, make([]byte, aead.NonceSize()), plain, nil) // the key encrypts this content alone
	return File{SHA256: sum(plain), Size: int64(len(plain)), Blob: sum(sealed), Key: hex.EncodeToString(key)}, sealed
}

// Open decrypts a sealed content and checks that it is the one that f describes.
func Open(f File, sealed []byte) ([]byte, error) {
	key, err := hex.DecodeString(f.Key)
	if err != nil || len(key) != sha256.Size {
		return nil, errors.New("the key of the content is not 32 bytes in hex")
	}
	if sum(sealed) != f.Blob {
		return nil, errors.New("the sealed content has another hash than the settings say")
	}
	aead := newAEAD(key)
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed, nil)
	if err != nil {
		return nil, errors.New("the key in the settings does not open the content")
	}
	if int64(len(plain)) != f.Size || sum(plain) != f.SHA256 {
		return nil, errors.New("the content has another hash or size than the settings say")
	}
	return plain, nil
}

// Check returns an error if f cannot be of a sealed content.
func (f File) Check() error {
	for _, h := range []struct{ name, hex string }{{"sha256", f.SHA256}, {"blob", f.Blob}, {"key", f.Key}} {
		if b, err := hex.DecodeString(h.hex); err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != h.hex {
			return fmt.Errorf("%s is not 32 bytes in lower-case hex", h.name)
		}
	}
	if f.Size < 0 || f.Size > MaxFile {
		return fmt.Errorf("size is %d; the limit is %d bytes", f.Size, int64(MaxFile))
	}
	if f.Mode != "0644" && f.Mode != "0755" {
		return fmt.Errorf("mode is %q, not 0644 or 0755", f.Mode)
	}
	return nil
}

// SealedSize returns the size of the sealed content in bytes.
func (f File) SealedSize() int64 { return f.Size + gcmOverhead }

// Chunks returns the keys of the sealed content in the bucket, in order. Each has MaxChunk bytes, the last one the
// rest.
func (f File) Chunks() []string {
	keys := make([]string, 0, (f.SealedSize()+MaxChunk-1)/MaxChunk)
	for n := range cap(keys) {
		keys = append(keys, f.Blob+"."+strconv.Itoa(n))
	}
	return keys
}

const gcmOverhead = 16 // bytes

func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
