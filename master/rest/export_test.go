package rest

import (
	"context"
	"net"
	"net/http"
	"reflect"
)

// Patterns are those of all routes of a server.
func (s *Server) Patterns(b Backend) []string {
	var n noted
	s.enter(b, &n)
	return n
}

type noted []string

func (n *noted) HandleFunc(pattern string, _ func(http.ResponseWriter, *http.Request)) {
	*n = append(*n, pattern)
}

func (n *noted) ServeHTTP(http.ResponseWriter, *http.Request) {}

// IsListener is for the names of a certificate.
var IsListener = isListener

// ServePlain is Serve without TLS, for pipes in fake time: the end of a TLS connection waits for a reader.
func (s *Server) ServePlain(ctx context.Context, l net.Listener) error {
	return s.serveBy(ctx, l, (*http.Server).Serve)
}

// EventID returns the ID of an event as it is written.
func EventID(id string) (string, error) {
	p, err := parsePosition(id)
	return p.String(), err
}

// FillLists makes lists of an answer that are nil empty ones.
func FillLists(answer any) { fillLists(reflect.ValueOf(answer)) }
