// File access.go configures the connection to a Git server and its forge:
// credentials, certificates and a proxy.
//
// Begin with [Options]: call Check first, then Transport for requests.
// [ReadSecret] reads one credential.
//
// Guarantees: files are read for each request, so that they can be replaced
// without a restart. A credential that other users can read is refused.

package outbound

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// anyUser is the user name that forges accept with a token as the password.
const anyUser = "x-access-token"

const (
	// MaxKeys bounds a file of keys or certificates, in bytes.
	MaxKeys   = 4 << 20
	maxSecret = 64 << 10 // bytes of a file with one credential
)

// Options configure access. All fields but User and Proxy are names of files. The
// zero value uses the credentials of the URL and the proxy of the environment.
type Options struct {
	// User and Password are for basic authentication over https. The user may be
	// left out where the password is a token.
	User     string
	Password string
	// Token is a bearer token over https.
	Token string
	// CA holds certificates, in PEM, that are trusted besides those of the system.
	CA string
	// Proxy is the URL of a proxy: http, https or socks5, for ssh only socks5.
	// If empty, HTTPS_PROXY, HTTP_PROXY and NO_PROXY count, for ssh ALL_PROXY.
	Proxy string
	// SSHKey is a private key without a passphrase; "" uses the user's agent.
	SSHKey string
	// KnownHosts holds the trusted host keys; "" uses the user's file.
	KnownHosts string
}

// A Target is the server that Options are for.
type Target struct {
	Scheme string // http, https, ssh or file
	Host   string // with the port, if the URL has one
	Shown  string // the URL without credentials, for errors
	Secret bool   // the URL holds a credential
}

// Check returns an error if the options do not fit the target, or would send a
// credential in plain text.
func (x Options) Check(t Target) error {
	web := t.Scheme == "https" || t.Scheme == "http"
	secret := x.Password != "" || x.Token != ""
	switch {
	case x.Password != "" && x.Token != "":
		return errors.New("cannot use a password and a token for the repository: want one of them")
	case x.User != "" && x.Password == "":
		return errors.New("cannot use a user of the repository without a file with the password")
	case secret && !web:
		return fmt.Errorf("cannot use a password or token for %s: it is not reached over https", t.Shown)
	case secret && t.Secret:
		return fmt.Errorf("cannot use a password or token for %s beside the one in its URL", t.Shown)
	case secret && t.Scheme == "http" && !Loopback(t.Host):
		return fmt.Errorf(
			"cannot use a password or token for %s: over http everybody on the way could read it; use https", t.Shown,
		)
	case x.CA != "" && t.Scheme != "https":
		return fmt.Errorf("cannot use certificates for %s: it is not reached over https", t.Shown)
	case (x.SSHKey != "" || x.KnownHosts != "") && t.Scheme != "ssh":
		return fmt.Errorf("cannot use an ssh key or known hosts for %s: it is not reached over ssh", t.Shown)
	case x.Proxy != "" && t.Scheme == "file":
		return fmt.Errorf("cannot use a proxy for %s: it is on this machine", t.Shown)
	}
	_, err := x.ProxyURL(t.Scheme)
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

// ProxyURL returns the configured proxy for a scheme, nil if the environment
// decides.
func (x Options) ProxyURL(scheme string) (*url.URL, error) {
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
		return nil, fmt.Errorf("cannot use the proxy %s over %s: want %s", u.Redacted(), scheme,
			strings.Join(schemes, ", "))
	}
	return u, nil
}

// Authorization returns the header with the credential, "" if there is none, and
// the strings that errors must not show.
func (x Options) Authorization() (header string, secrets []string, err error) {
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

// ReadSecret returns the single line of a file with a credential. The file must
// not be readable by other users.
func ReadSecret(file string) (string, error) {
	data, err := ReadPrivate(file)
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

// ReadPrivate reads a file that holds a secret. Its group may read it, as systemd
// passes credentials to a service in such files.
func ReadPrivate(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil {
		if perm := info.Mode().Perm(); perm&0o027 != 0 {
			return nil, fmt.Errorf("its mode is %#o, so that others can read or change it; run chmod 600 %s", perm,
				file)
		}
	}
	return ReadLimited(file, maxSecret) // if Stat failed, this fails as well
}

// ReadLimited reads a file of at most limit bytes. Its error does not name the
// file.
func ReadLimited(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		if p, ok := errors.AsType[*os.PathError](err); ok {
			err = p.Err
		}
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// Transport sends requests with the certificates of CA, over Proxy. It adds no
// credential, and may be used from any goroutine.
type Transport struct {
	options Options

	mu        sync.Mutex
	transport *http.Transport // made with the certificates ca
	ca        string
}

// Transport returns a transport that reads no file yet.
func (x Options) Transport() *Transport { return &Transport{options: x} }

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	next, err := t.Current()
	if err != nil {
		return nil, err
	}
	return next.RoundTrip(req)
}

// Current returns the transport for the present content of the file CA.
func (t *Transport) Current() (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options.CA == "" && t.transport != nil {
		return t.transport, nil
	}
	var roots *x509.CertPool
	var ca []byte
	if t.options.CA != "" {
		var err error
		if ca, err = ReadLimited(t.options.CA, MaxKeys); err != nil {
			return nil, fmt.Errorf("cannot read the certificates in %s: %w", t.options.CA, err)
		}
		if t.transport != nil && string(ca) == t.ca {
			return t.transport, nil
		}
		if roots, err = rootsWith(t.options.CA, ca); err != nil {
			return nil, err
		}
	}
	t.closeIdleLocked()
	t.transport, t.ca = http.DefaultTransport.(*http.Transport).Clone(), string(ca)
	if u, err := t.options.ProxyURL("https"); err == nil && u != nil {
		t.transport.Proxy = http.ProxyURL(u)
	}
	if roots != nil {
		t.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return t.transport, nil
}

// Roots returns the certificates of the system and those in a file in PEM, nil if
// file is empty.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := ReadLimited(file, MaxKeys)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates in %s: %w", file, err)
	}
	return rootsWith(file, pem)
}

func rootsWith(file string, pem []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cannot use the certificates in %s: there is none in PEM", file)
	}
	return roots, nil
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeIdleLocked()
}

func (t *Transport) closeIdleLocked() {
	if t.transport != nil {
		t.transport.CloseIdleConnections()
	}
}

// RetryAfter returns the least pause that a server asks for in the header
// Retry-After, in seconds or as a date (RFC 9110): at most one hour, 0 if none.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, 3600)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
