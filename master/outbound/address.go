package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// An Address is where messages go: a URL, or the file with one that holds a key. The file is read for each message.
type Address struct {
	URL, File string
}

// Check returns an error unless exactly one of URL and File is set, and URL can be used. No file is read.
func (a Address) Check() error {
	if (a.URL == "") == (a.File == "") {
		return errors.New("one of url and url_file is required: the address that receives messages")
	}
	if a.URL == "" {
		return nil
	}
	return checkURL(a.URL)
}

// checkURL returns an error unless an address is a URL for HTTP. The error does not show it, as it may hold a key.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return errors.New("its url is not one of http or https without a user")
	}
	return nil
}

// Read returns the URL.
func (a Address) Read() (string, error) {
	if a.File == "" {
		return a.URL, nil
	}
	address, err := ReadGuardedSecret(a.File)
	if err != nil {
		return "", err
	}
	if err := checkURL(address); err != nil {
		return "", fmt.Errorf("%s: %w", a.File, err)
	}
	return address, nil
}

// A Post is one message by HTTP: a POST, or a GET if Body is nil.
type Post struct {
	To   Address
	Path string // added to the path of To, with a slash; empty: nothing
	Type string // of Body; empty: application/json
	Body []byte
	// Key is the file with the key that signs Body; if empty, it is not signed. The signature has the form of
	// [webhook.Generic], so that a zester master can verify it.
	Key string
	// Secrets are further texts that errors must not show, beside the address.
	Secrets []string
}

// Post sends a message and returns the body of the answer, of at most most bytes.
func (c *Client) Post(ctx context.Context, p Post, most int64) ([]byte, error) {
	address, err := p.To.Read()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its url cannot be read")
	}
	hide := append([]string{address, u.RequestURI(), strings.Trim(u.Path, "/"), u.RawQuery}, p.Secrets...)
	if p.Path != "" {
		u = u.JoinPath(p.Path)
	}
	method := http.MethodGet
	if p.Body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(p.Body))
	if err != nil {
		return nil, errors.New("its url cannot be used")
	}
	if p.Body != nil {
		req.Header.Set("Content-Type", cmp.Or(p.Type, "application/json"))
	}
	if p.Key != "" {
		key, err := ReadGuardedSecret(p.Key)
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write(p.Body)
		req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return c.Do(req, most, hide...)
}
