package master

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// An ownBus is the embedded server of a master. It can be restarted while the master runs; its in-process connections
// go to the server that runs at that time.
type ownBus struct {
	keys *keystore.Keys
	url  string
	opts natsd.Options // with the port that was chosen at the first start

	mu  sync.Mutex
	srv *natsd.Server // nil while none runs
}

func (m *Master) startBus(keys *keystore.Keys, ca *pki.CA) (*ownBus, error) {
	o := natsd.Options{
		Dir: filepath.Join(m.o.DataDir, "bus"), Host: m.o.Host, Port: m.o.Port, Trust: natsd.Trust(keys.Trust()),
		TLS: ca.Config(append(m.o.Names, m.o.Host)...), Log: m.log,
	}
	b := &ownBus{keys: keys, opts: o}
	if err := b.start(); err != nil {
		return nil, err
	}
	b.url = b.srv.URL()
	u, err := url.Parse(b.url)
	if err == nil {
		b.opts.Port, err = strconv.Atoi(u.Port())
	}
	if err != nil {
		b.end()
		return nil, fmt.Errorf("cannot start the bus: its URL %q: %w", b.url, err)
	}
	return b, nil
}

// start runs a server. Callers do not hold mu.
func (b *ownBus) start() error {
	o := b.opts
	o.Trust = natsd.Trust(b.keys.Trust())
	srv, err := natsd.New(o)
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.srv = srv
	return nil
}

// end stops the server if one runs.
func (b *ownBus) end() {
	b.mu.Lock()
	srv := b.srv
	b.srv = nil
	b.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
	}
}

// running returns the server that runs now.
func (b *ownBus) running() (*natsd.Server, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.srv == nil {
		return nil, errors.New("the bus is being restarted")
	}
	return b.srv, nil
}

func (b *ownBus) update(account string) error {
	srv, err := b.running()
	if err != nil {
		return err
	}
	return srv.Update(account)
}

// InProcessConn connects to the server that runs now, without a socket.
func (b *ownBus) InProcessConn() (net.Conn, error) {
	srv, err := b.running()
	if err != nil {
		return nil, err
	}
	return srv.InProcessConn()
}

// room returns an error unless the streams are stored and the disk has room for more. It starts the server again if a
// stream is stuck and there is room.
func (b *ownBus) room(log *slog.Logger) error {
	srv, err := b.running()
	if err != nil { // the last try failed
		return b.start()
	}
	free, err := srv.Free()
	if err != nil {
		return err
	}
	if free < reserve {
		return fmt.Errorf("the disk of %s has %d MiB free, which is less than %d MiB: free some space; "+
			"the master then continues by itself",
			b.opts.Dir, free>>20, uint64(reserve)>>20)
	}
	stuck := srv.Stuck()
	if stuck == "" {
		return nil
	}
	log.Warn("bus is started again, because a stream has stored nothing since its disk was full", "dir", b.opts.Dir,
		"free_mib", free>>20, "err", stuck)
	b.end()
	return b.start()
}
