package mcp_test

import (
	"io"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/mcp"
)

func TestMessagesBeyondTheBoundsAreReplaced(t *testing.T) {
	const refused = `,"method":"zester/message-too-large-or-too-deep"}` + "\n"
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	long := strings.Repeat("x", 3<<20)
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"{\"id\":1}\nlast", "{\"id\":1}\nlast"},
		{`{"id":7,"params":` + deep + "}\n{}\n", `{"jsonrpc":"2.0","id":7` + refused + "{}\n"},
		{`{"params":` + deep + `,"id":"a\"b"}` + "\n", `{"jsonrpc":"2.0","id":"a\"b"` + refused},
		{`{"params":{"id":3,"a":` + deep + "}}\n{}\n", "{}\n"}, // a notification
		{`{"method":"id","id":8,"params":"` + long + "\"}\n{}\n", `{"jsonrpc":"2.0","id":8` + refused + "{}\n"},
		{`{"id":` + deep + "}\n", ""},
		{`{"id":{"id":1},"x":` + deep + "}\n", ""},
		{long + "\n{}\n", "{}\n"},
	} {
		got, err := io.ReadAll(mcp.Messages(strings.NewReader(c.in)))
		if err != nil || string(got) != c.want {
			t.Errorf("%.60q: %.200q, %v; want %.200q", c.in, got, err, c.want)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add("{\"id\":1,\"a\":" + strings.Repeat("[", 70) + "}\n{}\n")
	f.Add("{\"id\":\"\\ud800\"," + strings.Repeat("[", 70) + "\n")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := io.ReadAll(mcp.Messages(strings.NewReader(in)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(got)) {
			if !strings.Contains(in, line) && !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) {
				t.Errorf("%q makes %q", in, line)
			}
		}
	})
}
