package gitrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// address is where a repository is, in one of the forms that git clone knows.
type address struct {
	raw     string // as given, with credentials; for transports only
	display string // without credentials and query
	scheme  string // "http", "https", "ssh" or "file"
	path    string // absolute directory of a local repository, else empty
	host    string // and port, of a URL; "" otherwise
	secrets []string
	read    []string // secrets that were read from files for the newest request
}

// parseAddress tells a URL, the short form host:path of ssh, and a local path
// apart by the rules of git: a colon before the first slash means ssh.
func parseAddress(raw string) (address, error) {
	if raw == "" || strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' }) {
		return address{}, fmt.Errorf("cannot use repository URL %q: empty or with control characters", cut(raw, 80))
	}
	if strings.Contains(raw, "://") {
		return parseURL(raw)
	}
	colon, slash := strings.IndexByte(raw, ':'), strings.IndexByte(raw, '/')
	if colon > 0 && (slash < 0 || colon < slash) {
		host := raw[strings.LastIndexByte(raw[:colon], '@')+1:]
		return address{raw: raw, display: host, scheme: "ssh"}, nil
	}
	return localAddress(raw)
}

func parseURL(raw string) (address, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return address{}, fmt.Errorf("cannot parse repository URL (%d characters): it is not a URL", len(raw))
	}
	a := address{raw: raw, scheme: strings.ToLower(u.Scheme), host: u.Host}
	if u.User != nil {
		password, _ := u.User.Password()
		a.secrets = append(a.secrets, password)
		if a.scheme != "ssh" {
			a.secrets = append(a.secrets, u.User.Username())
		}
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	a.display = shown.String()
	switch a.scheme {
	case "http", "https", "ssh":
		if u.Host == "" {
			return address{}, fmt.Errorf("cannot use repository URL %s: it names no host", a.display)
		}
		return a, nil
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return address{}, fmt.Errorf("cannot use repository URL %s: a file URL names no host", a.display)
		}
		return localAddress(u.Path)
	default:
		return address{}, fmt.Errorf("cannot use repository URL %s: want https, http, ssh, file or a local path", a.display)
	}
}

func localAddress(dir string) (address, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return address{}, fmt.Errorf("cannot use repository path %q: %w", dir, err)
	}
	return address{raw: abs, display: abs, scheme: "file", path: abs}, nil
}

// key names the store of this address. Credentials have no part in it, so that
// a new token does not clone everything again.
func (a address) key() string {
	sum := sha256.Sum256([]byte(a.display))
	return hex.EncodeToString(sum[:12])
}

// clean removes the credentials of the address from foreign text.
func (a address) clean(s string) string {
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
