package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

const copied = 0xffffff // bytes that one instruction of a delta copies at most

// A packer writes objects one after another.
type packer struct {
	bytes.Buffer
	objects uint32
}

// add writes an object that says that it has size bytes, and returns its position.
func (p *packer) add(kind byte, size int, base, content []byte) (at int) {
	p.objects++
	at = headerSize + p.Len()
	b := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.WriteByte(b)
	p.Write(base)
	z := zlib.NewWriter(p)
	_, _ = z.Write(content)
	_ = z.Close()
	return at
}

// delta writes an object that copies the first bytes of the one at a position, so many times.
func (p *packer) delta(at, times int) int {
	back := headerSize + p.Len() - at
	base := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		base = append([]byte{byte(back&0x7f) | 0x80}, base...)
	}
	content := copies(times)
	return p.add(offsetDelta, len(content), base, content)
}

func copies(times int) []byte {
	content := binary.AppendUvarint(binary.AppendUvarint(nil, copied), uint64(times*copied))
	return append(content, bytes.Repeat([]byte{0xf0, 0xff, 0xff, 0xff}, times)...)
}

func (p *packer) pack() *bytes.Reader {
	all := append(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.objects), p.Bytes()...)
	sum := sha1.Sum(all)
	return bytes.NewReader(append(all, sum[:]...))
}

func TestAPackThatUnpacksToTooMuchIsRefused(t *testing.T) {
	zeros := make([]byte, copied)
	for name, c := range map[string]struct {
		write func(*packer)
		want  string // of the error, empty: it is accepted
		large bool
	}{
		"an object":               {func(p *packer) { p.add(3, copied, nil, zeros) }, "", false},
		"a huge object":           {func(p *packer) { p.add(3, maxObject+1, nil, zeros) }, "268435457 bytes, the limit is 268435456", true},
		"more than it says":       {func(p *packer) { p.add(3, 10, nil, zeros) }, "does not have the 10 bytes", false},
		"less than it says":       {func(p *packer) { p.add(3, copied+1, nil, zeros) }, "does not have the 16777216 bytes", false},
		"a delta":                 {func(p *packer) { p.delta(p.add(3, copied, nil, zeros), 16) }, "", false},
		"a delta of a delta":      {func(p *packer) { p.delta(p.delta(p.add(3, copied, nil, zeros), 15), 15) }, "", false},
		"a delta that unfolds":    {func(p *packer) { p.delta(p.add(3, copied, nil, zeros), 4000) }, "the limit is 268435456", true},
		"deltas that unfold":      {func(p *packer) { p.delta(p.delta(p.add(3, copied, nil, zeros), 16), 16) }, "with all objects that it is based on", true},
		"two of one base":         {func(p *packer) { at := p.add(3, copied, nil, zeros); p.delta(at, 16); p.delta(at, 16) }, "", false},
		"deltas of unknown bases": {func(p *packer) { p.named(16); p.named(16); p.named(1) }, "with all objects that it is based on", true},
		"a small delta of large":  {func(p *packer) { p.named(15); p.named(1) }, "", false},
		"no delta":                {func(p *packer) { p.add(nameDelta, 1, make([]byte, 20), []byte{0x80}) }, "it is no delta", false},
	} {
		t.Run(name, func(t *testing.T) {
			var p packer
			c.write(&p)
			err := CheckPack(p.pack())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrPackTooLarge) != c.large {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// named writes a delta of an object with a name.
func (p *packer) named(times int) {
	content := copies(times)
	p.add(nameDelta, len(content), make([]byte, 20), content)
}

func FuzzSizes(f *testing.F) {
	var p packer
	p.delta(p.add(3, 4, nil, []byte("base")), 1)
	p.named(1)
	f.Add(p.Bytes(), uint8(3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		if err := checkSizes(bytes.NewReader(data), uint32(n)); err == nil && len(data) < int(n)*objectSize {
			t.Errorf("%d objects in %d bytes", n, len(data))
		}
	})
}
