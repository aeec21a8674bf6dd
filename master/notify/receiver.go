// File receiver.go sends messages about alerts to receivers outside the fleet: chats, mailboxes, PagerDuty,
// Alertmanager and webhooks. Make a receiver with [NewReceiver], then call [Receiver.Send]. [NewReceiverCall] is for a
// dead man's switch: a service that raises an alarm when it is no longer called.
//
// Guarantees: a message has the same identifier each time it is sent, so a receiver that compares identifiers shows it
// once. Secrets and addresses with keys come from files that are read for each message; errors do not show them. Texts
// are cut, and strings that look like credentials are hidden in messages to chats and mailboxes. A request ends after
// 20 s, and no redirect is followed. Errors have the type [outbound.Error].

package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A ReceiverProvider is a kind of receiver.
type ReceiverProvider string

// The providers.
const (
	ReceiverSlack        ReceiverProvider = "slack"
	ReceiverTeams        ReceiverProvider = "teams"
	ReceiverMail         ReceiverProvider = "mail"
	ReceiverPagerDuty    ReceiverProvider = "pagerduty"    // Events API v2
	ReceiverAlertmanager ReceiverProvider = "alertmanager" // API v2
	ReceiverWebhook      ReceiverProvider = "webhook"      // CloudEvents 1.0, structured JSON
)

var receiverProviders = []ReceiverProvider{
	ReceiverSlack, ReceiverTeams, ReceiverMail, ReceiverPagerDuty, ReceiverAlertmanager, ReceiverWebhook,
}

// pagerDutyURL receives events of accounts in the United States; others set url.
const pagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

// maxReceiverAnswer bounds an answer, in bytes.
const maxReceiverAnswer = 64 << 10

// ReceiverOptions configure a receiver. URLFile, Key, Secret and Letter.Password are files that are read for each
// message.
type ReceiverOptions struct {
	Name     string // letters, digits, "_" and "-"
	Provider ReceiverProvider
	// URL is the address of a chat or webhook, of Alertmanager without /api/v2/alerts, of PagerDuty's events (if empty,
	// the one for accounts in the United States), or smtp://HOST:PORT or smtps://HOST:PORT of a mail server.
	URL     string
	URLFile string // file with the address, for an address that holds a key
	Key     string // file with the routing key of an integration of PagerDuty
	Secret  string // file with the key that signs the messages to a webhook; if empty, they are not signed
	Letter  Letter // for a mail server
	// Transport sends HTTP requests; if nil, [http.DefaultTransport].
	Transport http.RoundTripper
}

// A Receiver receives messages. Its methods may be called from several goroutines.
type Receiver struct {
	o      ReceiverOptions
	place  *Place // of a chat or mailbox, else nil
	to     outbound.Address
	client *outbound.Client
}

var receiverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// NewReceiver checks the options; no file is read and nothing is sent.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	if !receiverName.MatchString(o.Name) {
		return nil, fmt.Errorf(`cannot send alerts to %.60q: want a name of 1 to 40 letters, digits, "_" and "-"`,
			o.Name)
	}
	r := &Receiver{o: o, to: outbound.Address{URL: o.URL, File: o.URLFile}, client: outbound.New(o.Transport)}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("cannot send alerts to %q: %w", o.Name, err)
	}
	return r, nil
}

func (r *Receiver) check() (err error) {
	o := r.o
	switch {
	case !slices.Contains(receiverProviders, o.Provider):
		return fmt.Errorf("provider %.40q is none of %v", o.Provider, receiverProviders)
	case o.Provider != ReceiverPagerDuty && o.Key != "":
		return errors.New("a key is for pagerduty; messages to a webhook are signed with secret")
	case o.Provider == ReceiverPagerDuty && o.Key == "":
		return errors.New("key is required: the file with the routing key of the integration")
	case o.Provider != ReceiverWebhook && o.Secret != "":
		return errors.New("a secret is for webhooks")
	case r.isText():
		if r.place, err = NewPlace(PlaceOptions{
			Name:      o.Name,
			Provider:  PlaceProvider(o.Provider),
			URL:       o.URL,
			URLFile:   o.URLFile,
			Letter:    o.Letter,
			Transport: o.Transport,
		}); err != nil {
			return errors.Unwrap(err) // it begins with the name as well
		}
		return nil
	case o.Letter.User != "" || o.Letter.Password != "" || o.Letter.From != "" || len(o.Letter.To) > 0:
		return errors.New("user, password, from and to are for mail")
	case o.Provider == ReceiverPagerDuty && r.to == outbound.Address{}:
		r.to.URL = pagerDutyURL
	}
	return r.to.Check()
}

