package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

// An issuer is the access to the keys, with which a master issues and revokes credentials. The zero value: no keys.
type issuer struct {
	keys   *keystore.Keys
	update func(ctx context.Context, account string) error
	// rotated issues the credentials of the master itself again; nil: it has none.
	rotated func() error
}

// externalIssuer returns the issuer for an external server, if the keys that it trusts are in the data directory.
func (m *Master) externalIssuer() (issuer, error) {
	dir := keystore.Dir(m.o.DataDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return issuer{}, nil
	}
	keys, err := keystore.OpenWith(dir, m.o.Signer)
	if err != nil {
		return issuer{}, err
	}
	return issuer{
		keys:   keys,
		update: func(ctx context.Context, account string) error { return m.updateExternal(ctx, keys, account) },
	}, nil
}

// claimsUpdate is the subject on which servers with a resolver of their own accept the JWT of an account.
const (
	claimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"
	updateLimit  = 5 * time.Second
)

// updateExternal sends the JWT of an account to an external server. It uses a connection of its own in the system
// account, to which nothing else in a master has access.
func (m *Master) updateExternal(ctx context.Context, keys *keystore.Keys, account string) error {
	creds, err := keys.SystemCreds(time.Minute)
	if err != nil {
		return err
	}
	nc, err := m.connectOnce(creds, nats.InboxPrefix[:len(nats.InboxPrefix)-1])
	if err != nil {
		return fmt.Errorf("cannot reach the bus at %s in its system account: %w", m.o.NATS, err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, updateLimit)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, claimsUpdate, []byte(account))
	if err != nil {
		return fmt.Errorf("the bus accepts no accounts; it needs the resolver that zester auth export prints: %w", err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("cannot read the reply of the bus about an account: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("the bus refuses an account: %s", answer.Error.Description)
	}
	return nil
}

// connectOnce connects to the bus with another credential than the master's, for one request.
func (m *Master) connectOnce(creds []byte, inbox string) (*nats.Conn, error) {
	opts, url := []nats.Option{dial.CheckedBy(m.o.CA)}, m.o.NATS
	if m.bus != nil {
		opts, url = append(opts, nats.InProcessServer(m.bus)), embedded
	}
	opts = append(append(opts, m.o.Connect...),
		nats.UserCredentialBytes(creds), nats.Name("master "+m.o.ID+" issuer"), nats.NoReconnect(),
		nats.CustomInboxPrefix(inbox), dial.Encrypted())
	return nats.Connect(url, opts...)
}

// keepAudit changes how long the bus keeps the audit log, and in how many copies. A master without the keys leaves the
// log as it is.
func (m *Master) keepAudit(ctx context.Context, i issuer, kept bucket.Kept) error {
	if i.keys == nil {
		return nil
	}
	creds, err := i.keys.KeeperCreds(time.Minute)
	if err != nil {
		return err
	}
	nc, err := m.connectOnce(creds, grants.KeeperInbox)
	if err != nil {
		return fmt.Errorf("cannot reach the bus to change the audit log: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return natsd.ChangeAudit(ctx, js, kept)
}

// issuing returns the authority that issues and revokes credentials, nil without keys.
func (m *Master) issuing(ctx context.Context, js jetstream.JetStream, i issuer) (*auth.Authority, error) {
	if i.keys == nil {
		return nil, nil
	}
	o := auth.AuthorityOptions{Keys: i.keys, JetStream: js, Update: i.update, Rotated: i.rotated, Log: m.log}
	if m.o.REST.Listen != "" && m.o.REST.Cert == "" {
		var err error
		if o.CA, err = m.ca(); err != nil {
			return nil, err
		}
	}
	if m.o.NATS != "" {
		o.BusCA = m.o.CA
	}
	return auth.NewAuthority(ctx, o)
}
