// File place.go sends an event to one place outside the fleet: as a commit status on a forge, a message in Slack or
// Teams, a mail, or a request to a webhook. Make a place with [NewPlace], then call [Place.Send].
//
// Guarantees: texts of an event are cut to lines of 600 bytes, and strings that look like credentials are hidden. Texts
// are escaped, so none is formatting, a mention or a header. Credentials come from files that are read for each
// message, so that they can be replaced without a restart; files and directories that other users can read or replace
// are refused. Errors show neither credentials nor the addresses of chats and webhooks, which hold keys. Sending a
// forge the same status again changes nothing there.
//
// Known gap: a secret in the error of a peel is not recognized unless a name that suggests a secret is next to it.

package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A PlaceProvider is a kind of place.
type PlaceProvider string

// The providers. Gitea includes Forgejo.
const (
	GitHub  = PlaceProvider(forge.GitHub)
	GitLab  = PlaceProvider(forge.GitLab)
	Gitea   = PlaceProvider(forge.Gitea)
	Slack   = PlaceProvider("slack")
	Teams   = PlaceProvider("teams")
	Mail    = PlaceProvider("mail")
	Webhook = PlaceProvider("webhook")
)

var providers = []PlaceProvider{GitHub, GitLab, Gitea, Slack, Teams, Mail, Webhook}

// PlaceOptions configure a place. Token, Secret, URLFile and Letter.Password are files that are read for each message.
type PlaceOptions struct {
	Name     string // letters, digits, "_" and "-"; a forge shows the status as zester/NAME
	Provider PlaceProvider
	// URL is the page of the repository on the forge, the address of a chat or webhook for messages, or
	// smtp://HOST:PORT or smtps://HOST:PORT of a mail server.
	URL     string
	URLFile string // file with the address of a chat or webhook, for an address that holds a key
	Token   string // file with the credential for a forge
	Secret  string // file with the key that signs the messages to a webhook; if empty, they are not signed
	Body    string // template of the messages to a webhook, see [NewPlace]; if empty, every field
	Events  []Kind // the kinds of events for the place; if empty, see [NewPlace]
	Letter  Letter // for a mail server
	// Transport sends HTTP requests; if nil, [http.DefaultTransport].
	Transport http.RoundTripper
}

// A Place receives events. Its methods may be called at the same time.
type Place struct {
	o       PlaceOptions
	kinds   []Kind
	forge   *forge.Client // nil unless the place is a forge
	client  *outbound.Client
	mailbox *mailbox // nil unless the place is a mail server
}

var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// NewPlace checks the options; no file is read and nothing is sent.
//
// If Events is empty, a webhook gets every event, and a chat or mailbox every event but progressing and superseded. A
// forge always gets exactly the events of RevisionKinds.
//
// In the body of a webhook ${event}, ${title}, ${text}, ${details}, ${state}, ${commit}, ${short}, ${branch},
// ${author}, ${subject}, ${where}, ${command}, ${by}, ${time}, ${peels}, ${applied}, ${failed}, ${offline} and
// ${seconds} are replaced by their values, escaped for a JSON string, and $$ by a dollar sign. The result has to be
// JSON.
func NewPlace(o PlaceOptions) (*Place, error) {
	p := &Place{o: o}
	if !name.MatchString(o.Name) {
		return nil, fmt.Errorf(`cannot notify %q: want a name of 1 to 40 letters, digits, "_" and "-"`, o.Name)
	}
	err := p.check()
	if err == nil {
		err = p.chooseKinds()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot notify %q: %w", o.Name, err)
	}
	p.client = outbound.New(o.Transport)
	return p, nil
}

