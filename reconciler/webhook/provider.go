package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Provider is a kind of forge, with its form of signatures and payloads.
type Provider string

// The providers. Gitea includes Forgejo and Gogs, Bitbucket includes Cloud and Server.
const (
	GitHub    Provider = "github"
	GitLab    Provider = "gitlab"
	Gitea     Provider = "gitea"
	Bitbucket Provider = "bitbucket"
	Azure     Provider = "azure-devops"
	Generic   Provider = "generic-hmac"
)

var providers = []Provider{GitHub, GitLab, Gitea, Bitbucket, Azure, Generic}

func (p Provider) known() bool { return slices.Contains(providers, p) }

func providerNames() string {
	var names []string
	for _, p := range providers {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// A delivery is one request.
type delivery struct {
	header http.Header
	body   []byte
}

// authentic reports whether one of the secrets signed the delivery. It tries all of them, each in constant time.
func (d delivery) authentic(p Provider, secrets [][]byte, now time.Time) bool {
	ok := false
	for _, secret := range secrets {
		ok = d.signedBy(p, secret, now) || ok
	}
	return ok
}

func (d delivery) signedBy(p Provider, secret []byte, now time.Time) bool {
	switch p {
	case GitHub:
		return d.prefixedHMAC("X-Hub-Signature-256", secret, false)
	case Bitbucket:
		return d.prefixedHMAC("X-Hub-Signature", secret, false)
	case Generic:
		return d.prefixedHMAC("X-Signature", secret, true)
	case Gitea:
		return sameHex(sum(sha256.New, secret, d.body),
			d.first("X-Forgejo-Signature", "X-Gitea-Signature", "X-Gogs-Signature"))
	case GitLab:
		if d.header.Get("Webhook-Signature") != "" {
			return d.standard(secret, now)
		}
		return same(secret, []byte(d.header.Get("X-Gitlab-Token")))
	case Azure:
		kind, credential, _ := strings.Cut(d.header.Get("Authorization"), " ")
		given, err := base64.StdEncoding.DecodeString(credential)
		return err == nil && strings.EqualFold(kind, "Basic") && same(secret, given)
	default:
		return false
	}
}

// prefixedHMAC checks a header of the form sha256=<hex>; sha512 is accepted with choice, sha1 never.
func (d delivery) prefixedHMAC(header string, secret []byte, choice bool) bool {
	algorithm, given, _ := strings.Cut(d.header.Get(header), "=")
	switch {
	case algorithm == "sha256":
		return sameHex(sum(sha256.New, secret, d.body), given)
	case algorithm == "sha512" && choice:
		return sameHex(sum(sha512.New, secret, d.body), given)
	default:
		return false
	}
}

// standard checks a signature of Standard Webhooks, which covers ID and time; secrets carry the prefix whsec_.
func (d delivery) standard(secret []byte, now time.Time) bool {
	at := d.header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > clockSkew {
		return false
	}
	key := secret
	if encoded, ok := strings.CutPrefix(string(secret), "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil || len(key) < 16 {
			return false
		}
	}
	want := sum(sha256.New, key, []byte(d.header.Get("Webhook-Id")), []byte("."), []byte(at), []byte("."), d.body)
	ok := false
	for one := range strings.FieldsSeq(d.header.Get("Webhook-Signature")) {
		encoded, v1 := strings.CutPrefix(one, "v1,")
		given, err := base64.StdEncoding.DecodeString(encoded)
		ok = (v1 && err == nil && hmac.Equal(want, given)) || ok
	}
	return ok
}

// first returns the first header that is set, empty if none is.
func (d delivery) first(headers ...string) string {
	for _, name := range headers {
		if v := d.header.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func sum(h func() hash.Hash, secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(h, secret)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

func sameHex(want []byte, given string) bool {
	b, err := hex.DecodeString(given)
	return err == nil && hmac.Equal(want, b)
}

// same compares in constant time, also for different lengths.
func same(a, b []byte) bool {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
