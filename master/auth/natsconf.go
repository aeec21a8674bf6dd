package auth

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// NATSConf is what a server of NATS elsewhere has to be told, beside what it holds for its own: whom it trusts.
type NATSConf struct {
	Trust     Trust
	Listen    string // HOST:PORT
	Dir       string // of its store, and of the JWTs of accounts, as they are after revocations
	Cert, Key string // files; both are needed where others than its own host reach it
}

// Text is the configuration file. It holds no secret. What the server was told since of an account, by a master, is kept
// in Dir and wins over what is printed here.
func (c NATSConf) Text() (string, error) {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("cannot print a configuration for %q: want HOST:PORT: %w", c.Listen, err)
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	if (c.Cert == "") != (c.Key == "") || c.Cert == "" && !local {
		return "", errors.New("cannot print a configuration without a certificate and its key: other hosts can reach the server")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nmax_payload: %d\n", c.Listen, wire.MaxMessage)
	b.WriteString("authorization { timeout: 30 } # thousands of peels that come back at once wait for their turn\n")
	if c.Cert != "" {
		fmt.Fprintf(&b, "tls { cert_file: %q, key_file: %q, min_version: \"1.3\", timeout: 30 }\n", c.Cert, c.Key)
	}
	fmt.Fprintf(&b, "jetstream { store_dir: %q }\n", c.Dir)
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\n", c.Trust.Operator, c.Trust.SystemAccount)
	fmt.Fprintf(&b, "resolver { type: full, dir: %q, allow_delete: false, interval: \"2m\" }\n", c.Dir+"/accounts")
	b.WriteString("resolver_preload {\n")
	for _, public := range slices.Sorted(maps.Keys(c.Trust.Accounts)) {
		fmt.Fprintf(&b, "  %s: %s\n", public, c.Trust.Accounts[public])
	}
	b.WriteString("}\n")
	return b.String(), nil
}
