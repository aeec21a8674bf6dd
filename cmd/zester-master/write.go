package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// Write is the part of master.yaml about commits that the master makes on request. Its flags are --write-mode and so
// on. Keys, password and token are read from files. The CA certificates, the proxy and the known hosts are those under
// git.
type Write struct {
	Mode       string `yaml:"mode"`        // direct or propose; empty: requests are answered with a patch
	MailDomain string `yaml:"mail_domain"` // of the mail addresses of authors, NAME@DOMAIN; empty: zester.invalid
	SigningKey string `yaml:"signing_key"` // file with the SSH key that signs commits; empty: they are not signed
	User       string `yaml:"user"`        // for basic authentication
	Password   string `yaml:"password"`    // file with the password or token of the user
	Token      string `yaml:"token"`       // file with a bearer token
	SSHKey     string `yaml:"ssh_key"`     // file with a private key
	// name of the forge under notify that gets the pull requests; empty: none are opened
	PullRequests string `yaml:"pull_requests"`
}

// Schedules is the part of master.yaml about schedules made by requests. Its flags are --schedules-target and
// --schedules-max.
type Schedules struct {
	Target string `yaml:"target"` // target of schedules without one; empty: each request must name one
	Max    int    `yaml:"max"`    // most schedules made by requests that may exist at a time; 0: 1000
}

// writes returns the service that changes schedules on request.
func (c *Config) writes(places []*notify.Place, o *master.Options) (*propose.Service, error) {
	w := c.Write
	at := outbound.Options{
		User:       w.User,
		Password:   w.Password,
		Token:      w.Token,
		SSHKey:     w.SSHKey,
		CA:         c.Git.CA,
		Proxy:      c.Git.Proxy,
		KnownHosts: c.Git.KnownHosts,
	}
	if propose.Mode(w.Mode) == propose.Off {
		if w.SigningKey != "" || w.PullRequests != "" {
			return nil, errors.New("cannot sign commits or open pull requests without write.mode")
		}
		at = outbound.Options(c.Git) // only to read
	}
	var pulls *forge.Client
	if w.PullRequests != "" {
		i := slices.IndexFunc(places, func(p *notify.Place) bool { return p.Name() == w.PullRequests })
		if i < 0 || places[i].Forge() == nil {
			return nil, fmt.Errorf("cannot open pull requests on %q: notify has no forge of this name", w.PullRequests)
		}
		pulls = places[i].Forge()
	}
	s, err := propose.New(propose.Options{
		Mode: propose.Mode(w.Mode), Path: c.Path, Branch: c.Branch, Forge: pulls, Domain: w.MailDomain,
		Target: c.Schedules.Target, Max: cmp.Or(c.Schedules.Max, propose.DefaultMax), Check: notRevoked,
		Log: o.Log, Metrics: o.Metrics,
		Write: push.Options{
			Repo: gitrepo.Options{
				URL:    c.Repo,
				Branch: c.Branch,
				Dir:    filepath.Join(c.DataDir, "write"),
				Access: at,
				Verify: c.Verify.trust(),
				Log:    o.Log,
			},
			Committer: push.Person{Name: "zester", Email: "zester@" + cmp.Or(w.MailDomain, propose.DefaultDomain)},
			Key:       w.SigningKey,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use write: %w", err)
	}
	return s, nil
}

// notRevoked returns an error if a person or a token was revoked, or who made it was with all that they made. It reads
// the buckets.
func notRevoked(ctx context.Context, js jetstream.JetStream, name string) error {
	known, err := reach.Open(ctx, js, nil)
	if err != nil {
		return err
	}
	return known.CheckCurrent(ctx, name)
}
