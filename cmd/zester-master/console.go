package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// Console is the part of master.yaml about the pages for browsers. Its flags are --console-serve and so on.
type Console struct {
	Serve    bool          `yaml:"serve"`    // false: there are no pages
	Name     string        `yaml:"name"`     // of the fleet; empty: the last word of the repo's URL
	URL      string        `yaml:"url"`      // at which browsers open it; empty: the address of REST
	Zone     string        `yaml:"zone"`     // of all times on pages; empty: UTC
	Proxies  []string      `yaml:"proxies"`  // networks whose X-Forwarded-For is believed
	Idle     time.Duration `yaml:"idle"`     // how long a session lasts without a page; 0: session.DefaultIdle
	Lifetime time.Duration `yaml:"lifetime"` // how long a session lasts in any case; 0: session.DefaultLife
	OIDC     OIDC          `yaml:"oidc"`     // where people log in
}

// OIDC is the part of master.yaml about a provider of OpenID Connect. It has no flags.
type OIDC struct {
	Issuer      string     `yaml:"issuer"`             // its URL; empty: people do not log in at a provider
	ClientID    string     `yaml:"client_id"`          // by which the provider knows the console
	SecretFile  string     `yaml:"client_secret_file"` // empty: the client has no secret
	UserClaim   string     `yaml:"user_claim"`         // empty: email
	GroupsClaim string     `yaml:"groups_claim"`       // empty: groups
	Roles       []OIDCRole `yaml:"roles"`              // the first that fits; nobody else may log in
}

// OIDCRole gives the people of a group a role.
type OIDCRole struct {
	Group string `yaml:"group"`
	Role  string `yaml:"role"` // operator, auditor or member
}

// provider returns the provider at which people log in, or nil. It uses the certificates and the proxy of git.
func (c *Config) provider() (*login.Provider, error) {
	q := c.Console.OIDC
	if q.Issuer == "" {
		if q.ClientID != "" || len(q.Roles) > 0 {
			return nil, errors.New("cannot use console.oidc without the URL of the provider: set console.oidc.issuer")
		}
		return nil, nil
	}
	o := login.Options{
		Issuer: q.Issuer, ClientID: q.ClientID, SecretFile: q.SecretFile, UserClaim: q.UserClaim,
		GroupsClaim: q.GroupsClaim, URL: strings.TrimSuffix(c.Console.URL, "/"),
		Transport: outbound.Options(c.Git).Transport(),
	}
	for _, r := range q.Roles {
		o.Roles = append(o.Roles, login.Rule{Group: r.Group, Role: grants.Role(r.Role)})
	}
	p, err := login.New(o)
	if err != nil {
		return nil, fmt.Errorf("console.oidc: %w", err)
	}
	return p, nil
}

func (c *Console) flags(fs *flag.FlagSet) {
	fs.BoolVar(&c.Serve, "console-serve", c.Serve, "serve pages for browsers at the REST address")
	fs.StringVar(&c.Name, "console-name", c.Name, "call the fleet `NAME` on pages (default: as the repo)")
	fs.StringVar(&c.URL, "console-url", c.URL, "browsers open the console at `URL`, through a proxy")
	fs.StringVar(&c.Zone, "console-zone", c.Zone, "show times in the time `ZONE` (default: UTC)")
	daemon.DurationVar(fs, &c.Idle, "console-idle", "end sessions after `TIME` without a page (default: 30m)")
	daemon.DurationVar(fs, &c.Lifetime, "console-lifetime", "end sessions `TIME` after the login (default: 12h)")
}

// restOff is the value of rest.listen that turns REST off.
const restOff = "off"

// configured returns the address that the configuration names; empty: it names none.
func (r REST) configured() string {
	if r.Listen == restOff {
		return ""
	}
	return r.Listen
}

// onLoopback returns the address of REST if none is configured: zester console asks the master for the port.
func (r REST) onLoopback() string {
	if r.Listen == restOff {
		return ""
	}
	return "127.0.0.1:0"
}

// maxFleetName is in bytes. The name is on every page, beside the mark.
const maxFleetName = 40

// console returns the options of the pages.
func (c *Config) console() (o master.Console, err error) {
	o.Off = !c.Console.Serve
	o.Fleet = c.Console.Name
	o.Sessions = session.Options{Idle: c.Console.Idle, Lifetime: c.Console.Lifetime}
	if len(o.Fleet) > maxFleetName {
		return o, fmt.Errorf("cannot use a console.name of %d bytes: the most is %d", len(o.Fleet), maxFleetName)
	}
	if o.Fleet == "" {
		o.Fleet = lastWord(c.Repo)
	}

	if c.Console.URL != "" {
		if o.Host, err = hostOf(c.Console.URL); err != nil {
			return o, err
		}
	}
	if o.Login, err = c.provider(); err != nil {
		return o, err
	}
	if o.Zone, err = zoneinfo.Load(c.Console.Zone); err != nil || c.Console.Zone == "Local" {
		const want = "want the name of a zone, such as Europe/London"
		return o, fmt.Errorf("cannot use console.zone %q: %s", c.Console.Zone, want)
	}
	for _, text := range c.Console.Proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return o, fmt.Errorf("cannot use %q in console.proxies: want a network, such as 10.0.0.0/8", text)
		}
		o.Proxies = append(o.Proxies, p.Masked())
	}
	return o, nil
}

// lastWord returns the last word of the URL or path of a repo, such as fleet of https://forge.example/ops/fleet.git.
func lastWord(repo string) string {
	_, after, found := strings.Cut(repo, ":")
	if !found {
		after = repo
	}
	name := strings.TrimSuffix(path.Base(after), ".git")
	if name == "." || name == ".." || name == "/" || len(name) > maxFleetName {
		return ""
	}
	return name
}

// hostOf returns the host of the URL of the console, with its port if that is not the port of https.
func hostOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		const want = "want https and a host, such as https://zester.example.com"
		return "", fmt.Errorf("cannot use console.url %q: %s", text, want)
	}
	return strings.ToLower(strings.TrimSuffix(u.Host, ":443")), nil
}