func (p *Place) check() (err error) {
	o := p.o
	switch isForge := forge.Provider(o.Provider).Known(); {
	case !slices.Contains(providers, o.Provider):
		return fmt.Errorf("provider %q is none of %v", o.Provider, providers)
	case !isForge && o.Token != "":
		return errors.New("a token is for forges; messages to a webhook are signed with secret")
	case o.Provider != Webhook && (o.Secret != "" || o.Body != ""):
		return errors.New("secret and body are for webhooks")
	case o.Provider != Mail && !o.Letter.isZero():
		return errors.New("user, password, from, to and ca are for mail")
	case o.Provider == Mail && o.URLFile != "", isForge && o.URLFile != "":
		return errors.New("url_file is for slack, teams and webhooks")
	case isForge:
		p.forge, err = forge.New(forge.Options{
			Provider:  forge.Provider(o.Provider),
			URL:       o.URL,
			Token:     o.Token,
			Transport: o.Transport,
		})
		return err
	case o.Provider == Mail:
		p.mailbox, err = newMailbox(o.URL, o.Letter)
		return err
	}
	if err = p.address().Check(); err == nil && o.Provider == Webhook {
		_, err = fill(o.Body, Event{})
	}
	return err
}

func (p *Place) chooseKinds() error {
	all := slices.Concat(RevisionKinds, otherKinds)
	for _, k := range p.o.Events {
		if !slices.Contains(all, k) {
			return fmt.Errorf("event %.40q is none of %v", k, all)
		}
	}
	switch {
	case p.forge != nil && len(p.o.Events) > 0:
		return errors.New("events are for slack, teams, mail and webhooks: a forge shows one status of each commit")
	case p.forge != nil:
		p.kinds = RevisionKinds
	case len(p.o.Events) > 0:
		p.kinds = p.o.Events
	case p.o.Provider == Webhook:
		p.kinds = all
	default:
		p.kinds = slices.DeleteFunc(all, func(k Kind) bool { return slices.Contains(quiet, k) })
	}
	return nil
}

// Name returns Options.Name.
func (p *Place) Name() string { return p.o.Name }

// Wants reports whether the place gets events of a kind.
func (p *Place) Wants(k Kind) bool { return slices.Contains(p.kinds, k) }

// Forge returns the API of the repository, nil if the place is no forge.
func (p *Place) Forge() *forge.Client { return p.forge }

// Send sends one event to the place. Its errors are of the type [outbound.Error].
func (p *Place) Send(ctx context.Context, e Event) error {
	e = e.bounded()
	err := p.send(ctx, e)
	if err == nil {
		return nil
	}
	return failed(fmt.Errorf("cannot notify %q of %s %.7s: %w", p.o.Name, e.Kind, e.Revision.Commit, err))
}

// SendText sends a message to a chat or mailbox. Its errors are of the type [outbound.Error].
func (p *Place) SendText(ctx context.Context, m Text) error {
	err := p.sendText(ctx, m.bounded())
	if err == nil {
		return nil
	}
	return failed(fmt.Errorf("cannot notify %q: %w", p.o.Name, err))
}

// failed returns an error as an [outbound.Error], with what the one below it says about another try.
func failed(err error) error {
	if known, ok := errors.AsType[*outbound.Error](err); ok {
		return &outbound.Error{Status: known.Status, Final: known.Final, After: known.After, Err: err}
	}
	return &outbound.Error{Err: err}
}

func (p *Place) sendText(ctx context.Context, m Text) error {
	switch p.o.Provider {
	case Mail:
		return p.mailbox.send(ctx, m)
	case Slack:
		return p.post(ctx, func() ([]byte, error) { return slackMessage(m) }, "")
	case Teams:
		return p.post(ctx, func() ([]byte, error) { return teamsMessage(m) }, "")
	}
	return &outbound.Error{Final: true, Err: fmt.Errorf("a %s takes no text", p.o.Provider)}
}

func (p *Place) send(ctx context.Context, e Event) error {
	switch p.o.Provider {
	case Mail, Slack, Teams:
		return p.sendText(ctx, e.message())
	case Webhook:
		return p.post(ctx, func() ([]byte, error) { return fill(p.o.Body, e) }, p.o.Secret)
	}
	return p.forge.SetStatus(ctx, forge.Status{
		Commit:      string(e.Revision.Commit),
		Branch:      e.Branch,
		Name:        "zester/" + p.o.Name,
		State:       e.State,
		Description: e.Text,
	})
}

// address returns the address of a chat or webhook.
func (p *Place) address() outbound.Address { return outbound.Address{URL: p.o.URL, File: p.o.URLFile} }
