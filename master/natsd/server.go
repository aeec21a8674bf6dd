// Package natsd runs the embedded NATS server with JetStream, and makes the buckets and streams of zester on any
// server. Call [New] and [Server.Start] for the embedded server, and [Provision] for the buckets and streams.
//
// Guarantees: the server refuses connections without a credential of its operator ([Trust]); it listens with TLS only,
// on loopback by default; Provision creates missing streams, updates changed ones, and never deletes one.
//
// No other package imports the code of the server.
package natsd

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	startTimeout = 30 * time.Second

	// authTimeout is long enough for thousands of peels that reconnect at once and wait for the check of their JWTs.
	// After the default of 2 s the server closes their connections, and they connect again.
	authTimeout = 30 * time.Second
)

// hintPort is the hint if another process listens on the port.
const hintPort = "if that is another master's bus, use it in place of one of your own: " +
	"zester-master --nats URL --creds FILE; " +
	"else choose another port with --listen"

// Trust has the JWTs by which the server checks credentials. It has no secret.
type Trust struct {
	Operator      string            // the operator's JWT
	SystemAccount string            // public key of the account in which the server publishes its own events
	Accounts      map[string]string // JWTs of all accounts by public key
}

// Options are the options of a Server.
type Options struct {
	Dir        string // of the store; it is created if it is missing. A second server on it fails
	Host       string // default 127.0.0.1
	Port       int    // 0: one that the kernel chooses
	DontListen bool   // no sockets: connections are made with InProcessConn only
	Trust      Trust
	TLS        *tls.Config // for sockets; required unless DontListen is set
	MaxPayload int         // of a message, in bytes; 0: [wire.MaxMessage]
	Log        *slog.Logger
}

// Server is one run of the embedded server. Its methods may be called from several goroutines.
type Server struct {
	opts *server.Options
	log  *logger

	// Set by Start.
	srv  *server.Server
	lock *os.File
}

// New checks the options. Errors name what is wrong with them.
func New(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("cannot set up the bus: no directory for its store")
	}
	if o.TLS == nil && !o.DontListen {
		return nil, errors.New("cannot set up the bus: no certificate to listen with")
	}
	opts := &server.Options{
		Host:                   o.Host,
		Port:                   o.Port,
		DontListen:             o.DontListen,
		JetStream:              true,
		StoreDir:               o.Dir,
		DisableJetStreamBanner: true,
		MaxPayload:             int32(cmp.Or(o.MaxPayload, wire.MaxMessage)),
		MaxConn:                maxConnections(),
		AuthTimeout:            authTimeout.Seconds(),
		// With an early PING, clients close their connections and connect again while many connect at the same time.
		DisableShortFirstPing: true,
		NoSigs:                true,
		NoLog:                 true,
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if o.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, gate(o.TLS,
			handshakesEach*runtime.GOMAXPROCS(0)), authTimeout.Seconds()
	}
	if err := loadTrust(opts, o.Trust); err != nil {
		return nil, fmt.Errorf("cannot set up the bus: %w", err)
	}
	return &Server{opts: opts, log: newLogger(o.Log)}, nil
}

// forFiles is the number of open files that are kept for other uses than connections to the bus: files of the streams
// and of the repo, and connections to REST.
const forFiles = 2048

// maxConnections bounds the connections, so that many of them leave files to the streams: a stream without one loses
// messages. It is 0, the default of 65,536, if the process may open more files.
func maxConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil ||
		files.Cur > server.DEFAULT_MAX_CONNECTIONS+forFiles {
		return 0
	}
	return int(files.Cur - min(files.Cur/4, forFiles))
}

