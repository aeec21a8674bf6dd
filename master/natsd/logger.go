package natsd

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// Refused reports whether a line of a server's log is about something that a connection may not publish or hear.
func Refused(r slog.Record) bool {
	return strings.HasPrefix(r.Message, "bus: ") &&
		(strings.Contains(r.Message, "Publish Violation") || strings.Contains(r.Message, "Subscription Violation"))
}

// logger hands the server's own words on. Its notices are a log of the server's insides, hence Debug. What would
// have ended a server of its own process is kept for Start.
type logger struct {
	log *slog.Logger

	mu    sync.Mutex
	first string // of the fatal ones
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("bus: " + fmt.Sprintf(format, v...)) }

func (l *logger) Warnf(format string, v ...any) { l.log.Warn("bus: " + fmt.Sprintf(format, v...)) }

func (l *logger) Errorf(format string, v ...any) { l.log.Error("bus: " + fmt.Sprintf(format, v...)) }
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}

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
