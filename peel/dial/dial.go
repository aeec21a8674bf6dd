// Package dial has the options with which every program connects to the bus, and the errors of a connection in plain
// words. Give [nats.Connect] the option [CheckedBy], and [Encrypted] as the last one; [Explain] and [LogError] word
// what goes wrong.
//
// Guarantees: nothing is sent to a server without TLS 1.3, or without a certificate of a trusted authority.
package dial

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Encrypted makes a connection use TLS 1.3 and refuses a server without it, on loopback as elsewhere: any user of this
// host can listen on a port that the bus has left, and a program that poses as the bus commands the host. The client
// sends nothing to a refused server and ignores the further servers that any server announces: they come before TLS,
// and a long list of wrong ones would keep a peel from the right one for hours. So all servers of a cluster have to be
// in the URL. Encrypted has to be the last option. A connection to a server in this process needs no TLS.
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

// ServicePing is the time between two pings of a master and of a person's program: whoever is connected to a server
// that is frozen, or whose host is cut off, leaves it for another one after 6 s, while a request that was under way is
// still repeated.
const ServicePing = 2 * time.Second

const (
	// clusterPing is the time between two pings of a peel that knows several servers, ± 10 %: it leaves a silent one
	// within 10 s. The pings of 10,000 peels take a tenth of a processor, both sides together.
	clusterPing = 3 * time.Second

	// lonePing is the same of a peel that knows one server and has no other to turn to.
	lonePing = 30 * time.Second
)

// peelPing returns the time between two pings of a peel. url has its servers, separated by commas.
func peelPing(url string) time.Duration {
	if strings.Contains(url, ",") {
		return clusterPing
	}
	return lonePing
}

// PingedAsPeel is [Pinged] with the interval of a peel, ± 10 %. url has its servers, separated by commas.
func PingedAsPeel(url string) nats.Option {
	ping := peelPing(url)
	return Pinged(ping*9/10 + rand.N(ping/5))
}

// Pinged makes a connection ping its server at that interval. If the server answers none of two pings the client closes
// the connection and tries the next server. Without it a client waits for six minutes.
func Pinged(every time.Duration) nats.Option {
	return func(o *nats.Options) error {
		o.PingInterval, o.MaxPingsOut = every, 2
		return nil
	}
}

// The first lines of a credential of NATS and of a certificate in PEM.
const (
	credentialMark  = "-----BEGIN NATS USER JWT-----"
	certificateMark = "-----BEGIN CERTIFICATE-----"
)

// Roots returns the certificates in a text of PEM blocks, and ignores other blocks. For a credential without
// certificates it returns nil, which means the certificates of the system; for any other text without certificates, an
// error.
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

var (
	errUnchecked = errors.New("cannot check the bus's certificate")
	errNoRoots   = errors.New("the file to check it by is not there")
)

// IsImpostor reports whether err means that the program at the address of the bus is not the bus: it does not use TLS,
// has no trusted certificate, or is no NATS server. The client of the bus calls no handler for these errors.
func IsImpostor(err error) bool {
	return errors.Is(err, nats.ErrSecureConnWanted) || errors.Is(err, nats.ErrTLS) || errors.Is(err, errUnchecked) ||
		errors.Is(err, nats.ErrNoInfoReceived)
}

// CheckedBy makes a connection check the server's certificate by the [Roots] in a file, which is read at every attempt.
// If file is empty, the certificates of the system are used.
func CheckedBy(file string) nats.Option {
	return func(o *nats.Options) error {
		if file == "" {
			return nil
		}
		o.RootCAsCB = func() (*x509.CertPool, error) {
			text, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%w: %w: %w", errUnchecked, errNoRoots, err)
			}
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
