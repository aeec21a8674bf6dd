package api

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	// for a connection to one server; then the next server is tried
	dialWait = 5 * time.Second
	// for the greeting and the handshake of a server, which needs no leader but has thousands of peels to greet after
	// an outage, each in its turn
	connectWait   = 15 * time.Second
	reconnectWait = 250 * time.Millisecond
	// for a reply, if the caller sets no deadline; an election of the bus takes up to 10 s
	answerWait   = 15 * time.Second
	dispatchWait = 30 * time.Second // the same for the reply to a dispatch
)

// ClientOptions are the address of the bus and the credential of the user.
type ClientOptions struct {
	URL   string
	Creds []byte // content of a .creds file; it has the name of the user
	File  string // has Creds, and is read at each later connection: somebody renews it; empty: nobody does
	// file with the certificates by which the bus is checked; empty: those in Creds, else those of the system
	CA string
	// Connect are further options of the connection.
	Connect []nats.Option
}

// A Client sends requests to masters as one user. Its methods may be called from several goroutines. Their errors are
// [*Error], except those of a canceled context.
type Client struct {
	nc      *nats.Conn
	o       ClientOptions
	user    string
	denials *denials
	// OnWait is called when a request waits for a second person whose secret half this client has made; the request
	// then goes on when somebody has decided. If nil, it ends with [CodeWaits].
	OnWait func(error)
}

// Connect connects to the bus. If the bus is away it fails at once.
func Connect(o ClientOptions) (*Client, error) {
	claims, err := userClaims(o.Creds)
	if err != nil {
		return nil, fail(CodeDenied, err, "cannot use the credential")
	}
	d := newDenials()
	opts := []nats.Option{
		nats.Name("zester"), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.Timeout(connectWait), nats.SetCustomDialer(&net.Dialer{Timeout: dialWait}),
		dial.Pinged(dial.ServicePing),
	}
	roots, err := dial.Roots(o.Creds)
	if err != nil {
		return nil, fail(CodeDenied, err, "cannot use the credential")
	}
	carried := func(n *nats.Options) error { n.TLSConfig = &tls.Config{RootCAs: roots}; return nil }
	opts = append(opts, carried, dial.CheckedBy(o.CA))
	opts = append(opts, o.Connect...)
	own := nats.UserCredentialBytes(o.Creds)
	if o.File != "" {
		own = nats.UserCredentials(o.File)
	}
	opts = append(opts,
		own,
		nats.CustomInboxPrefix(wire.UserInbox(claims.Name)),
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { d.onError(err) }),
		dial.Encrypted())
	nc, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, connectError(o, err)
	}
	return &Client{nc: nc, o: o, user: claims.Name, denials: d}, nil
}

// User returns the name in the credential, under which the client's jobs are recorded.
func (c *Client) User() string { return c.user }

// Close ends the connection.
func (c *Client) Close() { c.nc.Close() }

// Ended reports whether the bus has closed the connection because the credential has ended.
func (c *Client) Ended() bool { return c.nc.IsClosed() && dial.Refusal(c.nc.LastError()) != nil }

// Ask sends a request and decodes the reply into answer. Without a deadline of ctx it waits 15 s, 30 s for the reply to
// a dispatch, and at most 150 s for an order to the master that leads. Use it by [Endpoint.Ask].
func (c *Client) Ask(ctx context.Context, noun, verb string, question, answer any) error {
	subject := Subject(noun, verb, c.user)
	if noun == SyncStatus.Noun {
		return c.askLeader(ctx, verb, question, answer)
	}
	if subject == wire.Dispatch(c.user) {
		limited, cancel := within(ctx, dispatchWait)
		defer cancel()
		ctx = limited
	}
	return c.ask(ctx, subject, question, answer)
}

