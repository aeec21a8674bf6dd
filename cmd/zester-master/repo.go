package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/pulls"
	"github.com/seed-c01c3da5/zester/reconciler/webhook"
)

// Git is the part of master.yaml about access to the repo. Its flags are --git-user and so on. All fields but user and
// proxy are paths of files.
type Git struct {
	User       string `yaml:"user"`        // for basic authentication; empty: a name that forges accept with a token
	Password   string `yaml:"password"`    // with the password or token of the user
	Token      string `yaml:"token"`       // with a bearer token
	CA         string `yaml:"ca"`          // with CA certificates, in addition to the system's
	Proxy      string `yaml:"proxy"`       // URL; empty: the proxy in the environment
	SSHKey     string `yaml:"ssh_key"`     // with a private key; empty: the keys of the SSH agent
	KnownHosts string `yaml:"known_hosts"` // with the keys of hosts; empty: the user's file
}

// Verify is the part of master.yaml about signed commits. Its flags are --verify-ssh and --verify-openpgp.
type Verify struct {
	SSH     string   `yaml:"ssh"`     // file of allowed signers; empty: no SSH key may sign
	OpenPGP string   `yaml:"openpgp"` // file of armored public keys; empty: no OpenPGP key may
	Allow   []string `yaml:"allow"`   // signers whose Zester-Allow line counts; empty: all
}

func (v Verify) trust() gitrepo.Trust { return gitrepo.Trust{SSH: v.SSH, OpenPGP: v.OpenPGP} }

// Hook is one webhook. Its URL is /hooks/NAME on the address of REST.
type Hook struct {
	Name     string           `yaml:"name"`
	Provider webhook.Provider `yaml:"provider"`
	Repo     string           `yaml:"repo"`    // any URL of the repo on the forge; empty: the config repo
	Secrets  []string         `yaml:"secrets"` // files with secrets; a post with any of them is accepted
}

// Place configures a receiver of notifications: a forge, a chat, a webhook or a mail server.
type Place struct {
	Name     string               `yaml:"name"`
	Provider notify.PlaceProvider `yaml:"provider"`
	// of the repo on the forge (empty: the config repo), of a chat, webhook or mail server
	URL      string        `yaml:"url"`
	URLFile  string        `yaml:"url_file"` // file with the address of a chat or webhook, which is a secret
	Token    string        `yaml:"token"`    // file with the credential for a forge
	Secret   string        `yaml:"secret"`   // file with the key that signs what a webhook posts
	Body     string        `yaml:"body"`     // template of the body of a webhook; empty: every field
	Events   []notify.Kind `yaml:"events"`   // empty: the default events of the provider
	User     string        `yaml:"user"`     // of the mail server; empty: no login
	Password string        `yaml:"password"` // file with the password of that user
	From     string        `yaml:"from"`     // address of mail
	To       []string      `yaml:"to"`       // addresses of mail
	// pull requests on a forge that are commented on: branches, forks or off; empty: branches
	Plans string `yaml:"plans"`
}

// sync sets the options of the reconciler, and the webhooks.
func (c *Config) sync(o *master.Options) error {
	if c.Repo == "" {
		if len(c.Hooks) > 0 {
			return errors.New("cannot receive webhooks without repo")
		}
		if len(c.Notify) > 0 {
			return errors.New("cannot notify anybody without repo")
		}
		if len(c.Identities) > 0 {
			return errors.New("cannot use identities without repo")
		}
		o.Log.Info("no settings are sent to the fleet: repo is not set in the configuration")
		return nil
	}
	places, err := c.places()
	if err != nil {
		return err
	}
	repo := gitrepo.Options{
		URL: c.Repo, Branch: c.Branch, Path: c.Path, Dir: filepath.Join(c.DataDir, "repo"),
		Access: outbound.Options(c.Git), Verify: c.Verify.trust(), Log: o.Log,
	}
	commenters, err := c.commenters(places, repo)
	if err != nil {
		return err
	}
	writes, err := c.writes(places, o)
	if err != nil {
		return err
	}
	var own string
	if c.Write.SigningKey != "" {
		if own, err = push.Fingerprint(c.Write.SigningKey); err != nil {
			return err
		}
	}
	r, err := reconciler.New(reconciler.Options{
		Repo:       repo,
		Pulls:      commenters,
		OwnKey:     own,
		Owner:      o.ID,
		Poll:       c.Poll,
		Identities: c.Identities,
		History:    reconciler.History(c.History),
		MayAllow:   c.Verify.Allow,
		Notify:     places,
		Log:        o.Log,
		Metrics:    o.Metrics,
	})
	if err != nil {
		return err
	}
	o.Services = append(o.Services, r.Run, writes.Run)
	o.REST.Collectors = append(o.REST.Collectors, r.Collector())
	if len(c.Hooks) == 0 {
		return nil
	}
	hooks := webhook.Options{Trigger: r.Moved, Log: o.Log}
	for _, h := range c.Hooks {
		hooks.Hooks = append(hooks.Hooks, webhook.Hook{
			Name: h.Name, Provider: h.Provider, Repo: cmp.Or(h.Repo, c.Repo), Branch: c.Branch, Secrets: h.Secrets,
		})
	}
	o.REST.Hooks, err = webhook.New(hooks)
	return err
}

// places returns the targets of notifications, each with a unique name.
func (c *Config) places() (all []*notify.Place, err error) {
	transport := outbound.Options(c.Git).Transport()
	for _, n := range c.Notify {
		o := notify.PlaceOptions{
			Name:      n.Name,
			Provider:  n.Provider,
			URL:       n.URL,
			URLFile:   n.URLFile,
			Token:     n.Token,
			Secret:    n.Secret,
			Body:      n.Body,
			Events:    n.Events,
			Transport: transport,
			Letter:    notify.Letter{User: n.User, Password: n.Password, From: n.From, To: n.To},
		}
		switch {
		case forge.Provider(n.Provider).Known():
			o.URL = cmp.Or(n.URL, c.Repo)
		case n.Provider == notify.Mail:
			o.Letter.CA = c.Git.CA
		}
		p, err := notify.NewPlace(o)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *notify.Place) bool { return other.Name() == n.Name }) {
			return nil, fmt.Errorf("cannot notify %q: two places have this name", n.Name)
		}
		all = append(all, p)
	}
	return all, nil
}

// commenters returns the forges of notify that comment on pull requests.
func (c *Config) commenters(places []*notify.Place, repo gitrepo.Options) (all []*pulls.Commenter, err error) {
	for i, n := range c.Notify {
		o := pulls.Options{Name: n.Name, Forge: places[i].Forge(), Forks: n.Plans == "forks", Repo: repo, Log: repo.Log}
		o.Repo.Dir = filepath.Join(c.DataDir, "pulls", n.Name)
		switch {
		case o.Forge == nil && n.Plans != "":
			return nil, fmt.Errorf("cannot use plans of %q: only forges have plans", n.Name)
		case n.Plans == "off" || o.Forge == nil:
			continue
		case n.Plans != "" && n.Plans != "branches" && !o.Forks:
			return nil, fmt.Errorf("cannot use plans: %.40q of %q: it is branches, forks or off", n.Plans, n.Name)
		}
		p, err := pulls.New(o)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
