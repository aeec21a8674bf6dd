package natsd

import (
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// NewOpen returns a server on loopback without credentials, TLS and stored data, to measure the cost of a bus without
// checks. Dir has only a lock.
func NewOpen(dir string, log *slog.Logger) *Server {
	return &Server{log: newLogger(log), opts: &server.Options{
		Host:                  "127.0.0.1",
		Port:                  server.RANDOM_PORT,
		StoreDir:              dir,
		DisableShortFirstPing: true,
		NoSigs:                true,
		NoLog:                 true,
	}}
}
