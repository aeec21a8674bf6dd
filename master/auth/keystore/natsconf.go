package keystore

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// NATSConf is the configuration of an external NATS server that trusts the keys.
type NATSConf struct {
	Trust     Trust
	Listen    string // HOST:PORT
	Dir       string // of its store, and of the JWTs of accounts, as they are after revocations
	Cert, Key string // files
	// Cluster makes it one of several servers that keep the streams together. Nil: it is alone.
	Cluster *Cluster
	// LeafNodes is the HOST:PORT to which servers of sites connect; empty: none.
	LeafNodes string
	// Hub makes it the server of a site: a leaf node, without streams. Nil: it is not the server of a site.
	Hub *Hub
}

// A Cluster is what a server needs to know of the other servers of the bus. A server accepts another one only with a
// certificate of the authority, because it gets the messages of all accounts.
type Cluster struct {
	Server string   // name of this server, which no other one has
	Listen string   // HOST:PORT at which it accepts the others
	Routes []string // HOST:PORT of all, its own may be among them
	CA     string   // file with the CA certificates of their certificates
}

// A Hub is the bus to which a site belongs.
type Hub struct {
	URLs  []string // at which it accepts leaf nodes
	Creds string   // file with the credential, of [grants.RoleSite]
	CA    string   // file with its CA certificates; empty: the certificates of the system
}

// Text returns the configuration file. It has no secret. Accounts that a master sends to the server later are stored in
// Dir and replace those in the file; the server of a site gets none.
func (c NATSConf) Text() (string, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nmax_payload: %d\n", c.Listen, wire.MaxMessage)
	b.WriteString(
		"ping_interval: \"20s\" # a client that is frozen or cut off no longer gets requests after a minute\n",
	)
	b.WriteString("authorization { timeout: 30 } # thousands of peels that come back at once wait for their turn\n")
	b.WriteString(c.tls())
	if c.Hub != nil {
		b.WriteString("max_control_line: 64KB # the hub says in a line what is allowed, up to 16 times as long\n")
	} else {
		fmt.Fprintf(&b, "jetstream { store_dir: %q }\n", c.Dir)
	}
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\n", c.Trust.Operator, c.Trust.SystemAccount)
	if c.Hub == nil {
		fmt.Fprintf(&b, "resolver { type: full, dir: %q, allow_delete: false, interval: \"2m\" }\n", c.Dir+"/accounts")
	} else {
		b.WriteString("resolver: MEMORY\n")
	}
	b.WriteString("resolver_preload {\n")
	for _, public := range slices.Sorted(maps.Keys(c.Trust.Accounts)) {
		fmt.Fprintf(&b, "  %s: %s\n", public, c.Trust.Accounts[public])
	}
	b.WriteString("}\n")
	return b.String() + c.cluster() + c.leafNodes(), nil
}

// Check returns an error if something is missing or malformed. It does not look at Trust, so it can be called before
// the keys are made.
func (c NATSConf) Check() error {
	listen := []string{c.Listen, c.LeafNodes}
	if c.Cluster != nil {
		switch {
		case c.Hub != nil:
			return errors.New("cannot print a configuration for a cluster and for the server of a site: print two")
		case c.Cluster.Listen == "" || c.Cluster.Server == "" || c.Cluster.CA == "" || len(c.Cluster.Routes) == 0:
			return errors.New("cannot print a configuration for a cluster without the name and address of the " +
				"server, the addresses of all servers and their authority")
		}
		listen = slices.Concat(listen, []string{c.Cluster.Listen}, c.Cluster.Routes)
	}
	for _, address := range listen {
		if err := c.checkAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// cluster returns the part of the configuration for one of several servers.
func (c NATSConf) cluster() string {
	if c.Cluster == nil {
		return ""
	}
	routes := make([]string, len(c.Cluster.Routes))
	for i, route := range c.Cluster.Routes {
		routes[i] = strconv.Quote("nats-route://" + route)
	}
	return fmt.Sprintf(`server_name: %q
cluster {
  name: zester
  listen: %q
  routes: [%s]
  tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true, min_version: "1.3" }
}
`, c.Cluster.Server, c.Cluster.Listen, strings.Join(routes, ", "), c.Cert, c.Key, c.Cluster.CA)
}

// checkAddress returns an error if an address is malformed or a certificate is missing. LeafNodes may be empty.
func (c NATSConf) checkAddress(listen string) error {
	if listen == "" && c.Listen != "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return fmt.Errorf("cannot print a configuration for %q: want HOST:PORT: %w", listen, err)
	}
	if c.Cert == "" || c.Key == "" {
		return errors.New(
			"cannot print a configuration without a certificate and its key: nobody uses a bus that does not encrypt",
		)
	}
	return nil
}

func (c NATSConf) tls() string {
	return fmt.Sprintf("tls { cert_file: %q, key_file: %q, min_version: \"1.3\", timeout: 30 }\n", c.Cert, c.Key)
}

// leafNodes returns the part of the configuration for a server to which sites connect, or for the server of a site.
// Only subjects of the account of peels pass, and its requests to streams, which needs default_js_domain.
func (c NATSConf) leafNodes() string {
	if c.LeafNodes == "" && c.Hub == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "default_js_domain { %s: \"\" }\n", c.Trust.peels())
	if c.LeafNodes != "" {
		fmt.Fprintf(&b, "leafnodes {\n  listen: %q\n  %s}\n", c.LeafNodes, c.tls())
		return b.String()
	}
	urls := make([]string, len(c.Hub.URLs))
	for i, u := range c.Hub.URLs {
		urls[i] = strconv.Quote(u)
	}
	tls := ""
	if c.Hub.CA != "" {
		tls = fmt.Sprintf(", tls { ca_file: %q, min_version: \"1.3\" }", c.Hub.CA)
	}
	fmt.Fprintf(&b, "leafnodes { remotes: [ { urls: [%s], account: %s, credentials: %q%s } ] }\n",
		strings.Join(urls, ", "), c.Trust.peels(), c.Hub.Creds, tls)
	return b.String()
}

// peels returns the public key of the account of peels.
func (t Trust) peels() string {
	for public, token := range t.Accounts {
		if c, err := jwt.DecodeAccountClaims(token); err == nil && c.Name == grants.AccountName(grants.RolePeel) {
			return public
		}
	}
	return ""
}
