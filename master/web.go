package master

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/console"
	"github.com/seed-c01c3da5/zester/master/rest"
)

// checkREST checks the options of REST before anything is started or written.
func (m *Master) checkREST() error {
	o := m.o.REST
	if err := o.Console.Sessions.Check(); err != nil {
		return err
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("cannot serve REST with a certificate and no key, or with a key and no certificate")
	}
	if o.Listen == "" {
		if o.Hooks != nil {
			return errors.New("cannot receive webhooks without an address to listen on: set rest.listen")
		}
		if o.MCP != nil {
			return errors.New("cannot serve assistants without an address to listen on: set rest.listen")
		}
		if o.Cert != "" {
			return errors.New("cannot use a certificate for REST without an address to listen on")
		}
		return nil
	}
	config := &tls.Config{}
	if o.Cert != "" {
		var err error
		if config, err = pki.FromFiles(o.Cert, o.Key, m.log); err != nil {
			return err
		}
	}
	_, err := rest.New(rest.Options{Listen: o.Listen, TLS: config})
	return err
}

// reachable returns the HOST:PORT by which clients reach a listener. One that listens on all addresses is reached by
// the first of [Options.Names], else by the name of the host.
func (m *Master) reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return a.String()
	}
	if len(m.o.Names) > 0 {
		return net.JoinHostPort(m.o.Names[0], port)
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return net.JoinHostPort(name, port)
}

// consoleAddress returns where the console is served. Its Address is empty if it is not.
func (m *Master) consoleAddress() (at api.ConsoleAt, err error) {
	if m.o.REST.Console.Off || m.address == "" {
		return at, nil
	}
	at.Address = m.address
	at.Host = m.o.REST.Console.Host
	if m.o.REST.Cert != "" {
		return at, nil
	}
	ca, err := m.ca()
	if err != nil {
		return at, err
	}
	at.CA = string(ca.Bundle())
	return at, nil
}

// console returns the pages, nil if they are not served.
func (m *Master) console(nc *nats.Conn, s stores, server *apiserver.Server) *console.Console {
	o := m.o.REST.Console
	if o.Off || m.address == "" {
		return nil
	}
	return console.New(console.Options{
		Conn: nc, Sessions: s.sessions, For: server.For, Check: s.users.Check, Login: o.Login, Audit: s.audit,
		Fleet: cmp.Or(o.Fleet, "zester"), Zone: o.Zone, Proxies: o.Proxies, Log: m.log,
	})
}

// web returns the REST server. Without a certificate in the options, the authority in the data directory signs one.
func (m *Master) web() (*rest.Server, error) {
	o := rest.Options{
		Listen: m.o.REST.Listen, Host: m.o.REST.Console.Host, Hooks: m.o.REST.Hooks, MCP: m.o.REST.MCP, Log: m.log,
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, err
	}
	if m.o.REST.Cert != "" {
		if o.TLS, err = pki.FromFiles(m.o.REST.Cert, m.o.REST.Key, m.log); err != nil {
			return nil, err
		}
		return rest.New(o)
	}
	ca, err := m.ca()
	if err != nil {
		return nil, err
	}
	o.TLS = ca.Config(append(m.o.Names, host)...)
	return rest.New(o)
}
