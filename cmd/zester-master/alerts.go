package main

import (
	"fmt"
	"net/http"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

// Messages is the part of master.yaml about messages to people and their tools.
type Messages struct {
	Notify []Place `yaml:"notify"` // places that receive notifications about revisions
	Alerts Alerts  `yaml:"alerts"` // receivers of alerts; the rules are in zester.yaml
}

// Alerts is the part of master.yaml about alerts.
type Alerts struct {
	Receivers []Receiver `yaml:"receivers"`
	Alive     Address    `yaml:"alive"` // dead man's switch, called each minute while all is well; empty: there is none
}

// Address is where an HTTP request goes. At most one of its fields is set.
type Address struct {
	URL     string `yaml:"url"`
	URLFile string `yaml:"url_file"` // file with the address, which is a secret
}

// Receiver configures a receiver of alerts.
type Receiver struct {
	Name     string                  `yaml:"name"`
	Provider notify.ReceiverProvider `yaml:"provider"`
	// of a chat, webhook, Alertmanager, mail server or Healthchecks; of PagerDuty outside the United States
	URL      string   `yaml:"url"`
	URLFile  string   `yaml:"url_file"` // file with the address of a chat, webhook or Healthchecks, which is a secret
	Key      string   `yaml:"key"`      // file with the routing key of PagerDuty
	Secret   string   `yaml:"secret"`   // file with the key that signs what a webhook gets
	User     string   `yaml:"user"`     // of the mail server; empty: no login
	Password string   `yaml:"password"` // file with the password of that user
	From     string   `yaml:"from"`     // address of mail
	To       []string `yaml:"to"`       // addresses of mail
	Entries  string   `yaml:"entries"`  // glob of the entries that healthchecks watches
}

// healthchecks is the provider of a service that is pinged when entries run. It gets no alerts.
const healthchecks notify.ReceiverProvider = "healthchecks"

// pings returns the service that is pinged when entries run.
func (r Receiver) pings(transport http.RoundTripper) (*notify.PingService, error) {
	if r.Key != "" || r.Secret != "" || r.User != "" || r.Password != "" || r.From != "" || len(r.To) > 0 {
		return nil, fmt.Errorf("cannot send pings to %q: healthchecks has url or url_file, and entries", r.Name)
	}
	return notify.NewPinger(notify.PingOptions{
		Name:      r.Name,
		To:        outbound.Address{URL: r.URL, File: r.URLFile},
		Entries:   r.Entries,
		Transport: transport,
	})
}

// alerts sets the options of alerts. They use the certificates and the proxy under git, as notifications do.
func (c *Config) alerts(o *master.Options) error {
	transport := outbound.Options(c.Git).Transport()
	names := map[string]bool{}
	for _, r := range c.Alerts.Receivers {
		if names[r.Name] {
			return fmt.Errorf("cannot send alerts to %q: two receivers have this name", r.Name)
		}
		names[r.Name] = true
		if r.Provider == healthchecks {
			service, err := r.pings(transport)
			if err != nil {
				return err
			}
			o.Alerts.Pings = append(o.Alerts.Pings, service)
			continue
		}
		if r.Entries != "" {
			return fmt.Errorf(
				"cannot send alerts to %q: entries is for healthchecks; rules in zester.yaml say which alerts it gets",
				r.Name,
			)
		}
		options := notify.ReceiverOptions{
			Name:      r.Name,
			Provider:  r.Provider,
			URL:       r.URL,
			URLFile:   r.URLFile,
			Key:       r.Key,
			Secret:    r.Secret,
			Transport: transport,
			Letter:    notify.Letter{User: r.User, Password: r.Password, From: r.From, To: r.To},
		}
		if r.Provider == notify.ReceiverMail {
			options.Letter.CA = c.Git.CA
		}
		made, err := notify.NewReceiver(options)
		if err != nil {
			return err
		}
		o.Alerts.Receivers = append(o.Alerts.Receivers, made)
	}
	if c.Alerts.Alive == (Address{}) {
		return nil
	}
	var err error
	if o.Alerts.Alive, err = notify.NewReceiverCall(outbound.Address{
		URL:  c.Alerts.Alive.URL,
		File: c.Alerts.Alive.URLFile,
	}, transport); err != nil {
		return fmt.Errorf("cannot use alerts.alive: %w", err)
	}
	return nil
}
