package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// Encrypted makes a connection use TLS 1.3 and refuses a server without it, on loopback as elsewhere: any user of this
// host can listen on a port that the bus has left, and whoever speaks for the bus commands the host. A server that is
// refused is sent nothing, and what it says of further servers is not used: that comes before TLS, and a long list of
// them would keep a peel from the right one for hours. So all servers of a cluster have to be in the URL. Encrypted has
// to be the last option. A connection to a server in this process needs no TLS.
func Encrypted() nats.Option {
	return func(o *nats.Options) error {
		if o.InProcessServer != nil {
			return nil
		}
		for _, server := range o.Servers {
			if scheme, _, found := strings.Cut(server, "://"); found && scheme != "tls" && scheme != "nats" {
				return fmt.Errorf("cannot use the bus at %s: want tls://HOST:PORT", server)
			}
		}
		o.Secure, o.IgnoreDiscoveredServers = true, true
		if o.TLSConfig == nil {
			o.TLSConfig = &tls.Config{}
		}
		o.TLSConfig.MinVersion = max(o.TLSConfig.MinVersion, tls.VersionTLS13)
		return nil
	}
}

// What a file with a credential in the form of NATS holds, and one with a certificate in PEM.
const (
	credentialMark  = "-----BEGIN NATS USER JWT-----"
	certificateMark = "-----BEGIN CERTIFICATE-----"
)

// Roots returns the certificates of authorities in a text: PEM blocks, between which there may be others. If there are
// none it returns nil for a credential, whose holder checks the bus by the certificates of the system, and for any other
// text an error.
func Roots(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	switch {
	case pool.AppendCertsFromPEM(text):
		return pool, nil
	case isCredentialAlone(text):
		return nil, nil
	}
	return nil, errors.New("it holds no certificate that can be read")
}

// isCredentialAlone reports whether a text is a credential without certificates.
func isCredentialAlone(text []byte) bool {
	return bytes.Contains(text, []byte(credentialMark)) && !bytes.Contains(text, []byte(certificateMark))
}

var errUnchecked = errors.New("cannot check the bus's certificate")

// IsImpostor reports whether err says that what listens at the address of the bus cannot be taken for the bus: it does
// not use TLS, shows no certificate that is trusted, or is no server of NATS. The client of the bus tells no handler.
func IsImpostor(err error) bool {
	return errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrTLS) || errors.Is(err, errUnchecked) || errors.Is(err, nats.ErrNoInfoReceived)
}

// CheckedBy has the server's certificate checked by the [Roots] in a file, which is read at every connection. An empty
// name means the certificates of the system.
func CheckedBy(file string) nats.Option {
	return func(o *nats.Options) error {
		if file == "" {
			return nil
		}
		o.RootCAsCB = func() (*x509.CertPool, error) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errUnchecked, err)
			}
			pool, err := Roots(text)
			if err != nil {
				return nil, fmt.Errorf("%w by %s: %w", errUnchecked, file, err)
			}
			return pool, nil
		}
		return nil
	}
}
