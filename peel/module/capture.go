package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
	"unicode/utf8"
)

// A capture keeps the first limit bytes of a stream, and counts and digests all bytes.
type capture struct {
	limit int

	mu    sync.Mutex
	head  []byte
	total int64
	sum   hash.Hash // of all bytes so far; nil while head has all of them
}

// Write always accepts all of p, so that the command never blocks.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	kept := min(len(p), c.limit-len(c.head))
	if kept < len(p) && c.sum == nil {
		c.sum = sha256.New()
		c.sum.Write(c.head)
		c.sum.Write(p[:kept])
	}
	if c.sum != nil {
		c.sum.Write(p[kept:])
	}
	c.head = append(c.head, p[:kept]...)
	return len(p), nil
}

// stream is the part of a result for one stream.
type stream struct {
	text      any    // string if it is valid UTF-8, else []byte
	bytes     int64  // of the whole stream
	truncated bool   // text is only the beginning
	digest    string // SHA-256 of the whole stream in hexadecimal, if truncated
}

func (c *capture) stream() stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := bytes.Clone(c.head)
	s := stream{bytes: c.total, truncated: c.sum != nil}
	if s.truncated {
		s.digest = hex.EncodeToString(c.sum.Sum(nil))
		head = head[:len(head)-torn(head)]
	}
	s.text = head
	if utf8.Valid(head) {
		s.text = string(head)
	}
	return s
}

// torn returns the number of bytes at the end of b that are the beginning of a truncated character.
func torn(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
