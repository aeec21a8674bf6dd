package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"strings"
	"testing"
)

func TestPackThatClaimsMoreObjectsThanItHoldsIsRefused(t *testing.T) {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 1<<31)
	pack = append(pack, make([]byte, 100)...)
	sum := sha1.Sum(pack)
	pack = append(pack, sum[:]...)
	if err := CheckPack(bytes.NewReader(pack)); err == nil || !strings.Contains(err.Error(), "2147483648") {
		t.Errorf("error is %v", err)
	}
}

func FuzzCheckPack(f *testing.F) {
	empty := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := sha1.Sum(empty)
	f.Add(append(empty, sum[:]...))
	f.Add([]byte("PACK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := CheckPack(bytes.NewReader(data))
		if err == nil && (len(data) < headerSize+sha1.Size || !bytes.HasPrefix(data, []byte("PACK"))) {
			t.Errorf("%q is accepted", data)
		}
	})
}
