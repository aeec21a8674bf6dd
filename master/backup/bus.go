package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/dial"
)

// credentialTime is how long the credentials live that a backup or a restore uses: longer than either takes.
const credentialTime = 24 * time.Hour

// A Bus says where the bus of a master is.
type Bus struct {
	DataDir string           // of the master, with the keys
	Signer  *keystore.Signer // has keys that are not in DataDir; nil: there are none
	NATS    string           // URL of an external server; empty: the master's embedded one
	CA      string           // file with the certificates by which the external server is checked, see [dial.CheckedBy]
	Log     *slog.Logger
}

// Connect connects to the bus of a running master, for [Write].
func (b Bus) Connect() (*nats.Conn, error) {
	keys, err := b.keys()
	if err != nil {
		return nil, err
	}
	if b.NATS == "" {
		info, err := api.ReadRunInfo(b.DataDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &dial.BusError{
				What: "no master runs with the data directory " + b.DataDir,
				Hint: "a backup is made beside a running master: start it, or name its file with --config FILE",
				Err:  err,
			}
		}
		if err != nil {
			return nil, err
		}
		b.NATS, b.CA = info.URL, info.CA
	}
	creds, err := keys.ArchiverCreds(credentialTime)
	if err != nil {
		return nil, err
	}
	return b.dial(creds, grants.KeeperInbox)
}

// keys opens the keys, and never makes new ones.
func (b Bus) keys() (*keystore.Keys, error) {
	dir := keystore.Dir(b.DataDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &dial.BusError{
			What: "there are no keys in " + dir,
			Hint: "run this on the host of the master that has the keys, with --config FILE or --data-dir DIR",
			Err:  err,
		}
	}
	return keystore.OpenWith(dir, b.Signer)
}

func (b Bus) dial(creds []byte, inbox string, opts ...nats.Option) (*nats.Conn, error) {
	opts = append(opts, nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(inbox))
	opts = append(opts, nats.Name("zester backup"), nats.NoReconnect())
	nc, err := nats.Connect(b.NATS, append(opts, dial.CheckedBy(b.CA), dial.Encrypted())...)
	if err != nil {
		return nil, dial.Explain(fmt.Errorf("cannot reach the bus at %s: %w", b.NATS, err), b.CA)
	}
	return nc, nil
}

// An openBus is a bus that takes streams.
type openBus struct {
	Bus
	keys *keystore.Keys
	opts []nats.Option
	srv  *natsd.Server // nil: the server is external
}

// open starts a server on the store of the data directory, without a socket, unless the bus is external.
func (b Bus) open() (*openBus, error) {
	keys, err := b.keys()
	if err != nil || b.NATS != "" {
		return &openBus{Bus: b, keys: keys}, err
	}
	srv, err := natsd.New(natsd.Options{Dir: b.store(), DontListen: true, Trust: natsd.Trust(keys.Trust()), Log: b.Log})
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		return nil, err
	}
	b.NATS, b.CA = "nats://embedded", ""
	return &openBus{Bus: b, keys: keys, srv: srv, opts: []nats.Option{nats.InProcessServer(srv)}}, nil
}

// store returns the directory of the embedded server.
func (b Bus) store() string { return filepath.Join(b.DataDir, "bus") }

func (b *openBus) close() {
	if b.srv != nil {
		b.srv.Shutdown()
	}
}

// restorer connects with the permissions of [grants.Restorer].
func (b *openBus) restorer() (*nats.Conn, error) {
	creds, err := b.keys.RestorerCreds(credentialTime)
	if err != nil {
		return nil, err
	}
	return b.dial(creds, grants.KeeperInbox, b.opts...)
}

// restorerName is the name by which a restore is a master.
const restorerName = "restore"

// master connects with the permissions of a master.
func (b *openBus) master() (*nats.Conn, error) {
	creds, err := b.keys.Creds(grants.RoleMaster, restorerName, credentialTime)
	if err != nil {
		return nil, err
	}
	return b.dial(creds, grants.RoleMaster.Inbox(restorerName), b.opts...)
}
