package dial_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/dial"
)

// said is an error of the client in the server's words.
type said struct {
	text string
	is   error
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.is }

// TestErrorsOfTheBusAreInPlainWords has each as it comes: wrapped by who asked, and by TLS.
func TestErrorsOfTheBusAreInPlainWords(t *testing.T) {
	unknown := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	expired := &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "the end was yesterday"}}
	other := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"localhost"}}, Host: "bus.example.com"}
	for _, tc := range []struct {
		err       error
		checkedBy string
		want      string // all of the text after "cannot ask: "
		hint      string // part of it
	}{
		{nats.ErrReconnectBufExceeded, "", "the bus is away", "running and reachable"},
		{nats.ErrHeadersNotSupported, "", "the bus was not reached yet, or its server is too old", "nats-server 2.11"},
		{nats.ErrDisconnected, "", "the bus is away", "running and reachable"},
		{nats.ErrConnectionReconnecting, "", "the bus is away", "running and reachable"},
		{nats.ErrConnectionClosed, "", "the connection to the bus is closed", "running and reachable"},
		{nats.ErrConnectionDraining, "", "the connection to the bus is being closed", "running and reachable"},
		{nats.ErrStaleConnection, "", "the bus has stopped answering", "running and reachable"},
		{nats.ErrNoServers, "", "no server of the bus can be reached", "running and reachable"},
		{nats.ErrNoResponders, "", "nobody answers", "running and reachable"},
		{nats.ErrTimeout, "", "no answer in time", "running and reachable"},
		{context.DeadlineExceeded, "", "no answer in time", "running and reachable"},
		{nats.ErrAuthorization, "", "the bus refuses the credential (authorization violation)", "--again"},
		{said{"nats: Authorization Violation", nats.ErrAuthorization}, "", "the bus refuses the credential (authorization violation)", "--again"},
		{said{"nats: user gone", nats.ErrAuthRevoked}, "", "the credential was revoked", "--again"},
		{fmt.Errorf("%w: for Publish to \"x\"", nats.ErrPermissionViolation), "", "the credential does not allow it: for Publish to \"x\"", "--again"},
		{nats.ErrAuthExpired, "", "the credential has ended", "--again"},
		{nats.ErrAuthRevoked, "", "the credential was revoked", "--again"},
		{nats.ErrAccountAuthExpired, "", "the account of the credential has ended", "auth export"},
		{nats.ErrNkeysNotSupported, "", "the server knows no credentials of zester", "auth export"},
		{io.EOF, "", "the server ended the connection without a word", "is the address right"},
		{nats.ErrNoInfoReceived, "", "what listens there is no NATS server", "is the address right"},
		{nats.ErrMaxPayload, "", "the message is larger than the bus carries", "max_payload"},
		{nats.ErrMaxConnectionsExceeded, "", "the bus has as many connections as it takes", "max_connections"},
		{nats.ErrMaxAccountConnectionsExceeded, "", "the bus has as many connections of this role as it takes", "end some"},
		{nats.ErrMaxSubscriptionsExceeded, "", "the connection has as many subscriptions as the bus takes", ""},
		{nats.ErrSlowConsumer, "", "messages came faster than they were read, and some were lost", ""},
		{nats.ErrPermissionViolation, "", "the credential does not allow it", "--again"},
		{nats.ErrSecureConnWanted, "ca.crt", "the server does not use TLS, so nothing was sent to it", "another program may have its port"},
		{fmt.Errorf("Post: %w", http.ErrSchemeMismatch), "ca.crt", "Post: the server does not use TLS, so nothing was sent to it", "another program"},
		{fmt.Errorf("Post: %w", tls.RecordHeaderError{RecordHeader: [5]byte([]byte("INFO "))}), "ca.crt", "Post: a bus replies there, and not the REST API of a master", "join takes HOST:PORT of the REST API"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, tls.RecordHeaderError{Msg: "x"}), "", "the server does not use TLS, so nothing was sent to it", "another program"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, unknown), "/etc/ca.crt", "the server's certificate is not signed by an authority in /etc/ca.crt, so nothing was sent to it", "--ca FILE"},
		{unknown, "", "the server's certificate is not signed by an authority in this system's certificates, so nothing was sent to it", "--ca FILE"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, expired), "ca.crt", "the server's certificate is not valid: x509: certificate has expired or is not yet valid: the end was yesterday", "clocks"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, other), "ca.crt", "the server's certificate is for localhost, not for bus.example.com", "names in master.yaml"},
		{fmt.Errorf("%w: %w", nats.ErrTLS, errors.New("remote error")), "", "no TLS 1.3 with the server: remote error", ""},
	} {
		err := dial.Explain(fmt.Errorf("cannot ask: %w", tc.err), tc.checkedBy)
		e, ok := errors.AsType[*dial.BusError](err)
		if !ok || err.Error() != "cannot ask: "+tc.want || !strings.Contains(e.Hint, tc.hint) || (e.Hint == "") != (tc.hint == "") {
			t.Errorf("%v\nis %v\nwith the hint %+v", tc.err, err, e)
			continue
		}
		if !errors.Is(err, tc.err) {
			t.Errorf("%v is not found in what explains it", tc.err)
		}
		if again := dial.Explain(err, ""); again != err {
			t.Errorf("explained again: %v", again)
		}
		if raw := regexp.MustCompile(`nats: |tls: `).FindString(e.What + e.Hint); raw != "" {
			t.Errorf("%q is the library's own words: %s", raw, e.What)
		}
		if logged := dial.LogError(fmt.Errorf("cannot ask: %w", tc.err), tc.checkedBy); fmt.Sprint(logged[1]) != err.Error() || (len(logged) == 4) != (e.Hint != "") {
			t.Errorf("logged as %v", logged)
		}
	}
	alone := filepath.Join(t.TempDir(), "alone.creds")
	if err := os.WriteFile(alone, []byte("-----BEGIN NATS USER JWT-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dial.Explain(unknown, alone); !strings.Contains(err.Error(), "this system's certificates") {
		t.Errorf("by a credential without certificates: %v", err)
	}
	if mine := errors.New("mine"); dial.Explain(mine, "") != mine || dial.Explain(nil, "") != nil {
		t.Error("an error of somebody else is changed")
	}
}

// FuzzExplain has any text before the error of the client, and any in the words of the server.
func FuzzExplain(f *testing.F) {
	f.Add("cannot ask İİİİİİİİ", "TIMEOUT")
	f.Add("", "NATS: Timeout of İ")
	f.Fuzz(func(t *testing.T, text, words string) {
		for _, is := range []error{nats.ErrTimeout, nats.ErrPermissionViolation, nats.ErrTLS} {
			if err := dial.Explain(fmt.Errorf("%s: %w", text, said{words, is}), ""); !errors.Is(err, is) {
				t.Errorf("%v is not found in %v", is, err)
			}
		}
		before := "cannot ask " + strings.ReplaceAll(text, ":", "")
		if err := dial.Explain(fmt.Errorf("%s: %w", before, nats.ErrTimeout), ""); err.Error() != before+": no answer in time" {
			t.Errorf("explained as %q", err)
		}
	})
}
