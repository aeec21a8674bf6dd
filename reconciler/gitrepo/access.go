package gitrepo

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
)

// anyUser is what forges that take a token in place of a password take in
// place of a user.
const anyUser = "x-access-token"

// maxSecret bounds a file with one credential, in bytes.
const maxSecret = 64 << 10

// Access says what it takes to reach a repository. Whatever it names is a file,
// but for User and Proxy, and is read for each request, so that a credential is
// replaced without a restart. The zero value is what the URL and the
// environment say.
type Access struct {
	// User and Password are for basic authentication over https. The user may be
	// left out where the password is a token.
	User     string
	Password string
	// Token is a bearer token over https.
	Token string
	// CA are certificates, in PEM, that count beside those of the system.
	CA string
	// Proxy is the URL of a proxy: http, https or socks5, for ssh socks5 alone.
	// "" is what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say, for ssh ALL_PROXY.
	Proxy string
	// SSHKey is a private key without a passphrase; "" is the user's agent.
	SSHKey string
	// KnownHosts holds the host keys that are trusted; "" is the user's file.
	KnownHosts string
}

// check refuses what cannot work with an address, or would show a credential.
func (x Access) check(a address) error {
	web := a.scheme == "https" || a.scheme == "http"
	secret := x.Password != "" || x.Token != ""
	switch {
	case x.Password != "" && x.Token != "":
		return errors.New("cannot use a password and a token for the repository: want one of them")
	case x.User != "" && x.Password == "":
		return errors.New("cannot use a user of the repository without a file with the password")
	case secret && !web:
		return fmt.Errorf("cannot use a password or token for %s: it is not reached over https", a.display)
	case secret && len(a.secrets) > 0:
		return fmt.Errorf("cannot use a password or token for %s beside the one in its URL", a.display)
	case secret && a.scheme == "http" && !Loopback(a.host):
		return fmt.Errorf("cannot use a password or token for %s: over http everybody on the way could read it; use https", a.display)
	case x.CA != "" && a.scheme != "https":
		return fmt.Errorf("cannot use certificates for %s: it is not reached over https", a.display)
	case (x.SSHKey != "" || x.KnownHosts != "") && a.scheme != "ssh":
		return fmt.Errorf("cannot use an ssh key or known hosts for %s: it is not reached over ssh", a.display)
	case x.Proxy != "" && a.scheme == "file":
		return fmt.Errorf("cannot use a proxy for %s: it is on this machine", a.display)
	}
	_, err := x.proxy(a.scheme)
	return err
}

// Loopback reports whether a host, with or without a port, is this machine by
// its address or as localhost. Names are not looked up.
func Loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// proxy returns the configured proxy, nil for that of the environment.
func (x Access) proxy(scheme string) (*url.URL, error) {
	if x.Proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(x.Proxy)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("cannot use the proxy (%d characters): it is not a URL with a host", len(x.Proxy))
	}
	schemes := []string{"http", "https", "socks5", "socks5h"}
	if scheme == "ssh" {
		schemes = []string{"socks5", "socks5h"}
	}
	if !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("cannot use the proxy %s over %s: want %s", u.Redacted(), scheme, strings.Join(schemes, ", "))
	}
	return u, nil
}

// authorization returns the header with the credential, "" if there is none,
// and what must not be shown of it.
func (x Access) authorization() (header string, secrets []string, err error) {
	if x.Token != "" {
		token, err := ReadSecret(x.Token)
		return "Bearer " + token, []string{token}, err
	}
	if x.Password == "" {
		return "", nil, nil
	}
	password, err := ReadSecret(x.Password)
	if err != nil {
		return "", nil, err
	}
	pair := base64.StdEncoding.EncodeToString([]byte(cmp.Or(x.User, anyUser) + ":" + password))
	return "Basic " + pair, []string{password, pair}, nil
}

// ReadSecret returns the one line of a file with a credential, which other
// users may not read.
func ReadSecret(file string) (string, error) {
	data, err := readPrivate(file)
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
	case text == "":
		err = errors.New("it is empty")
	case strings.ContainsAny(text, "\r\n\x00"):
		err = errors.New("it has more than one line")
	default:
		return text, nil
	}
	return "", fmt.Errorf("cannot read the credential in %s: %w", file, err)
}

// readPrivate reads a file that holds a secret. Its group may read it: systemd
// hands credentials to a service so.
func readPrivate(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil {
		if perm := info.Mode().Perm(); perm&0o027 != 0 {
			return nil, fmt.Errorf("its mode is %#o, so that others can read or change it; run chmod 600 %s", perm, file)
		}
	}
	return readLimited(file, maxSecret) // whose error names what is wrong with it
}

// A way is how requests travel: the transport, for the certificates that it
// was made with.
type way struct {
	access    Access
	transport *http.Transport
	ca        string // content of the file
}

// current returns the transport for what the file with certificates holds now.
func (w *way) current() (*http.Transport, error) {
	if w.access.CA == "" && w.transport != nil {
		return w.transport, nil
	}
	var roots *x509.CertPool
	var ca []byte
	if w.access.CA != "" {
		var err error
		if ca, err = readLimited(w.access.CA, maxKeys); err != nil {
			return nil, fmt.Errorf("cannot read the certificates in %s: %w", w.access.CA, err)
		}
		if w.transport != nil && string(ca) == w.ca {
			return w.transport, nil
		}
		if roots, err = x509.SystemCertPool(); err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("cannot use the certificates in %s: there is none in PEM", w.access.CA)
		}
	}
	w.close()
	w.transport, w.ca = http.DefaultTransport.(*http.Transport).Clone(), string(ca)
	if u, err := w.access.proxy("https"); err == nil && u != nil {
		w.transport.Proxy = http.ProxyURL(u)
	}
	if roots != nil {
		w.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return w.transport, nil
}

func (w *way) close() {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
}

// Transport carries other requests to the forge as those for the repository
// travel: with the certificates of CA, over Proxy. It adds no credential.
func (x Access) Transport() http.RoundTripper { return &passage{way: way{access: x}} }

type passage struct {
	mu  sync.Mutex
	way way // under mu
}

func (t *passage) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	next, err := t.way.current()
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return next.RoundTrip(req)
}