func (c *Client) ask(ctx context.Context, subject string, question, answer any) error {
	data, err := canon.Marshal(question)
	if err != nil {
		return fail(CodeInvalid, err, "cannot ask %s", subject)
	}
	if limit := c.nc.MaxPayload(); int64(len(data)) > limit {
		return fail(CodeInvalid, nil, "cannot ask %s: the request takes %d bytes, the bus carries %d", subject,
			len(data), limit)
	}
	ctx, cancel := within(ctx, answerWait)
	defer cancel()
	msg, err := c.request(ctx, subject, data)
	if err != nil && c.Ended() {
		return refusedCredential(c.o, c.nc.LastError())
	}
	if err != nil {
		return requestError(subject, err)
	}
	if err := ReplyError(msg); err != nil {
		return err
	}
	if err := canon.Unmarshal(msg.Data, answer); err != nil {
		return fail(CodeUnavailable, err, "cannot read the answer of %s", subject)
	}
	return nil
}

// Resolve returns all peels that an expression selects.
func (c *Client) Resolve(ctx context.Context, expr string) (*TargetsPage, error) {
	all := &TargetsPage{}
	for q := (ResolveRequest{Expr: expr}); ; {
		a, err := TargetResolve.Ask(ctx, c, q)
		if err != nil {
			return nil, err
		}
		all.Peels = append(all.Peels, a.Peels...)
		all.Offline = append(all.Offline, a.Offline...)
		all.Unknown = append(all.Unknown, a.Unknown...)
		all.Total = len(all.Peels)
		if q.Cursor = a.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// NodeGroups returns the names of the node groups of the fleet, sorted.
func (c *Client) NodeGroups(ctx context.Context) ([]string, error) {
	e, err := TargetExplain.Ask(ctx, c, ExplainRequest{Expr: "*", Groups: true})
	if err != nil {
		return nil, err
	}
	return e.Groups, nil
}

// Rows yields the targets of a job by ID, each with what it returned so far. After an error nothing more comes.
func (c *Client) Rows(ctx context.Context, jid wire.JID) iter.Seq2[job.Row, error] {
	return rows(jid, func(q JobRequest) (*job.RowsPage, error) { return c.rowsPage(ctx, q) })
}

// EndedRows is Rows for a job that has ended, as the caller knows. A master that reads an older record, from a copy
// that lags, is asked again for 15 s; then the iteration ends with an error.
func (c *Client) EndedRows(ctx context.Context, jid wire.JID) iter.Seq2[job.Row, error] {
	return rows(jid, func(q JobRequest) (*job.RowsPage, error) {
		for giveUp := time.Now().Add(answerWait); ; {
			page, err := c.rowsPage(ctx, q)
			if err != nil || page.Job.Status.Final() {
				return page, err
			}
			if time.Now().After(giveUp) {
				err := errors.New("the masters do not know yet that it has ended")
				return nil, fail(CodeUnavailable, err, "cannot read the returns of job %s", jid)
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(busyPause):
			}
		}
	})
}

func (c *Client) rowsPage(ctx context.Context, q JobRequest) (*job.RowsPage, error) {
	return JobReturns.Ask(ctx, c, q)
}

// rows yields the rows of all pages.
func rows(jid wire.JID, read func(JobRequest) (*job.RowsPage, error)) iter.Seq2[job.Row, error] {
	return func(yield func(job.Row, error) bool) {
		for q := (JobRequest{JID: jid}); ; {
			page, err := read(q)
			if err != nil {
				yield(job.Row{}, err)
				return
			}
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// Peels returns the peels that an expression selects, all for an empty one, without their facts.
func (c *Client) Peels(ctx context.Context, expr string) ([]Peel, error) {
	return c.peels(ctx, PeelsRequest{Target: expr})
}

// PeelsWithFacts returns the same as Peels, with the facts of each peel: some KiB a peel.
func (c *Client) PeelsWithFacts(ctx context.Context, expr string) ([]Peel, error) {
	return c.peels(ctx, PeelsRequest{Target: expr, Facts: true})
}

func (c *Client) peels(ctx context.Context, q PeelsRequest) ([]Peel, error) {
	all := []Peel{}
	for {
		page, err := PeelList.Ask(ctx, c, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Peels...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}
