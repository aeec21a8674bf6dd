package wire

import (
	"crypto/tls"
	"net"
	"net/url"
	"slices"

	"github.com/nats-io/nats.go"
)

// Encrypted refuses a bus that is not on this host and does not speak TLS: whoever can speak for the bus commands the
// host. It has to be the last option. A bus in this process needs no network.
func Encrypted() nats.Option {
	return func(o *nats.Options) error {
		if o.InProcessServer != nil || !slices.ContainsFunc(o.Servers, elsewhere) {
			return nil
		}
		o.Secure = true
		if o.TLSConfig == nil {
			o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
		}
		return nil
	}
}

// elsewhere reports whether a URL is that of another host. Names are not looked up.
func elsewhere(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}
