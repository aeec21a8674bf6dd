package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

// consoleTimeout is how long the console may take to show its login.
const consoleTimeout = 5 * time.Second

// console opens the login of the console, as a browser does, and checks the certificate there.
func (d *doctor) console(ctx context.Context, at api.ConsoleAt, bus api.ClientOptions) {
	switch {
	case at.Address == "":
		d.found("console", sound, "", "the master that replied serves none")
		return
	case isLoopback(at.Address) && !d.a.isBesideMaster(bus.URL):
		d.found("console", sound, "", "the master serves it on its own host alone, at %s", at.Address)
		return
	}
	roots, err := consoleRoots(bus, at.CA)
	if err != nil {
		d.found("console", broken, hintAuthority, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, consoleTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at.Address+"/login", nil)
	if err != nil {
		d.found("console", broken, "set rest.listen in master.yaml to a HOST:PORT", "the master serves it at %q: %v",
			at.Address, err)
		return
	}
	r.Header.Set("Accept", "text/html")
	transport := consoleTransport(roots)
	defer transport.CloseIdleConnections()
	began := time.Now()
	resp, err := transport.RoundTrip(r)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		d.found("console", broken, "give rest.cert of master.yaml a certificate for the host in rest.listen",
			"the certificate at %s is not accepted: %v", at.Address, bad.Err)
		return
	}
	if err != nil {
		d.found("console", warning, "does the network let you through to rest.listen of master.yaml?",
			"does not answer at %s: %v", at.Address, err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		d.found("console", broken, "the log of the master says why", "shows no login at %s: %s", at.Address,
			resp.Status)
		return
	}
	d.found("console", sound, "", "answers at %s after %s", at.Address, time.Since(began).Round(time.Millisecond))
	d.dates("certificate of the console", resp.TLS.PeerCertificates[0],
		"restart the master: it makes a new one, unless rest.cert names yours")
}
