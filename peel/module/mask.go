package module

import "io"

// A Secret is a text that must not leave the peel, and the text shown in its place. Plain is not empty.
type Secret struct {
	Plain, Shown string
	IsForm       bool // Plain is an encoded form of another secret
}

// A masker copies a stream and replaces secrets, also secrets that are split over several writes. It buffers bytes that
// may be the beginning of a secret until the next write or Close.
type masker struct {
	to      io.Writer
	secrets [256][]Secret // by their first byte; if two begin at the same byte, the first is replaced
	none    bool          // there are no secrets
	pending []byte
}

func newMasker(to io.Writer, secrets []Secret) *masker {
	m := &masker{to: to, none: len(secrets) == 0}
	for _, s := range secrets {
		m.secrets[s.Plain[0]] = append(m.secrets[s.Plain[0]], s)
	}
	return m
}

// Write accepts all of p.
func (m *masker) Write(p []byte) (int, error) {
	if m.none {
		return m.to.Write(p)
	}
	m.pending = append(m.pending, p...)
	return len(p), m.pass(false)
}

// Close writes the buffered bytes.
func (m *masker) Close() error { return m.pass(true) }

func (m *masker) pass(ended bool) error {
	rest := m.pending
	for len(rest) > 0 {
		n := m.plain(rest)
		shown := rest[:n]
		if n == 0 {
			if n, shown = m.match(rest, ended); n == 0 {
				break
			}
		}
		if _, err := m.to.Write(shown); err != nil {
			return err
		}
		rest = rest[n:]
	}
	m.pending = append(m.pending[:0], rest...)
	return nil
}

// plain returns the number of bytes at the beginning of b with which no secret begins.
func (m *masker) plain(b []byte) int {
	for n, c := range b {
		if m.secrets[c] != nil {
			return n
		}
	}
	return len(b)
}

// match returns the length of the secret at the beginning of b and the text shown in its place, or one byte if there is
// no secret. It returns 0 if b may be the beginning of a secret and the stream has not ended.
func (m *masker) match(b []byte, ended bool) (n int, shown []byte) {
	for _, s := range m.secrets[b[0]] {
		length := min(len(b), len(s.Plain))
		switch {
		case string(b[:length]) != s.Plain[:length]:
		case length == len(s.Plain):
			return length, []byte(s.Shown)
		case !ended:
			return 0, nil
		}
	}
	return 1, b[:1]
}
