package remote

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// hungUp is the input of a server that has answered and hung up.
type hungUp struct{ bytes.Buffer }

func (*hungUp) Close() error { return io.EOF }

func TestAServerMayHangUpBeforeTheRequestIsOver(t *testing.T) {
	var to hungUp
	answer, err := sendTo(&to, strings.NewReader("answer"))([]byte("request"))
	if err != nil || to.String() != "request" {
		t.Fatalf("sent %q, %v", to.String(), err)
	}
	if got, err := io.ReadAll(answer); err != nil || string(got) != "answer" {
		t.Errorf("read %q, %v", got, err)
	}
}

func FuzzParseRefs(f *testing.F) {
	f.Add([]byte("003d" + strings.Repeat("01", 20) + " refs/heads/main\n0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("003d"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = parseRefs(data)
		_, _ = speaksV2(data)
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"https://u:pass@h/p", "git@h:p", "/x", "file:///x", "ssh://h:1/x", "://", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := Parse(raw)
		if err != nil {
			return
		}
		for _, secret := range a.secrets {
			if len(secret) > 8 && strings.Contains(a.clean("x"+secret+"y"), secret) {
				t.Errorf("%q is still in the cleaned text", secret)
			}
		}
	})
}
