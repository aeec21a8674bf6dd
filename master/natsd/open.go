package natsd

import (
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// NewOpen returns a server on loopback that lets everybody in, without a credential and without TLS, and keeps nothing. It
// is what a bus costs before it checks anything, for measuring that. Dir holds a lock alone.
func NewOpen(dir string, log *slog.Logger) *Server {
	return &Server{log: newLogger(log), opts: &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, StoreDir: dir, DisableShortFirstPing: true, NoSigs: true, NoLog: true,
	}}
}
