package dial_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/dial"
)

// refuse answers the first connection as a server does that refuses the credential in its words.
func refuse(t *testing.T, words string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"headers\":true,\"max_payload\":1024}\r\n")
		_, _ = bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "-ERR '%s'\r\n", words)
	}()
	return "nats://" + listener.Addr().String()
}

func TestEachRefusalOfTheServerIsKnown(t *testing.T) {
	for words, want := range map[string]error{
		"Authorization Violation":        nats.ErrAuthorization,
		"User Authentication Expired":    nats.ErrAuthExpired,
		"User Authentication Revoked":    nats.ErrAuthRevoked,
		"Account Authentication Expired": nats.ErrAccountAuthExpired,
		"Authentication Timeout":         nil,
	} {
		nc, err := nats.Connect(refuse(t, words))
		if err == nil {
			nc.Close()
			t.Fatal(words)
		}
		if got := dial.Refusal(fmt.Errorf("cannot reach the bus: %w", err)); got != want {
			t.Errorf("%s: %v is the refusal %v", words, err, got)
		}
		if _, explained := errors.AsType[*dial.BusError](dial.Explain(err, "")); explained != (want != nil) {
			t.Errorf("%s: explained as %v", words, dial.Explain(err, ""))
		}
		if got := dial.Refusal(dial.Explain(err, "")); got != want {
			t.Errorf("%s: explained, %v is the refusal %v", words, err, got)
		}
	}
	if got := dial.Refusal(nil); got != nil {
		t.Errorf("no error is the refusal %v", got)
	}
}