// isText reports whether people read the messages, as in a chat or mailbox.
func (r *Receiver) isText() bool {
	return slices.Contains([]ReceiverProvider{ReceiverSlack, ReceiverTeams, ReceiverMail}, r.o.Provider)
}

// Name returns Options.Name.
func (r *Receiver) Name() string { return r.o.Name }

// Provider returns Options.Provider.
func (r *Receiver) Provider() ReceiverProvider { return r.o.Provider }

// Joins reports whether Send makes one text of several messages. Such a receiver should get few and large batches.
func (r *Receiver) Joins() bool { return r.isText() }

// Forgets reports whether the receiver ends an alert by itself if the alert is not sent again.
func (r *Receiver) Forgets() bool { return r.o.Provider == ReceiverAlertmanager }

// Send sends messages, the oldest first, and returns how many were sent before an error.
func (r *Receiver) Send(ctx context.Context, all []AlertMessage) (sent int, err error) {
	all = slices.Clone(all)
	for i := range all {
		all[i].Text = Clean(all[i].Text)
	}
	switch r.o.Provider {
	case ReceiverPagerDuty:
		sent, err = each(all, func(m AlertMessage) error { return r.page(ctx, m) })
	case ReceiverWebhook:
		sent, err = each(all, func(m AlertMessage) error { return r.event(ctx, m) })
	case ReceiverAlertmanager:
		if err = r.manage(ctx, all); err == nil {
			sent = len(all)
		}
	default:
		if err = r.place.SendText(ctx, textOf(all)); err == nil {
			sent = len(all)
		}
	}
	if err == nil || r.place != nil {
		return sent, err
	}
	cannot := fmt.Errorf("cannot send alerts to %q: %w", r.o.Name, err)
	if known, ok := errors.AsType[*outbound.Error](err); ok {
		return sent, &outbound.Error{Status: known.Status, Final: known.Final, After: known.After, Err: cannot}
	}
	return sent, &outbound.Error{Err: cannot}
}

func each(all []AlertMessage, send func(AlertMessage) error) (sent int, err error) {
	for _, m := range all {
		if err := send(m); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// post sends a value as JSON. path is added to the address.
func (r *Receiver) post(ctx context.Context, path, kind string, value any, secrets ...string) error {
	body, err := json.Marshal(value)
	if err != nil {
		return &outbound.Error{Err: err, Final: true}
	}
	_, err = r.client.Post(ctx, outbound.Post{
		To:      r.to,
		Path:    path,
		Type:    kind,
		Body:    body,
		Key:     r.o.Secret,
		Secrets: secrets,
	}, maxReceiverAnswer)
	return err
}

// A ReceiverCall is an address that gets requests without content, such as a dead man's switch.
type ReceiverCall struct {
	to     outbound.Address
	client *outbound.Client
}

// NewReceiverCall checks an address; no file is read and nothing is sent. transport is as in [ReceiverOptions].
func NewReceiverCall(to outbound.Address, transport http.RoundTripper) (*ReceiverCall, error) {
	if err := to.Check(); err != nil {
		return nil, err
	}
	return &ReceiverCall{to, outbound.New(transport)}, nil
}

// Do makes one request.
func (c *ReceiverCall) Do(ctx context.Context) error {
	_, err := c.client.Post(ctx, outbound.Post{To: c.to}, maxReceiverAnswer)
	return err
}
