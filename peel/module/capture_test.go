package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"unicode/utf8"
)

func FuzzCapture(f *testing.F) {
	f.Add([]byte("hello"), 3, 2)
	f.Add([]byte("é日本"), 4, 1)
	f.Add([]byte{0xe6, 0x97, 0xff, 0}, 2, 3)
	f.Fuzz(func(t *testing.T, data []byte, limit, chunk int) {
		if limit < 1 || limit > 1<<20 || chunk < 1 {
			return
		}
		c := capture{limit: limit}
		for part := range slices.Chunk(data, chunk) {
			if n, err := c.Write(part); n != len(part) || err != nil {
				t.Fatalf("%d of %d, %v", n, len(part), err)
			}
		}
		s := c.stream()
		var kept []byte
		switch v := s.text.(type) {
		case string:
			kept = []byte(v)
		case []byte:
			kept = v
		}
		if s.bytes != int64(len(data)) || s.truncated != (len(data) > limit) || !bytes.HasPrefix(data, kept) {
			t.Errorf("%+v of %q", s, data)
		}
		if missing := min(len(data), limit) - len(kept); missing != 0 && (!s.truncated || missing >= utf8.UTFMax) {
			t.Errorf("%d bytes are missing of %q, limit %d", missing, data, limit)
		}
		if _, text := s.text.(string); text != utf8.Valid(kept) || utf8.Valid(data) && !text {
			t.Errorf("%q came as %T", data, s.text)
		}
		sum := sha256.Sum256(data)
		if s.truncated && s.digest != hex.EncodeToString(sum[:]) {
			t.Errorf("digest %s of %q", s.digest, data)
		}
	})
}
