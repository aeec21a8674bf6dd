package rest

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
)

// Limits of hosts that request enrollment, which are not authenticated. A host sends a request every ten seconds at
// most, but a whole site may share one address; for IPv6 that is a network of 64 bits.
const (
	maxEnroll      = 8 << 10 // bytes
	joinsAtOnce    = 200
	joinsPerSecond = 20

	// Of these, requests without a token, so that one address does not use up what all hosts together may ask.
	strangersAtOnce    = 50
	strangersPerSecond = 1
)

// Enrolled is the reply to an accepted host.
type Enrolled struct {
	JWT     string    `json:"jwt"`
	Expires time.Time `json:"expires"`
	CA      string    `json:"ca,omitempty"` // certificates by which the host checks masters and the bus, in PEM
}

// enroll answers hosts that request a credential. They have no token of the API; the authority checks the request. A
// page in a browser on such a host can send no such request: browsers send JSON to another site only with its consent,
// and the listener refuses a request for a host name that is not its own.
func (r *routes) enroll() http.HandlerFunc {
	joins := bounds.NewLimiter[netip.Prefix](joinsPerSecond, joinsAtOnce)
	strangers := bounds.NewLimiter[netip.Prefix](strangersPerSecond, strangersAtOnce)
	return func(w http.ResponseWriter, req *http.Request) {
		if r.Authority == nil {
			problem(w, http.StatusNotFound, "this master has no keys, and enrolls nobody; ask another")
			return
		}
		if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil ||
			kind != "application/json" {
			problem(w, http.StatusUnsupportedMediaType,
				fmt.Sprintf("the request is %.100q, want Content-Type: application/json",
					req.Header.Get("Content-Type")))
			return
		}
		if !isListener(r.s.o.TLS, req.Host) {
			problem(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("this listener is not %.100q: use a name or an address of its certificate", req.Host))
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxEnroll))
		if err != nil {
			problem(w, http.StatusBadRequest, "the request cannot be read: "+err.Error())
			return
		}
		q, err := enroll.ParseRequest(text)
		if err != nil {
			problem(w, http.StatusBadRequest, sentence(err))
			return
		}
		q.From, _, _ = net.SplitHostPort(req.RemoteAddr)
		// A valid join token comes first: others of the same address cannot keep its host out.
		if source := bounds.Source(req.RemoteAddr); !r.Authority.Hosts.Joins(req.Context(), q) &&
			!(joins.Allow(source) && (q.Token != "" || strangers.Allow(source))) {
			w.Header().Set("Retry-After", "10")
			problem(w, http.StatusTooManyRequests, "too many requests to be enrolled came from your address")
			return
		}
		roots, err := r.Authority.Hosts.Roots()
		if err != nil {
			problem(w, http.StatusInternalServerError, sentence(err))
			return
		}
		token, e, err := r.Authority.Hosts.Enroll(req.Context(), q)
		r.auditEnroll(req, &q, e, err)
		if err != nil {
			status := enrollStatus(err)
			if status == http.StatusAccepted || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "30")
			}
			problem(w, status, sentence(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Enrolled{JWT: token, Expires: e.Expires, CA: string(roots)})
	}
}

// isListener reports whether the certificate of the listener is for the name or address in a Host header.
func isListener(c *tls.Config, header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]") // without a port
	}
	shown, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: host})
	return err == nil && shown.Leaf.VerifyHostname(host) == nil
}

// auditEnroll writes accepted and refused hosts to the audit log. Waiting hosts repeat their requests and are left out.
func (r *routes) auditEnroll(req *http.Request, q *enroll.Request, e *credential.Enrolled, err error) {
	if errors.Is(err, enroll.ErrPending) && len(e.History) > 0 &&
		time.Since(e.History[len(e.History)-1].Time) > time.Second {
		return
	}
	entry := audit.Entry{Action: "enroll.ask", Target: string(q.ID), User: "host", From: q.From}
	if errors.Is(err, enroll.ErrPending) {
		entry.Result, entry.Reason = audit.Done, err.Error()
	} else {
		// The log stores few refusals, so that unknown hosts cannot fill it.
		entry = entry.Ended(err, errors.Is(err, enroll.ErrFull) || enrollStatus(err) != http.StatusServiceUnavailable)
	}
	r.Audit.Write(req.Context(), entry)
}

func enrollStatus(err error) int {
	switch {
	case errors.Is(err, enroll.ErrPending):
		return http.StatusAccepted
	case errors.Is(err, enroll.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, enroll.ErrJoinUnknown), errors.Is(err, enroll.ErrJoinEnded):
		return http.StatusUnauthorized
	case errors.Is(err, enroll.ErrJoinPeel), errors.Is(err, enroll.ErrRejected):
		return http.StatusForbidden
	case errors.Is(err, enroll.ErrConflict):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}