func loadTrust(opts *server.Options, t Trust) error {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return fmt.Errorf("the operator's JWT: %w", err)
	}
	if t.Accounts[t.SystemAccount] == "" {
		return fmt.Errorf("no JWT of the system account %q", t.SystemAccount)
	}
	resolver := &server.MemAccResolver{}
	for public, token := range t.Accounts {
		claims, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			return fmt.Errorf("the JWT of account %s: %w", public, err)
		}
		if claims.Subject != public || !operator.DidSign(claims) {
			return fmt.Errorf("the JWT of account %s is for %s, signed by %s", public, claims.Subject, claims.Issuer)
		}
		if err := resolver.Store(public, token); err != nil {
			return fmt.Errorf("the JWT of account %s: %w", public, err)
		}
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{operator}
	opts.SystemAccount = t.SystemAccount
	opts.AccountResolver = resolver
	return nil
}

// Start starts the server and returns when it accepts connections and has opened the stored streams. After an error
// nothing runs. Call it once.
func (s *Server) Start() error {
	err := os.MkdirAll(s.opts.StoreDir, 0o700)
	if err == nil {
		s.lock, err = lock(filepath.Join(s.opts.StoreDir, "lock"))
	}
	if err != nil {
		return fmt.Errorf("cannot start the bus in %s: %w", s.opts.StoreDir, err)
	}
	if s.srv, err = server.NewServer(s.opts); err != nil {
		return errors.Join(fmt.Errorf("cannot start the bus in %s: %w", s.opts.StoreDir, err), s.lock.Close())
	}
	s.srv.SetLoggerV2(s.log, false, false, false)
	s.srv.Start()
	reason := s.log.fatal()
	if reason == "" && !s.srv.ReadyForConnections(startTimeout) {
		reason = fmt.Sprintf("not ready after %v", startTimeout)
	}
	if reason != "" {
		s.Shutdown()
		err := fmt.Errorf("cannot start the bus in %s: %s", s.opts.StoreDir, reason)
		if strings.Contains(reason, syscall.EADDRINUSE.Error()) {
			return &dial.BusError{What: err.Error(), Hint: hintPort, Err: err}
		}
		return err
	}
	return nil
}

// lock reserves the store for this process until the file is closed. The server itself does not lock it, and opens it
// before it notices that its port is in use.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another server uses it (%w)", err), f.Close())
	}
	return f, nil
}

// URL returns the address for clients, with the chosen port. It is empty if the server does not listen.
func (s *Server) URL() string {
	if s.opts.DontListen {
		return ""
	}
	return s.srv.ClientURL()
}

// InProcessConn connects a client of this process without a socket, once the server has started: pass the server to
// [nats.InProcessServer]; the URL is then ignored. Such a connection authenticates like all others.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.InProcessConn() }

// Update replaces the JWT of an account. The server closes connections whose credentials it revokes at once; others
// stay.
func (s *Server) Update(token string) error {
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return fmt.Errorf("cannot update an account of the bus: %w", err)
	}
	if !s.opts.TrustedOperators[0].DidSign(claims) {
		return fmt.Errorf("cannot update account %s of the bus: its JWT is signed by %s", claims.Subject, claims.Issuer)
	}
	if err := s.opts.AccountResolver.Store(claims.Subject, token); err != nil {
		return fmt.Errorf("cannot update account %s of the bus: %w", claims.Subject, err)
	}
	account, err := s.srv.LookupAccount(claims.Subject)
	if err != nil {
		return fmt.Errorf("cannot update account %s of the bus: %w", claims.Subject, err)
	}
	s.srv.UpdateAccountClaims(account, claims)
	return nil
}

// Stuck returns the server's log line about a stream that stores no further message, empty if there is none. A stream
// whose file could not be written, or that met the limit for all streams, refuses every later message until the server
// is restarted, even if the disk has room again.
func (s *Server) Stuck() string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.stuck
}

// Free returns the free space on the disk of the store, in bytes.
func (s *Server) Free() (uint64, error) { return FreeSpace(s.opts.StoreDir) }

// FreeSpace returns the free space on the disk of a directory, in bytes.
func FreeSpace(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("cannot read the free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

// Shutdown stops a started server: it closes all connections and the store, and returns when nothing runs.
func (s *Server) Shutdown() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	if err := s.lock.Close(); err != nil {
		s.log.Errorf("cannot release the store: %v", err)
	}
}
