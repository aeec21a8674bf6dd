package natsd

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-c01c3da5/zester/peel/loglimit"
)

// Refused reports whether a line of a server's log is about a refused publish or subscription.
func Refused(r slog.Record) bool {
	return strings.HasPrefix(r.Message, "bus: ") &&
		(strings.Contains(r.Message, "Publish Violation") || strings.Contains(r.Message, "Subscription Violation"))
}

// logger writes the log of the server. Notices are about its internals and so have the level Debug. A fatal error is
// kept for [Server.Start].
type logger struct {
	log      *slog.Logger
	refusals *loglimit.Limiter // by host and kind

	mu    sync.Mutex
	first string // the first fatal line
	stuck string // the first line about a stream that stores no more messages, see [Server.Stuck]
}

func newLogger(log *slog.Logger) *logger { return &logger{log: log, refusals: loglimit.New(log)} }

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("bus: " + fmt.Sprintf(format, v...)) }

func (l *logger) Warnf(format string, v ...any) { l.log.Warn("bus: " + fmt.Sprintf(format, v...)) }

// Errorf limits errors of connections, so that other processes cannot fill the log.
func (l *logger) Errorf(format string, v ...any) {
	text := "bus: " + fmt.Sprintf(format, v...)
	if host := hostOf(text); host != "" {
		kinds := []string{server.ErrAuthentication.Error(), "Publish Violation", "Subscription Violation", ""}
		i := slices.IndexFunc(kinds, func(kind string) bool { return strings.Contains(text, kind) })
		l.refusals.Warn(host+" "+kinds[i], text)
		return
	}
	for _, what := range []string{"Critical write error", "resource limits exceeded for server"} {
		if strings.Contains(text, what) {
			l.mu.Lock()
			if l.stuck == "" {
				l.stuck = strings.TrimPrefix(text, "bus: ")
			}
			l.mu.Unlock()
		}
	}
	l.log.Error(text)
}

// hostOf returns the host at the beginning of a line about a connection, without the port, which differs each time;
// empty for other lines.
func hostOf(text string) string {
	address, _, _ := strings.Cut(strings.TrimPrefix(text, "bus: "), " ")
	host, _, _ := net.SplitHostPort(address)
	return host
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = fmt.Sprintf(format, v...)
	}
}

func (l *logger) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}
