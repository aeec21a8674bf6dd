package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// A BusError is an error of a connection to the bus, or to a master's HTTP, in plain words. [Explain] makes it.
type BusError struct {
	What string // what happened
	Hint string // what to do about it
	Err  error  // the original error
}

func (e *BusError) Error() string { return e.What }

// Unwrap returns the original error.
func (e *BusError) Unwrap() error { return e.Err }

// explanations are the errors of the bus client in plain words; of several that match, the first counts.
var explanations = []struct {
	err        error
	text, hint string
}{
	{errNoRoots, errNoRoots.Error(), hintNoRoots},
	{nats.ErrSecureConnWanted, "the server does not use TLS, so nothing was sent to it", hintNoTLS},
	{nats.ErrAuthorization, "the bus refuses the credential (authorization violation)", hintCredential},
	{nats.ErrAuthExpired, "the credential has ended", hintCredential},
	{nats.ErrAuthRevoked, "the credential was revoked", hintCredential},
	{
		nats.ErrAccountAuthExpired, "the account of the credential has ended",
		"zester auth export prints the accounts for the server again",
	},
	{nats.ErrReconnectBufExceeded, "the bus is away", hintAway},
	{nats.ErrConnectionReconnecting, "the bus is away", hintAway},
	{nats.ErrDisconnected, "the bus is away", hintAway},
	{nats.ErrStaleConnection, "the bus has stopped answering", hintAway},
	{nats.ErrConnectionClosed, "the connection to the bus is closed", hintAway},
	{nats.ErrConnectionDraining, "the connection to the bus is being closed", hintAway},
	{nats.ErrNoServers, "no server of the bus can be reached", hintAway},
	{
		nats.ErrHeadersNotSupported, "the bus was not reached yet, or its server is too old",
		"wait until the bus is reached; a server of your own has to be nats-server 2.11 or newer",
	},
	{
		nats.ErrNoInfoReceived, "what listens there is no NATS server",
		"the bus listens at another port than REST: is the address right?",
	},
	{
		nats.ErrNkeysNotSupported, "the server knows no credentials of zester",
		"zester auth export prints the configuration for a nats-server",
	},
	{nats.ErrMaxPayload, "the message is larger than the bus carries", "raise max_payload of its servers"},
	{
		nats.ErrMaxConnectionsExceeded, "the bus has as many connections as it takes",
		"raise max_connections of its servers, or end some connections",
	},
	{
		nats.ErrMaxAccountConnectionsExceeded, "the bus has as many connections of this role as it takes",
		"end some connections",
	},
	{nats.ErrMaxSubscriptionsExceeded, "the connection has as many subscriptions as the bus takes", ""},
	{nats.ErrSlowConsumer, "messages came faster than they were read, and some were lost", ""},
	{nats.ErrPermissionViolation, "the credential does not allow it", hintCredential},
	{nats.ErrNoResponders, "nobody answers", hintAway},
	{nats.ErrTimeout, "no answer in time", hintAway},
	{context.DeadlineExceeded, "no answer in time", hintAway},
	{
		io.EOF, "the server ended the connection without a word",
		"the bus listens at another port than REST: is the address right?",
	},
}

const (
	hintNoTLS = "the bus and REST of a zester-master always use TLS: " +
		"while it is down another program may have its port; " +
		"a server of your own needs a certificate: zester auth export --help"
	hintCredential = "it may have ended, been revoked, or be that of another bus; " +
		"make another on a host with the keys: " +
		"zester auth issue … --again, for a person zester auth user add … --again"
	hintAway = "is its server running and reachable? An embedded bus is away whenever its zester-master is: " +
		"for two masters run " +
		"nats-server, see zester-master --nats. What failed can be repeated when the bus is back"
	hintNoRoots = "a peel with a join token gets it with the first credential: " +
		"what the log says of its request is the cause; " +
		"else --ca names the file"
	hintAuthority = "--ca FILE names the certificates of the right authority, " +
		"tls/ca.crt in the data directory of the master; " +
		"if they are the right ones, another program has the master's port"
)

