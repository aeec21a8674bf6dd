package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// An Address is the location of a repository, in a form that git clone accepts.
type Address struct {
	Shown  string // without credentials and query, for people
	Scheme string // http, https, ssh or file
	Path   string // absolute directory of a local repository, else empty

	raw     string // as given, with credentials; for transports only
	host    string // and port, of a URL
	secrets []string
	read    []string // secrets from the files that the newest request used
}

// Parse reads a URL, the short form host:path of ssh, or a local path. As for
// git, a colon before the first slash means ssh.
func Parse(raw string) (*Address, error) {
	if raw == "" || strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' }) {
		return nil, fmt.Errorf("cannot use repository URL %.80q: empty or with control characters", raw)
	}
	if strings.Contains(raw, "://") {
		return parseURL(raw)
	}
	colon, slash := strings.IndexByte(raw, ':'), strings.IndexByte(raw, '/')
	if colon > 0 && (slash < 0 || colon < slash) {
		host := raw[strings.LastIndexByte(raw[:colon], '@')+1:]
		return &Address{raw: raw, Shown: host, Scheme: "ssh"}, nil
	}
	return localAddress(raw)
}

func parseURL(raw string) (*Address, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("cannot parse repository URL (%d characters): it is not a URL", len(raw))
	}
	a := &Address{raw: raw, Scheme: strings.ToLower(u.Scheme), host: u.Host}
	if u.User != nil {
		password, _ := u.User.Password()
		a.secrets = append(a.secrets, password)
		if a.Scheme != "ssh" {
			a.secrets = append(a.secrets, u.User.Username())
		}
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	a.Shown = shown.String()
	switch a.Scheme {
	case "http", "https", "ssh":
		if u.Host == "" {
			return nil, fmt.Errorf("cannot use repository URL %s: it names no host", a.Shown)
		}
		return a, nil
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return nil, fmt.Errorf("cannot use repository URL %s: a file URL names no host", a.Shown)
		}
		return localAddress(u.Path)
	default:
		return nil, fmt.Errorf("cannot use repository URL %s: want https, http, ssh, file or a local path", a.Shown)
	}
}

func localAddress(dir string) (*Address, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot use repository path %q: %w", dir, err)
	}
	return &Address{raw: abs, Shown: abs, Scheme: "file", Path: abs}, nil
}

// Key returns the name of the store of this address. It does not depend on
// credentials, so a new token needs no new clone.
func (a *Address) Key() string {
	sum := sha256.Sum256([]byte(a.Shown))
	return hex.EncodeToString(sum[:12])
}

// clean replaces the credentials of the address in a text.
func (a *Address) clean(s string) string {
	for _, secret := range slices.Concat(a.secrets, a.read) {
		if len(secret) < 3 {
			continue
		}
		s = strings.ReplaceAll(s, secret, "xxxxx")
		s = strings.ReplaceAll(s, url.PathEscape(secret), "xxxxx")
		s = strings.ReplaceAll(s, url.QueryEscape(secret), "xxxxx")
	}
	return s
}
