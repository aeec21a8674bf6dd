package swarm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// External is a bus that somebody else runs. It has to be one that nobody uses yet: the peels of a swarm are given
// settings and its master leads. What a swarm keeps on it is deleted at the end, but for the audit, which no credential
// can take from a bus.
type External struct {
	URL  string
	CA   string // file with the certificates that it is checked against; empty: those of the system
	Keys string // folder of the keys whose accounts it has, as [keystore.Dir] says
}

// operator says how a person asks the master.
func (e *External) operator() (api.RunInfo, error) {
	keys, err := keystore.Open(e.Keys)
	if err != nil {
		return api.RunInfo{}, err
	}
	creds, err := keys.Creds(grants.RoleOperator, "swarm", 0)
	return api.RunInfo{URL: e.URL, CA: e.CA, Creds: string(creds)}, err
}

// options are those of a connection with a new credential.
func (e *External) options(role grants.Role, name string) ([]nats.Option, error) {
	keys, err := keystore.Open(e.Keys)
	if err != nil {
		return nil, err
	}
	creds, err := keys.Creds(role, name, 0)
	return orders{CA: e.CA}.options(creds), err
}

// cleaning is how long the deletion of what a swarm kept may take.
const cleaning = time.Minute

// keys is the folder of the keys that the bus of a part of the run trusts.
func (r *run) keys(part string) string {
	if r.o.External != nil {
		return r.o.External.Keys
	}
	return keystore.Dir(r.path(part))
}

// side is whose memory and processor time this process can tell.
func (r *run) side() string {
	if r.o.External != nil {
		return "master"
	}
	return "master and bus"
}

// dial connects as somebody who may read and write everything.
func dial(url, ca, keys, name string, opts ...nats.Option) (*nats.Conn, error) {
	k, err := keystore.Open(keys)
	if err != nil {
		return nil, err
	}
	creds, err := k.Creds(grants.RoleMaster, name, 0)
	if err != nil {
		return nil, err
	}
	opts = append(orders{CA: ca}.options(creds), append(opts, nats.Timeout(patience), nats.CustomInboxPrefix(grants.RoleMaster.Inbox(name)))...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the bus at %s: %w", url, err)
	}
	return nc, nil
}

// onExternal runs a part on the external bus, and deletes what that kept there. It refuses a bus on which anything is
// kept before.
func (r *run) onExternal(ctx context.Context, part func(context.Context) error) (err error) {
	e := r.o.External
	if _, err := os.Stat(e.Keys); err != nil {
		return fmt.Errorf("cannot use the bus at %s without its keys: %w", e.URL, err)
	}
	nc, err := dial(e.URL, e.CA, e.Keys, "swarm-owner")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	names, err := streams(ctx, js)
	if err != nil {
		return fmt.Errorf("cannot use the bus at %s: %w", e.URL, err)
	}
	if len(names) > 0 {
		return fmt.Errorf("cannot use the bus at %s: it keeps %s; a swarm needs one that nobody uses yet",
			e.URL, strings.Join(names, ", "))
	}
	defer func() {
		if e := deleteStreams(context.WithoutCancel(ctx), js); err == nil {
			err = e
		}
	}()
	return part(ctx)
}

// streams are the names of what a bus keeps beside the audit.
func streams(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	lister := js.StreamNames(ctx)
	for name := range lister.Name() {
		if name != natsd.StreamAudit {
			names = append(names, name)
		}
	}
	return names, lister.Err()
}

// deleteStreams deletes what a swarm kept.
func deleteStreams(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, cleaning)
	defer cancel()
	names, err := streams(ctx, js)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("cannot delete stream %s of the swarm: %w", name, err)
		}
	}
	return nil
}