// refusals are the errors by which the bus refuses a credential, with the words of its server. A new connection that is
// refused returns these words, in an error that the client does not always know as its own.
var refusals = []struct {
	err   error
	words string
}{
	{nats.ErrAuthorization, "authorization violation"},
	{nats.ErrAuthExpired, "user authentication expired"},
	{nats.ErrAuthRevoked, "user authentication revoked"},
	{nats.ErrAccountAuthExpired, "account authentication expired"},
}

// Refusal returns the client's error if err, explained or not, says that the bus refuses a credential, else nil.
func Refusal(err error) error {
	if e, ok := errors.AsType[*BusError](err); ok {
		err = e.Err
	}
	if err == nil {
		return nil
	}
	words := strings.ToLower(err.Error())
	for _, r := range refusals {
		if errors.Is(err, r.err) || strings.HasSuffix(words, "nats: "+r.words) {
			return r.err
		}
	}
	return nil
}

// Explain returns an error of the bus client or of TLS, wrapped or not, as a [*BusError] in plain words. It returns
// other errors unchanged. checkedBy is the file with the certificates that the server is checked by; if empty, they are
// the system's.
func Explain(err error, checkedBy string) error {
	if _, ok := errors.AsType[*BusError](err); ok || err == nil {
		return err
	}
	text := err.Error()
	if what, hint := explainTLS(err, checkedBy); what != "" {
		return &BusError{
			What: before(text, "nats: tls error", "tls: ", "x509: ", "http: ") + what,
			Hint: hint,
			Err:  err,
		}
	}
	refusal := Refusal(err)
	for _, e := range explanations {
		if errors.Is(err, e.err) || refusal == e.err {
			return &BusError{What: replaced(text, e.err.Error(), e.text), Hint: e.hint, Err: err}
		}
	}
	return err
}

// explainTLS returns empty texts if err is not an error of TLS.
func explainTLS(err error, checkedBy string) (what, hint string) {
	if text, err := os.ReadFile(checkedBy); checkedBy == "" || err == nil && isCredentialAlone(text) {
		checkedBy = "this system's certificates"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the server's certificate is not signed by an authority in " + checkedBy +
			", so nothing was sent to it", hintAuthority
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		names := append([]string{}, e.Certificate.DNSNames...)
		for _, ip := range e.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("the server's certificate is for %s, not for %s", strings.Join(names, ", "), e.Host),
			"use one of its names, or add this one to names in master.yaml"
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "the server's certificate is not valid: " +
			e.Error(), "are the clocks right? A master that is started again makes a new certificate"
	}
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	if string(header.RecordHeader[:]) == "INFO " && !errors.Is(err, nats.ErrTLS) { // a bus says first what it is
		return "a bus replies there, and not the REST API of a master", "join takes HOST:PORT of the REST API, " +
			"which is rest.listen of master.yaml; url takes that of the bus"
	}
	if ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "the server does not use TLS, so nothing was sent to it", hintNoTLS
	}
	if errors.Is(err, nats.ErrTLS) {
		_, detail, _ := strings.Cut(err.Error(), nats.ErrTLS.Error()+": ")
		return "no TLS 1.3 with the server: " + detail, ""
	}
	return "", ""
}

// replaced returns a text with new in place of old, whose case does not count. Without old in the text, new replaces
// all from the client's prefix on.
func replaced(text, old, new string) string {
	for i := range len(text) - len(old) + 1 { // by bytes: some letters are longer in lower case
		if strings.EqualFold(text[i:i+len(old)], old) {
			return text[:i] + new + text[i+len(old):]
		}
	}
	return before(text, "nats: ") + new
}

// before returns the part of a text before the first of the marks.
func before(text string, marks ...string) string {
	for _, mark := range marks {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}

// LogError returns the attributes err and, if there is one, hint, with which an error is logged. See [Explain].
func LogError(err error, checkedBy string) []any {
	err = Explain(err, checkedBy)
	if e, ok := errors.AsType[*BusError](err); ok && e.Hint != "" {
		return []any{"err", err, "hint", e.Hint}
	}
	return []any{"err", err}
}
